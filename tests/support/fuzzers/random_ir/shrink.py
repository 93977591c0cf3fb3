"""Shrinks a failing program: omits statements while it fails in the same way."""

import time
from collections.abc import Callable
from dataclasses import replace

from support.fuzzers.random_ir import programs
from support.fuzzers.random_ir.programs import Program

Fails = Callable[[Program], bool]


def shrink(program: Program, fails: Fails, seconds: float) -> Program:
    """Return the smallest failing program found within ``seconds``, or the program itself.

    ``program`` has its seed's statements; its launch may differ from the seed's.
    """
    until = time.monotonic() + seconds
    for smaller in (replace(program, blocks=1), replace(program, blocks=1, block=(1, 1, 1))):
        program = smaller if smaller != program and fails(smaller) else program
    without: frozenset[int] = frozenset()
    size = max(program.statements // 2, 1)
    while time.monotonic() < until:
        removed = False
        for end in range(program.statements, 0, -size):
            more = without | set(range(max(end - size, 0), end))
            text = programs.generate(program.seed, more).text
            if len(text) < len(program.text) and time.monotonic() < until:
                candidate = replace(program, text=text)
                if fails(candidate):
                    program, without, removed = candidate, more, True
        if size == 1 and not removed:
            break
        size = max(size // 2, 1)
    return program
