"""Reorders straight-line code from instruction by instruction to vector by vector.

A group's vectors are emitted instruction by instruction. Between two barriers, each of them
loads, computes and stores; instruction by instruction, the values of all vectors are live at
once and spill. LLVM may not reorder that: it cannot know that no other vector loads what a
vector stores before the next barrier. Code that fits the registers is not reordered.

Each vector's own accesses keep their order, and so do accesses that are made once for all
vectors relative to all others to the same memory. Pure computations move to their first use.
"""

import re
from dataclasses import field
from typing import Final

from vgpu_sim.exec.jit.text.writer import Text, Touched
from vgpu_sim.hal.compute.limits import WARP_THREADS
from vgpu_sim.records import dataclass

_NAME: Final = re.compile(r"%[\w.]+")
_DEFINED: Final = re.compile(r"  (%[\w.]+) = (.*)")
_LEAST_LINES: Final = 64


@dataclass(slots=True)
class _Segment:
    """Lines without a branch, a fence or anything else that involves all vectors."""

    lines: list[str] = field(default_factory=list)
    touched: dict[int, Touched] = field(default_factory=dict)
    before: list[list[int]] = field(default_factory=list)
    home: dict[str, int] = field(default_factory=dict)


def arrange(text: Text, tier: int) -> list[str]:
    """Return the lines of a function's body. Where too many values are live for the registers, the
    lines are reordered.

    In reordered code, all accesses of one warp precede those of the next warp. Accesses of one
    warp keep their relative order. Code of tier 0 is not reordered.
    """
    touched = text.touched
    if not tier:
        return text.body
    together = max(1, WARP_THREADS // text.width)
    registers = 32 if text.shared.embedded_rounding else 16
    ordered_lines: list[str] = []
    segment = _Segment()
    for number, line in enumerate(text.body):
        if number not in touched and not _is_pure(line):
            ordered_lines += [*_rearrange(segment, together, registers), line]
            segment = _Segment()
            continue
        if number in touched:
            segment.touched[len(segment.lines)] = touched[number]
        segment.lines.append(line)
    return [*ordered_lines, *_rearrange(segment, together, registers)]


def _is_pure(line: str) -> bool:
    definition = _DEFINED.match(line)
    if definition is None:
        return False
    instruction = definition[2]
    if instruction.startswith("load "):
        return "!invariant.load" in instruction
    if instruction.startswith("call "):
        return "@llvm." in instruction and "@llvm.masked." not in instruction
    return not instruction.startswith(("atomicrmw ", "cmpxchg ", "phi ", "alloca ", "load "))


def _stores(line: str) -> bool:
    return _DEFINED.match(line) is None


def _rearrange(segment: _Segment, together: int, registers: int) -> list[str]:
    lines, touched = segment.lines, segment.touched
    # Without stores, LLVM may choose the order itself.
    vectors = {part for n, (part, _) in touched.items() if part is not None and _stores(lines[n])}
    if len(lines) < _LEAST_LINES or len(vectors) <= together:
        return lines
    _connect(segment)
    if _most_alive(segment) <= registers:
        return lines

    def turn(number: int) -> tuple[int, int]:
        part = touched[number][0]
        return (-1 if part is None else part // together, number)

    own = sorted((n for n in touched if touched[n][0] is not None), key=turn)
    order: list[int] = []
    placed = [False] * len(lines)
    for number in [*own, *range(len(lines))]:
        _place(number, segment.before, placed, order)
    return [lines[number] for number in order]


def _place(
    number: int, predecessors: list[list[int]], placed: list[bool], order: list[int]
) -> None:
    """Append line ``number`` to ``order``, after the lines on which it depends."""
    pending = [number]
    while pending:
        current = pending[-1]
        missing = [n for n in predecessors[current] if not placed[n]]
        if placed[current] or not missing:
            pending.pop()
            if not placed[current]:
                placed[current] = True
                order.append(current)
        else:
            pending += reversed(missing)


def _connect(segment: _Segment) -> None:
    """Compute, for each line of the segment, the lines that must precede it."""
    last: dict[int, int] = {}  # the last access of each vector
    since: dict[str, list[int]] = {}  # accesses to each memory since the last one for all vectors
    common: dict[str, int] = {}
    for number, line in enumerate(segment.lines):
        names = _NAME.findall(line)
        predecessors = {segment.home[name] for name in names if name in segment.home}
        definition = _DEFINED.match(line)
        if definition is not None:
            segment.home[definition[1]] = number
        if number in segment.touched:
            part, memory = segment.touched[number]
            predecessors |= {common[memory]} if memory in common else set()
            if part is None:
                predecessors |= set(since.get(memory, ()))
                common[memory], since[memory] = number, []
            else:
                predecessors |= {last[part]} if part in last else set()
                last[part] = number
                since.setdefault(memory, []).append(number)
        segment.before.append(sorted(predecessors))


def _most_alive(segment: _Segment) -> int:
    """Return the maximum number of vectors that are live at once in the present order."""
    ends: dict[int, int] = {}
    for number, predecessors in enumerate(segment.before):
        for predecessor in predecessors:
            ends[predecessor] = number
    ending: dict[int, int] = {}
    for end in ends.values():
        ending[end] = ending.get(end, 0)
    alive = peak = 0
    for number, line in enumerate(segment.lines):
        if number in ending:
            alive -= ending[number]
        if number in ends and _is_vector(line):
            alive += 1
            ending[ends[number]] += 1
        peak = max(peak, alive)
    return peak


def _is_vector(line: str) -> bool:
    return line.startswith("  %") and " x " in line
