"""Analyses whether a kernel's control flow depends on values in memory, or on other threads.

Registers are treated as a whole, and the order of writes is ignored, so the analysis also
reports dependences that are only possible.
"""

from collections.abc import Iterable

from vgpu_sim.exec import cfg
from vgpu_sim.isa import EFFECTS, Function, Instruction, Op, Predicate, Register, Space, polls
from vgpu_sim.records import dataclass

Place = Register | Predicate


@dataclass(frozen=True, slots=True)
class Dependence:
    """What a kernel's control flow depends on.

    ``on_memory`` is set if branches or addresses depend on values in memory. ``waiting`` holds the
    instructions of loops in which a thread may wait for another thread to end the loop.
    """

    on_memory: bool
    waiting: frozenset[int]


def dependence_of(function: Function) -> Dependence:
    """Return what a kernel's control flow depends on. If the control flow cannot be analysed,
    ``waiting`` is empty.
    """
    code = function.code
    loaded = _propagate(
        code,
        (
            place
            for one in code
            if EFFECTS[one.op].reads and one.space is not Space.PARAM
            for place in _written_places(one)
        ),
    )
    on_memory = any(
        (one.guard is not None and one.guard.predicate in loaded)
        or (EFFECTS[one.op].accesses and bool(one.srcs) and one.srcs[0] in loaded)
        for one in code
    )
    try:
        graph = cfg.build(function)
    except cfg.ControlFlowError:
        return Dependence(on_memory, frozenset())
    waiting: set[int] = set()
    for blocks in graph.loops.values():
        words = [word for block in blocks for word in graph.blocks[block].words]
        seen = _propagate(
            code,
            (place for word in words if polls(code[word]) for place in _written_places(code[word])),
        )
        leaves = (code[word].guard for word in words if EFFECTS[code[word].op].leaves)
        if any(guard is not None and guard.predicate in seen for guard in leaves):
            waiting.update(words)
    return Dependence(on_memory, frozenset(waiting))


def _written_places(instruction: Instruction) -> Iterable[Place]:
    if instruction.op is Op.RED:
        return ()
    return (one for one in instruction.dsts if one is not None)


def _propagate(code: tuple[Instruction, ...], sources: Iterable[Place]) -> set[Place]:
    """Return the registers and predicates whose values may depend on ``sources``."""
    found = set(sources)
    grew = bool(found)
    while grew:
        grew = False
        for one in code:
            guard = one.guard.predicate if one.guard is not None else None
            if guard in found or any(source in found for source in one.srcs):
                more = {place for place in one.dsts if place is not None} - found
                found |= more
                grew = grew or bool(more)
    return found
