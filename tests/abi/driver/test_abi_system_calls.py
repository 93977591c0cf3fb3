"""Kernels' calls of the driver: printf, assertions, malloc and free, on both backends."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[1] / "programs" / "driver" / "system_calls.py"
TESTS = Path(__file__).parents[2]
# Each digit as a width and as a precision, and each flag with both.
NUMBERS = "".join(
    f"[%{flag}{width}{precision}d]"
    for flag in ("", "-", "+", " ", "0", "+-", "+0")
    for width, precision in (("", ""), (9, ""), (10, ""), (56, ""), (9, ".9"), (90, ".80"))
    if not ("0" in flag and precision)  # where Python differs from C
)


def run(scenario: str, environment, *more: str) -> subprocess.CompletedProcess[bytes]:
    paths = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, str(PROGRAM), scenario, *more],
        env={**environment, "PYTHONPATH": paths},
        capture_output=True,
        timeout=240,
        check=False,
    )


def test_printf_formats_as_c_does(either_backend):
    done = run("formats", either_backend, NUMBERS)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode() == (
        "plain\n"
        "-7|   -7|-7   |-0007|-7|-7\n"
        "4294967280 fffffff0 0XFFFFFFF0 37777777760\n"
        "Hi 4464 255\n"
        "-1099511627776 3 9223372036854775808\n"
        "1 2.500000 2.500e+00 2.5\n"
        "    42|1   |0.33\n"
        "[one][     two][three   ][fo][(null)]\n"
        "100% 0xabc %y 5%\n"
        "ends with "
        "\n" + "x" * 5000 + "9\n" + NUMBERS % ((-7,) * NUMBERS.count("["))
    )


def test_every_thread_prints_its_line_whole(either_backend):
    done = run("threads", either_backend)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b"thread 5\n" * 480


def test_what_the_fifo_does_not_hold_is_lost_and_said_to_be(either_backend):
    done = run("overflow", either_backend)
    assert done.returncode == 0, done.stderr.decode()
    lines = done.stdout.splitlines()
    assert lines.pop() == b"last"
    assert 300 <= len(lines) <= 384
    assert set(lines) == {b"twelve bytes"}


def test_an_assertion_is_printed_on_stderr_and_ends_the_context(either_backend):
    done = run("assertion", either_backend)
    assert (done.returncode, done.stdout) == (0, b"710\n"), done.stderr.decode()
    said = "a.cu:77: f: block: [0,0,0], thread: [5,0,0] Assertion `x > 0` failed.\n"
    assert said in done.stderr.decode()


def test_the_heap_gives_distinct_blocks_and_takes_them_back(either_backend):
    done = run("heap", either_backend)
    assert (done.returncode, done.stdout) == (0, b"719\n"), done.stderr.decode()


def test_limits(either_backend):
    done = run("limits", either_backend)
    assert done.returncode == 0, done.stderr.decode()


def test_the_stack_is_as_deep_as_the_program_says(either_backend):
    done = run("deep", either_backend)
    assert (done.returncode, done.stdout) == (0, b"714\n"), done.stderr.decode()


def test_a_corrupt_fifo_does_no_harm(either_backend):
    done = run("overwritten", either_backend)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.startswith(b"before\n")
    assert done.stdout.count(b"after\n") == 6
    assert len(done.stdout) < 1 << 20
