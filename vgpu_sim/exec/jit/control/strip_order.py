"""Brings straight code of many strips into the order of the strips, where registers are short.

A group's strips are written word by word. Between two barriers each of them loads, computes and
stores; word by word all strips' values live at once, and memory holds them. LLVM may not change
that: it cannot know that a strip's stores are nobody else's loads before the next barrier.

A strip's own accesses keep their order, and so do those that are made once for all strips towards
all others to the same memory. What else is computed stands where it is needed first.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from vgpu_sim.exec.jit.text.writer import Text, Touched
from vgpu_sim.hal.compute.limits import WARP_THREADS

_NAME: Final = re.compile(r"%[\w.]+")
_DEFINED: Final = re.compile(r"  (%[\w.]+) = (.*)")
_LEAST_LINES: Final = 64


@dataclass(slots=True)
class _Segment:
    """Lines without a branch, a fence or anything else that all strips wait for."""

    lines: list[str] = field(default_factory=list)
    touched: dict[int, Touched] = field(default_factory=dict)
    before: list[list[int]] = field(default_factory=list)
    home: dict[str, int] = field(default_factory=dict)


def arrange(text: Text, tier: int) -> list[str]:
    """Return the body with one warp's accesses after the other's, where registers are short.

    Lanes of a warp keep their order among each other. Provisional code stays as it is.
    """
    touched = text.touched
    if not tier:
        return text.body
    together = max(1, WARP_THREADS // text.width)
    registers = 32 if text.shared.embedded_rounding else 16
    found: list[str] = []
    segment = _Segment()
    for number, line in enumerate(text.body):
        if number not in touched and not _is_pure(line):
            found += [*_arranged(segment, together, registers), line]
            segment = _Segment()
            continue
        if number in touched:
            segment.touched[len(segment.lines)] = touched[number]
        segment.lines.append(line)
    return [*found, *_arranged(segment, together, registers)]


def _is_pure(line: str) -> bool:
    made = _DEFINED.match(line)
    if made is None:
        return False
    what = made[2]
    if what.startswith("load "):
        return "!invariant.load" in what
    if what.startswith("call "):
        return "@llvm." in what and "@llvm.masked." not in what
    return not what.startswith(("atomicrmw ", "cmpxchg ", "phi ", "alloca ", "load "))


def _stores(line: str) -> bool:
    return _DEFINED.match(line) is None


def _arranged(segment: _Segment, together: int, registers: int) -> list[str]:
    lines, touched = segment.lines, segment.touched
    # Without stores LLVM may choose the order itself.
    strips = {strip for n, (strip, _) in touched.items() if strip is not None and _stores(lines[n])}
    if len(lines) < _LEAST_LINES or len(strips) <= together:
        return lines
    _connect(segment)
    if _most_alive(segment) <= registers:
        return lines

    def turn(number: int) -> tuple[int, int]:
        strip = touched[number][0]
        return (-1 if strip is None else strip // together, number)

    own = sorted((n for n in touched if touched[n][0] is not None), key=turn)
    order: list[int] = []
    done = [False] * len(lines)
    for number in [*own, *range(len(lines))]:
        _place(number, segment.before, done, order)
    return [lines[number] for number in order]


def _place(number: int, before: list[list[int]], done: list[bool], order: list[int]) -> None:
    """Add a line, and before it what it needs."""
    pending = [number]
    while pending:
        current = pending[-1]
        missing = [n for n in before[current] if not done[n]]
        if done[current] or not missing:
            pending.pop()
            if not done[current]:
                done[current] = True
                order.append(current)
        else:
            pending += reversed(missing)


def _connect(segment: _Segment) -> None:
    """Find which lines each one must stand behind."""
    last: dict[int, int] = {}  # of each strip
    since: dict[str, list[int]] = {}  # of each memory, since the last access for all strips
    common: dict[str, int] = {}
    for number, line in enumerate(segment.lines):
        names = _NAME.findall(line)
        before = {segment.home[name] for name in names if name in segment.home}
        made = _DEFINED.match(line)
        if made is not None:
            segment.home[made[1]] = number
        if number in segment.touched:
            strip, memory = segment.touched[number]
            before |= {common[memory]} if memory in common else set()
            if strip is None:
                before |= set(since.get(memory, ()))
                common[memory], since[memory] = number, []
            else:
                before |= {last[strip]} if strip in last else set()
                last[strip] = number
                since.setdefault(memory, []).append(number)
        segment.before.append(sorted(before))


def _most_alive(segment: _Segment) -> int:
    """Return how many vectors are alive at once, as the lines stand."""
    ends: dict[int, int] = {}
    for number, before in enumerate(segment.before):
        for one in before:
            ends[one] = number
    ending: dict[int, int] = {}
    for end in ends.values():
        ending[end] = ending.get(end, 0)
    alive = most = 0
    for number, line in enumerate(segment.lines):
        if number in ending:
            alive -= ending[number]
        if number in ends and _is_vector(line):
            alive += 1
            ending[ends[number]] += 1
        most = max(most, alive)
    return most


def _is_vector(line: str) -> bool:
    return line.startswith("  %") and " x " in line
