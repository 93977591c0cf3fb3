"""Resolve what the lanes of resident blocks are about to access, by memory space.

The interpreter calls ``ResidentBlocks.watch`` before every instruction; with what that gets,
``accesses_of`` yields the accesses of the instruction.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from vgpu_sim.exec.interp.accesses import addresses_of
from vgpu_sim.exec.interp.cta import ResidentBlocks
from vgpu_sim.exec.interp.numbers.bits import WARP_LANES, Mask
from vgpu_sim.isa import EFFECTS, Family, Instruction, Op, Space
from vgpu_sim.worker.observing.accesses import Numbers

_ROWS_BYTES: Final = 16  # that a lane's address of LDMATRIX stands for
_EDGE: Final = 8


@dataclass(frozen=True, slots=True)
class Access:
    """What one instruction accesses in one space, with a number for each lane that does.

    ``warps`` counts the warps of all resident blocks; ``addresses`` are offsets in shared and local
    memory. A generic address is one of the space that it is in, or stays generic: then it is one of
    global memory. Each lane accesses ``width`` bytes.
    """

    space: Space
    warps: Numbers
    addresses: Numbers
    width: int
    atomic: bool


def accesses_of(
    blocks: ResidentBlocks, instruction: Instruction, allowed: Mask
) -> Iterator[Access]:
    """Yield what the lanes that the guard lets through access; nothing of parameters."""
    space = instruction.space
    if not EFFECTS[instruction.op].accesses or space is Space.PARAM or not allowed.any():
        return
    width = instruction.vector * instruction.type.bytes
    if instruction.op is Op.LDMATRIX:
        lane = np.arange(len(allowed)) % WARP_LANES
        allowed, width = allowed & (lane < _EDGE * instruction.vector), _ROWS_BYTES
    addresses = addresses_of(blocks, instruction, allowed).astype(np.int64)
    warps = np.flatnonzero(allowed) // WARP_LANES
    atomic = instruction.op.family is Family.ATOMIC
    if space is Space.GENERIC:
        for one, window in _windows(blocks):
            there = addresses >> 32 == window
            if there.any():
                yield Access(one, warps[there], addresses[there] & 0xFFFF_FFFF, width, atomic)
                warps, addresses = warps[~there], addresses[~there]
        if not len(warps):
            return
    yield Access(space, warps, addresses, width, atomic)


def _windows(blocks: ResidentBlocks) -> Iterator[tuple[Space, int]]:
    """Yield the upper halves of generic addresses of shared and of local memory, where there is."""
    launch = blocks.launch
    if launch.shared_bytes:
        yield Space.SHARED, launch.shared_window >> 32
    if launch.local_bytes:
        yield Space.LOCAL, launch.local_window >> 32
