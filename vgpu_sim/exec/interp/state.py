"""Explicit state of interpreted warps: registers, predicates and the reconvergence stack.

A ``Warp`` holds any multiple of 32 lanes. With 32 lanes it is the warp that a debugger steps;
``run`` uses wide ones if lanes of different warps do not interact: the active mask of a wide warp,
restricted to one warp's 32 lanes, is the mask of that warp when it runs alone.
"""

import numpy as np

from vgpu_sim.exec.interp.address_space import Words
from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.launch import InterpretedLaunch
from vgpu_sim.exec.interp.numbers.bits import WARP_LANES, Mask
from vgpu_sim.exec.interp.spaces import Spaces
from vgpu_sim.records import dataclass


@dataclass(slots=True)
class StackEntry:
    """Lanes that run from ``pc`` until they reach the instruction ``reconvergence``.

    If ``reconvergence`` is -1, the lanes run until they end.
    """

    pc: int
    mask: Mask
    reconvergence: int


@dataclass(frozen=True, slots=True)
class StepRecord:
    """The effect of one step of a warp.

    ``mask`` has the lanes that executed the instruction (active, and with a true guard).
    ``addresses`` has, for each of these lanes, the address of the first element that it accessed.
    It is None if the instruction does not access memory.
    """

    word: int
    mask: Mask
    addresses: Words | None


class Warp(Lanes):
    """``count`` warps of a launch, from index ``first`` on, that execute in lockstep.

    They begin at the kernel's first instruction.

    Attributes:
        stack: the reconvergence stack, whose last entry is its top. The top entry runs first. The
            lanes of an entry are a subset of the lanes of each entry below it.
    """

    __slots__ = ("stack",)

    def __init__(self, launch: InterpretedLaunch, first: int, count: int = 1) -> None:
        lanes = count * WARP_LANES
        super().__init__(launch, lanes, Spaces(launch, lanes))
        lane = np.arange(lanes, dtype=np.int64)
        warp = first + lane // WARP_LANES
        thread = warp % launch.warps_per_block * WARP_LANES + lane % WARP_LANES
        self.assign_threads(slice(None), thread, warp // launch.warps_per_block)
        exists: Mask = thread < launch.threads_per_block
        self.stack = [StackEntry(0, exists, -1)]

    @property
    def done(self) -> bool:
        """Return whether all lanes of the warp have ended."""
        return not self.stack

    @property
    def pc(self) -> int:
        """The index of the instruction that the next step executes. Valid only while ``done`` is
        false.
        """
        return self.stack[-1].pc

    @property
    def active(self) -> Mask:
        """The lanes that the next step executes. Valid only while ``done`` is false."""
        return self.stack[-1].mask

    def reconverge(self) -> None:
        """Pop the top entry of the reconvergence stack if it has reached its reconvergence point or
        has no lanes left. Repeat this for each new top entry.
        """
        while self.stack:
            top = self.stack[-1]
            if top.pc != top.reconvergence and top.mask.any():
                return
            self.stack.pop()
