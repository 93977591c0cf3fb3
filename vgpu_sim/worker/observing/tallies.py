"""Resets and reads the counters of an instrumented kernel (``counting``)."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.errors import BadAddress
from vgpu_sim.exec.interp import Memory
from vgpu_sim.records import dataclass
from vgpu_sim.worker.observing.counting import Plan

_BYTES: Final = 8
_MOST_COUNTED: Final = 1 << 56  # beyond any launch's count: the kernel itself wrote there


@dataclass(frozen=True, slots=True)
class Tally:
    """The values of a kernel's counters after a launch.

    ``counters`` holds how often each part of the code was executed. ``longest`` is the number of
    cycles of the launch's longest thread. ``slots`` has one sum for each group of blocks: the
    issues of all blocks in the group. For a kernel without loops, ``longest`` is 0 and ``slots`` is
    None.
    """

    counters: tuple[int, ...]
    longest: int
    slots: NDArray[np.uint64] | None


def clear(memory: Memory, segment_base: int, plan: Plan) -> None:
    """Set a kernel's counters to zero before a launch."""
    where = _words(segment_base + plan.offset, plan.bytes)
    memory.store(where, np.zeros(len(where), dtype=np.uint64), _BYTES)


def read(memory: Memory, segment_base: int, plan: Plan) -> Tally | None:
    """Return the counters of a launch that has ended. Returns None if its module is unloaded or the
    launch overwrote the counters.
    """
    if not plan.counters:
        return Tally((), 0, None)
    try:
        words = memory.load(_words(segment_base + plan.offset, plan.bytes), _BYTES)
    except BadAddress:  # unloaded meanwhile
        return None
    if words.max() >= _MOST_COUNTED:
        return None
    counters = tuple(int(word) for word in words[: plan.counters])
    if not plan.loops:
        return Tally(counters, 0, None)
    return Tally(counters, int(words[plan.counters]), words[plan.counters + 1 :].copy())


def _words(begin: int, size: int) -> np.ndarray:
    return np.uint64(begin) + np.arange(0, size, _BYTES, dtype=np.uint64)
