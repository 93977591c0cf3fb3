"""Numbers of system calls, by which filters permit them."""

from pathlib import Path

import pytest

from vgpu_sim.system import call_numbers

HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")


def test_the_numbers_are_the_kernel_s() -> None:
    """Against the kernel's own table, where its headers are installed."""
    if not HEADER.exists():
        pytest.skip("NOT RUN: no kernel headers here")
    words = (line.split() for line in HEADER.read_text().splitlines())
    kernel = {
        w[1].removeprefix("__NR_"): int(w[2]) for w in words if w[:1] == ["#define"] and len(w) == 3
    }
    # Some headers lack newer calls, such as futex_waitv.
    known = {name: number for name, number in call_numbers.NUMBERS.items() if name in kernel}
    assert known == {name: kernel[name] for name in known}
    assert len(known) > 0.9 * len(call_numbers.NUMBERS)


def test_a_name_that_is_none_is_an_error() -> None:
    with pytest.raises(KeyError):
        call_numbers.numbers_of("read no_such_call")
