"""Predicts which instructions of short loops the hardware's compiler eliminates.

``ptxas`` unrolls innermost loops whose count is a small constant (PTX ISA, ``.pragma "nounroll"``).
This eliminates the instructions that only count: the counter, its comparison, the branch back. It
also eliminates the increment of a pointer that advances by a constant, since accesses have a
displacement. Iterations that load neighbouring addresses from shared memory load them together, up
to 16 bytes at a time. Loops whose count is known only at run time are assumed to stay as they are,
so issue counts remain upper estimates.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from vgpu_sim.isa import EFFECTS, Compare, Family, Instruction, Literal, Op, Register, Space
from vgpu_sim.perf.kernels.units import NO_UNITS, Part

_WIDEST: Final = 16  # bytes of one access
_MOST_ROUNDS: Final = 32  # iterations of a fully unrolled loop; a guess, undocumented
_MOST_COUNTED: Final = 4096  # iterations of a loop whose count is determined at all
_PARTLY: Final = 4  # iterations that follow each other where a loop is unrolled in part; measured
_LARGE: Final = 1 << 31  # from here a literal may be negative
_GOES_ON: Final = {
    Compare.LT: lambda one, other: one < other,
    Compare.LE: lambda one, other: one <= other,
    Compare.NE: lambda one, other: one != other,
}


def issue_shares(code: Sequence[Instruction], units: Mapping[int, Part] = NO_UNITS) -> list[float]:
    """Return, for each instruction, the share of its issues that remains after the hardware's
    compiler has unrolled loops. 1 means that no issue is eliminated. ``units`` are instructions
    that a unit beside the warps performs: warps do not issue them.
    """
    shares = [1.0] * len(code)
    for last, branch in enumerate(code):
        if branch.op is not Op.BRA or branch.target is None or branch.target > last:
            continue
        body = range(branch.target, last)
        if any(code[word].op.family is Family.CONTROL for word in body):
            continue
        counted = _rounds(code, body, branch)
        if counted is None:
            continue
        rounds, comparison = counted
        gone = [last, comparison]
        gone += [word for word in body if _is_folded(code, body, word, comparison)]
        for word in gone:
            shares[word] = 1 / (rounds if rounds <= _MOST_ROUNDS else _PARTLY)
        for word in body:
            shares[word] *= _accesses(code, gone, word, rounds)
    return [
        units[word].busy if word in units and not units[word].issued else share
        for word, share in enumerate(shares)
    ]


def _rounds(
    code: Sequence[Instruction], body: range, branch: Instruction
) -> tuple[int, int] | None:
    """Return a loop's number of iterations and the number of the instruction that compares the
    counter, if both can be determined.
    """
    if branch.guard is None or branch.guard.negated:
        return None
    writers = [word for word in body if branch.guard.predicate in code[word].dsts]
    if len(writers) != 1 or code[writers[0]].op is not Op.SETP:
        return None
    comparison = code[writers[0]]
    goes_on = _GOES_ON.get(comparison.compare) if comparison.compare is not None else None
    match comparison.srcs:
        case (Register() as counter, Literal(bound)) if goes_on is not None and bound < _LARGE:
            pass
        case _:
            return None
    steps = [word for word in body if counter in code[word].dsts]
    begin = next((w for w in reversed(range(body.start)) if counter in code[w].dsts), None)
    if len(steps) != 1 or steps[0] > writers[0] or begin is None:
        return None
    step, first = _step(code[steps[0]]), code[begin]
    if step is None or first.op is not Op.MOV or first.guard is not None:
        return None
    match first.srcs:
        case (Literal(value),) if value < _LARGE:
            pass
        case _:
            return None
    for rounds in range(1, _MOST_COUNTED + 1):
        value += step
        if not goes_on(value, bound):
            return rounds, writers[0]
    return None


def _step(word: Instruction) -> int | None:
    """Return by how much an instruction advances its register; None if it is not such an
    instruction.
    """
    if word.op not in (Op.ADD, Op.SUB) or word.guard is not None:
        return None
    match word.srcs:
        case (Register() as source, Literal(bits)) if word.dsts == (source,) and bits < _LARGE:
            return bits if word.op is Op.ADD else -bits
        case _:
            return None


def _is_folded(code: Sequence[Instruction], body: range, word: int, comparison: int) -> bool:
    """True if an instruction advances a register used only for counting or for addresses."""
    if _step(code[word]) is None:
        return False
    (register,) = code[word].dsts
    return all(
        index in (word, comparison)
        or register not in (*code[index].srcs, *code[index].dsts)
        or _is_address(code[index], register)
        for index in body
    )


def _accesses(code: Sequence[Instruction], gone: Sequence[int], word: int, rounds: int) -> float:
    """Return the share of an instruction's accesses that remains: below 1 if the accesses of
    successive iterations are adjacent.
    """
    access = code[word]
    width = access.vector * access.type.bytes
    if access.op is not Op.LD or access.space is not Space.SHARED or access.volatile:
        return 1.0
    steps = [index for index in gone if code[index].dsts == access.srcs[:1]]
    if len(steps) != 1 or _step(code[steps[0]]) != width or rounds * width % _WIDEST:
        return 1.0
    return min(1.0, width / _WIDEST)


def _is_address(word: Instruction, register: object) -> bool:
    if not EFFECTS[word.op].accesses or register in word.dsts:
        return False
    return word.srcs[0] == register and register not in word.srcs[1:]
