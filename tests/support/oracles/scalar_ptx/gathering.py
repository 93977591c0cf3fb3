"""Threads of a block that wait in collectives of their warps, by the definition in docs/isa.md."""

from collections.abc import Callable
from dataclasses import dataclass

from support.oracles import warp_oracle

OPCODES = frozenset(["shfl", "vote", "match", "redux", "elect"])


@dataclass(frozen=True)
class Arrival:
    """A thread at a collective: the instruction, its member mask, its operands a, b and c."""

    words: tuple[str, ...]
    members: int
    given: tuple[int, int, int]
    write: Callable[[int, int], None]


def complete(waiting: dict[int, Arrival], living: set[int]) -> list[int]:
    """Perform each collective at which all named threads have arrived; return the resuming threads.

    ``waiting`` and ``living`` are threads of the block by their number; the latter have not ended.
    """
    free: list[int] = []
    for thread, arrival in waiting.items():
        first = thread - thread % 32
        named = {first + lane for lane in range(32) if arrival.members >> lane & 1} & living
        if thread in free or not named <= waiting.keys() - set(free):
            continue
        kind = (arrival.words, arrival.members)
        if any((waiting[mate].words, waiting[mate].members) != kind for mate in named):
            continue
        given = [(0, 0, 0)] * 32
        for mate in named:
            given[mate - first] = waiting[mate].given
        lanes = {mate - first for mate in named}
        for mate in named:
            outcome = warp_oracle.result(arrival.words, mate - first, lanes, given)
            waiting[mate].write(*outcome)
        free += sorted(named)
    return free
