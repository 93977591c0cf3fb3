"""``tessera run`` passes signals and statuses through and leaves nothing behind, however it ends."""

import os
import resource
import signal
import subprocess
import sys

import pytest

from support.processes.gpud_process import wait_until
from support.processes.tessera_run import (
    COMPUTES,
    EXAMPLES,
    environment,
    parts_when_computing,
    processes_naming,
    run,
    run_command,
    start,
    tessera,
)

SLEEPER = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("term", flush=True), os._exit(7)))
print(os.getpid(), os.environ["TESSERA_TOKEN"], flush=True)
time.sleep(60)
"""
VECTOR_ADD = f"{sys.executable} {EXAMPLES}/vectoradd.py --n 2048 --seconds 1"


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (("true",), 0),
        (("sh", "-c", "exit 42"), 42),
        (("sh", "-c", "kill -SEGV $$"), 128 + signal.SIGSEGV),
        (("no-such-program-anywhere",), 127),
        (("/etc/passwd",), 126),
    ],
)
def test_statuses_pass_through(place, command, status):
    assert run(place, *command).returncode == status


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--board", "h100", "--slice", "1g.10gb", "--", "true"), "h100-80gb"),
        (("--board", "h100-80gb", "--slice", "1g.5gb", "--", "true"), "1g.10gb, 1g.10gb+me"),
        (("--board", "h100-80gb", "--slice", "1g.10gb", "--cc", "12.0", "--", "true"), "9.0"),
        (("--board", "h100-80gb", "--slice", "1g.10gb", "--cc", "9.7", "--", "true"), "8.9, 9.0"),
        (("--board", "h100-80gb", "--slice", "7g.80gb", "--count", "9", "--", "true"), "at most 8"),
        (("--board", "h100-80gb", "--slice", "1g.10gb"), "COMMAND"),
    ],
)
def test_wrong_arguments_are_2_and_name_what_is_right(place, arguments, words):
    done = subprocess.run(
        tessera("run", *arguments),
        env=environment(place),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert words in done.stderr


def test_a_signal_reaches_the_program_and_its_status_comes_back(place):
    with start(place, sys.executable, "-c", SLEEPER) as running:
        running.stdout.readline()
        running.send_signal(signal.SIGTERM)
        assert running.communicate(timeout=60)[0] == "term\n"
        assert running.returncode == 7


def test_the_status_survives_a_parent_that_ignores_its_children(place):
    done = subprocess.run(
        run_command("sh", "-c", "exit 42"),
        env=environment(place),
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
        check=False,
    )
    assert done.returncode == 42


def test_a_program_that_dies_of_the_signal_is_128_and_it(place):
    with start(place, "sh", "-c", "echo up; exec sleep 60") as running:
        running.stdout.readline()
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=60)
        assert running.returncode == 128 + signal.SIGTERM


def test_a_terminals_interrupt_reaches_the_program_once(place):
    code = """
import os, signal, time
got = []
signal.signal(signal.SIGINT, lambda *_: got.append(1))
print("up", flush=True)
deadline = time.monotonic() + 60
while not got and time.monotonic() < deadline: time.sleep(0.01)
time.sleep(0.5)
print("interrupts", len(got), flush=True)
"""
    pid, terminal = os.forkpty()
    if pid == 0:
        os.chdir(place)
        command = run_command(sys.executable, "-c", code)
        os.execve(command[0], command, environment(place))
    output = b""
    typed = False
    while True:
        try:
            chunk = os.read(terminal, 1024)
        except OSError:
            break
        if not chunk:
            break
        output += chunk
        if b"up" in output and not typed:
            typed = True
            os.write(terminal, b"\x03")
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert b"interrupts 1" in output, output
    assert os.waitstatus_to_exitcode(status) == 0


def test_sigkill_of_the_run_leaves_nothing(place):
    with start(place, *COMPUTES) as running:
        parts = parts_when_computing(place, running)
        assert parts.any_left()
        running.kill()
        running.communicate(timeout=60)
    wait_until(lambda: not parts.any_left(), 60)
    wait_until(lambda: not processes_naming(str(place)), 60)
    wait_until(lambda: not list(place.glob("tessera-*")), 60)


def test_the_next_run_removes_the_remains_of_two_kills(place):
    """After kills of the command and of its gpud no process is left to remove the run directory."""
    with start(place, *COMPUTES) as running:
        parts = parts_when_computing(place, running)
        (left,) = place.glob("tessera-*")
        assert (left / "token").stat().st_mode & 0o777 == 0o600
        running.send_signal(signal.SIGSTOP)  # it is not notified of gpud's end
        os.kill(parts.gpud, signal.SIGKILL)
        (program,) = (p for p, c in processes_naming(str(place)) if c.split()[1:2] == [COMPUTES[1]])
        running.kill()
        os.kill(program, signal.SIGKILL)
        running.communicate(timeout=60)
    assert left.exists()
    wait_until(lambda: not parts.any_left(), 60)
    assert run(place, "true").returncode == 0
    assert not left.exists()


def test_an_ordinary_end_leaves_nothing(place):
    with start(place, *COMPUTES) as running:
        parts = parts_when_computing(place, running)
        _, errors = running.communicate(timeout=60)
        assert running.returncode == 0, errors
    assert not parts.any_left()
    assert not list(place.glob("tessera-*"))


def test_sigkill_of_the_run_ends_its_programs_children_too(place):
    with start(place, "sh", "-c", "setsid sleep 600 & echo up; sleep 600") as running:
        running.stdout.readline()
        wait_until(
            lambda: len([1 for _, c in processes_naming(str(place)) if "sleep 600" in c]) > 1
        )
        running.kill()
        running.communicate(timeout=60)
    wait_until(lambda: not processes_naming(str(place)), 60)
    wait_until(lambda: not list(place.glob("tessera-*")), 60)


def test_sigkill_of_gpud_does_not_disturb_the_program(place):
    with start(place, *COMPUTES) as running:
        parts = parts_when_computing(place, running)
        os.kill(parts.gpud, signal.SIGKILL)
        output, errors = running.communicate(timeout=60)
        assert running.returncode == 0, errors
        assert "2048 results verified" in output
    wait_until(lambda: not parts.any_left(), 60)


def test_sigkill_of_the_worker_is_a_clean_error_of_the_program(place):
    with start(place, *COMPUTES) as running:
        parts = parts_when_computing(place, running)
        os.kill(parts.workers[0], signal.SIGKILL)
        output, errors = running.communicate(timeout=60)
        assert running.returncode == 1
        assert "CUDA_ERROR_LAUNCH_FAILED" in errors
        assert "verified" not in output


def test_a_stopped_worker_stops_the_program_and_nothing_is_computed(place):
    with start(place, *COMPUTES) as running:
        (worker,) = parts_when_computing(place, running).workers
        os.kill(worker, signal.SIGSTOP)
        with pytest.raises(subprocess.TimeoutExpired):
            # Its input ends, so it should end too; but its last launches need the worker.
            running.communicate(timeout=6)
        os.kill(worker, signal.SIGCONT)
        output, errors = running.communicate(timeout=60)
        assert running.returncode == 0, errors
        assert "2048 results verified" in output


def test_two_runs_at_once_do_not_see_each_other(place):
    code = "import os; print(sorted(os.listdir(os.environ['TESSERA_SLICES_DIR'])))"
    both = [
        start(place, "sh", "-c", f'{VECTOR_ADD}; {sys.executable} -c "{code}"') for _ in range(2)
    ]
    slices = []
    for running in both:
        with running:
            output, errors = running.communicate(timeout=90)
            assert "2048 results verified" in output, errors
            slices.append(output.splitlines()[-1])
    assert slices[0] != slices[1]


def test_it_starts_quickly_enough_to_be_used_by_hand(place):
    run(place, "true")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert run(place, "true").returncode == 0
    # Not after a fixed time, because the machine may be busy.
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 3
