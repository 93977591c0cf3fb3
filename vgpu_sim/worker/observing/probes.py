"""Resolves the addresses that the lanes of resident blocks are about to access, by memory space.

The interpreter calls ``ResidentBlocks.watch`` before every instruction; ``accesses_of`` takes
the arguments of that call and yields the accesses of the instruction.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from vgpu_sim.exec.interp.accesses import addresses_of
from vgpu_sim.exec.interp.cta import ResidentBlocks
from vgpu_sim.exec.interp.numbers.bits import WARP_LANES, Mask
from vgpu_sim.exec.interp.operands import read_bits
from vgpu_sim.isa import EFFECTS, Family, Instruction, Op, Space
from vgpu_sim.records import dataclass
from vgpu_sim.worker.observing.accesses import Numbers

_ROWS_BYTES: Final = 16  # bytes that a lane's address of LDMATRIX represents
_EDGE: Final = 8


@dataclass(frozen=True, slots=True)
class Access:
    """The accesses of one instruction to one memory space, as arrays with an element for each
    accessing lane.

    ``warps`` numbers the warps of all resident blocks; ``addresses`` are offsets in shared and
    local memory. A generic address in shared or local memory is converted to an offset; an
    address that stays generic is in global memory. Each lane accesses ``width`` bytes. ``lanes``
    are the lanes' numbers in their warps.
    """

    space: Space
    warps: Numbers
    addresses: Numbers
    width: int
    atomic: bool
    lanes: Numbers


def accesses_of(
    blocks: ResidentBlocks, instruction: Instruction, allowed: Mask
) -> Iterator[Access]:
    """Yield the memory accesses of one instruction by the lanes in the mask ``allowed``. These are
    the lanes whose guards are true. Accesses to parameters are omitted.
    """
    space = instruction.space
    if not EFFECTS[instruction.op].accesses or space is Space.PARAM or not allowed.any():
        return
    width = instruction.vector * instruction.type.bytes
    if instruction.op is Op.LDMATRIX:
        lane = np.arange(len(allowed)) % WARP_LANES
        allowed, width = allowed & (lane < _EDGE * instruction.vector), _ROWS_BYTES
    addresses = addresses_of(blocks, instruction, allowed).astype(np.int64)
    warps, lanes = np.divmod(np.flatnonzero(allowed), WARP_LANES)
    atomic = instruction.op.family is Family.ATOMIC
    if space is Space.GENERIC:
        for window_space, window in _windows(blocks):
            in_window = addresses >> 32 == window
            if in_window.any():
                offsets = addresses[in_window] & 0xFFFF_FFFF
                yield Access(
                    window_space, warps[in_window], offsets, width, atomic, lanes[in_window]
                )
                warps, addresses, lanes = (
                    warps[~in_window],
                    addresses[~in_window],
                    lanes[~in_window],
                )
        if not len(warps):
            return
    yield Access(space, warps, addresses, width, atomic, lanes)


def completed_bytes(blocks: ResidentBlocks, instruction: Instruction, allowed: Mask) -> int:
    """Return the bytes that an update of transactions completes at mbarriers: it subtracts these,
    and an update that expects bytes adds them.
    """
    changes = np.broadcast_to(read_bits(blocks, instruction.srcs[1], 64), allowed.shape)
    each = changes[allowed].astype(np.uint64).view(np.int64)
    return int(-each[each < 0].sum())


def _windows(blocks: ResidentBlocks) -> Iterator[tuple[Space, int]]:
    """Yield, for shared and for local memory, the upper half of generic addresses in that space, if
    the launch uses such addresses.
    """
    launch = blocks.launch
    if launch.shared_bytes:
        yield Space.SHARED, launch.shared_window >> 32
    if launch.local_bytes:
        yield Space.LOCAL, launch.local_window >> 32
