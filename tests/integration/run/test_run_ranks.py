"""NCCL with several ranks, in one process and in several."""

import sys
from pathlib import Path

import pytest

from support.processes.tessera_run import LIBCUDA, to_its_end

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (LIBCUDA.parent / "math" / "libnccl.so.2").exists(),
        reason="NOT RUN: python -m vgpu_sim.native.build",
    ),
]
PROGRAM = str(Path(__file__).parents[2] / "support" / "scripts" / "nccl_ranks.py")
FORGERIES = str(Path(__file__).parents[2] / "support" / "tools" / "nccl_forgeries.py")
# Starts ranks of one communicator: FILE, then DEVICE and ENDING of each rank.
SEVERAL = """
import subprocess, sys
path, *rest = sys.argv[2:]
ranks = list(zip(rest[::2], rest[1::2]))
running = [
    subprocess.Popen([sys.executable, sys.argv[1], "rank", path, str(n), str(len(ranks)), *one],
                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for n, one in enumerate(ranks)
]
for one in running:
    print(repr(one.communicate()[0]), one.returncode)
"""


def run(place: Path, *command: str, gpus: int = 3) -> tuple[str, str]:
    done = to_its_end(
        place,
        "run",
        "--board",
        "a30",
        "--count",
        str(gpus),
        "--",
        sys.executable,
        *command,
        timeout_s=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr


def run_several(place: Path, *ranks: str) -> list[str]:
    """Run ranks, each with its device and ending; return what each prints, with its exit status."""
    words = [word for rank in ranks for word in rank.split()]
    return run(place, "-c", SEVERAL, PROGRAM, str(place / "id"), *words)[0].splitlines()


def test_collectives_and_messages_of_three_gpus_agree_with_numpy(tmp_path: Path) -> None:
    said, complaints = run(tmp_path, PROGRAM, "all")
    assert said == "right\n"
    (captured,) = (line for line in complaints.splitlines() if "graph" in line)
    assert captured == (
        "tessera: NCCL operations of several ranks cannot be captured in a CUDA graph (ncclInvalidUsage)"
    )


def test_processes_find_each_other_among_strangers(tmp_path: Path) -> None:
    ended = repr("reduced\nended\n") + " 0"
    assert run_several(tmp_path, "0 end", "1 end", "2 end") == [ended] * 3


def test_a_rank_that_dies_is_an_error_of_the_others(tmp_path: Path) -> None:
    *others, died = run_several(tmp_path, "0 wait", "1 wait", "2 die")
    assert died == repr("reduced\n") + " -9"
    for said in others:
        assert "error 6 the connection to another rank ended before ncclAllReduce" in said
        assert said.endswith("ended\\n' 0")


def test_two_ranks_on_one_gpu_are_refused(tmp_path: Path) -> None:
    said = run_several(tmp_path, "0 end", "1 end", "0 end")
    line = (
        "duplicate GPU detected: ranks 0 and 2 of an NCCL communicator are on the same CUDA device"
    )
    assert [one for one in said if line in one and "init 5" in one] == said
    assert len(said) == 3


def test_data_that_its_sender_did_not_send_ends_the_communicator(tmp_path: Path) -> None:
    """Each port that waits for ranks is closed when the last one has come, too."""
    acts = ("right", "changed", "repeated", "swapped", "reflected")
    output, _ = run(tmp_path, FORGERIES, *acts, gpus=1)
    refusal = "data from rank 1 {} ncclAllReduce has a wrong tag: it was changed on the way, or rank 1 did not send it"
    assert output.splitlines() == [
        "right 0 [11.0, 22.0, 10.0, 20.0]",
        *(f"{act} 6 {refusal.format('during')}" for act in acts[1:4]),
        f"reflected 6 {refusal.format('before')}",
    ]
