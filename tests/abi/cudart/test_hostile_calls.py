"""Hostile calls, killed clients, and many threads with many contexts: nothing but the caller is
affected. ``make fuzz hostile=1`` and ``make fuzz kills=1`` run long ones.
"""

import subprocess
from pathlib import Path

from support.fuzzers import random_kills
from support.fuzzers.hostile_calls import campaign

CALLS, KILLS = 4500, 4


def test_hostile_arguments_end_at_most_the_caller(environment, libraries) -> None:
    report = campaign.run(environment, libraries, seed=26, calls=CALLS, of_a_process=1500)
    assert report.defects == []
    assert report.calls >= CALLS
    assert sum(report.crashes.values()) < report.processes, report.examples


def test_a_caller_that_ends_before_its_first_call_is_a_defect(libraries) -> None:
    report = campaign.Report()
    paths = [str(Path(campaign.__file__).parents[n]) for n in (3, 4)]
    environment = {"PYTHONPATH": ":".join(paths)}  # no device
    path = libraries / "libcuda.so.1"
    campaign._run_one(report, "libcuda", 1, 10, environment, path)
    assert (report.calls, len(report.defects)) == (0, 1)
    assert "no device" in report.defects[0] or "libcuda.so.1" in report.defects[0]


def test_no_call_begins_and_no_client_starts_after_the_time(node, environment, libraries) -> None:
    calls = campaign.run(environment, libraries, 1, calls=10**9, of_a_process=50, seconds=0.001)
    kills = random_kills.kill_clients(node, environment, seed=1, count=10**9, seconds=0.001)
    assert (calls.defects, kills.defects) == ([], [])
    assert calls.processes <= 1
    assert kills.kills <= 2


def test_killed_clients_leave_nothing(node, environment) -> None:
    report = random_kills.kill_clients(node, environment, seed=26, count=KILLS)
    assert (report.kills, report.defects) == (KILLS, [])


def test_threads_with_contexts_and_streams_of_both_apis(compile_c, environment, libraries) -> None:
    """Beside them, a thread loads and closes the libraries; then the process forks."""
    program = compile_c("crowd", f"-L{libraries}", "-lcuda", "-ldl")
    sizes = ["6", "3", "2", "2"]  # threads, contexts, streams of each, rounds
    done = subprocess.run(
        [program, *sizes, libraries / "libcudart.so.12"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "failures 0\n"), done.stderr
