"""Shrinks a failing kernel: removes lines while it fails in the same way."""

import time
from collections.abc import Callable
from dataclasses import replace

from support.fuzzers.fuzzing.trial import Finding
from support.fuzzers.fuzzing.workers import Task, Workers
from support.kernels.random_kernels.kernels import Kernel

Fails = Callable[[Kernel], bool]


def still_fails(workers: Workers, finding: Finding, plans: tuple[object, ...] | None) -> Fails:
    """Return a test of whether a candidate yields a finding with the same signature."""

    def test(kernel: Kernel) -> bool:
        for _, report in workers.examine(iter([Task(kernel, plans=plans)])):
            return any(f.signature() == finding.signature() for f in report.findings)
        return False

    return test


def shrink(kernel: Kernel, fails: Fails, seconds: float) -> Kernel:
    """Return the smallest failing kernel found within ``seconds``, or the kernel itself."""
    until = time.monotonic() + seconds
    if kernel.grid != (1, 1, 1):
        smaller = replace(kernel, grid=(1, 1, 1))
        kernel = smaller if fails(smaller) else kernel
    size = max(len(_body(kernel)) // 2, 1)
    while time.monotonic() < until:
        kernel, removed = _without(kernel, size, fails, until)
        if size == 1 and not removed:
            break
        size = max(size // 2, 1)
    return kernel


def _without(kernel: Kernel, size: int, fails: Fails, until: float) -> tuple[Kernel, bool]:
    """Try to remove each run of ``size`` lines, from the end."""
    removed = False
    place = len(_body(kernel))
    while place > 0 and time.monotonic() < until:
        body = _body(kernel)
        start = max(place - size, 0)
        candidate = _with_body(kernel, body[:start] + body[place:])
        if fails(candidate):
            kernel, removed = candidate, True
        place = start
    return kernel, removed


def _is_frame(line: str) -> bool:
    return line.startswith((".version", ".target", ".address_size", ".visible", "{", "}"))


def _body(kernel: Kernel) -> list[str]:
    return [line for line in kernel.code.splitlines() if not _is_frame(line)]


def _with_body(kernel: Kernel, body: list[str]) -> Kernel:
    """Return the kernel with ``body`` in place of its statements; declarations precede code."""
    frame = [line for line in kernel.code.splitlines() if _is_frame(line)]
    outside = [line for line in body if line.startswith((".const", ".global"))]
    inside = [line for line in body if line not in outside]
    head = [line for line in frame if line not in ("{", "}") and not line.startswith(".visible")]
    entry = next(line for line in frame if line.startswith(".visible"))
    return kernel.with_code("\n".join([*head, *outside, entry, "{", *inside, "}", ""]))
