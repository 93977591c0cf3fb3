"""The steps that memory accesses of all families share: addresses, alignment checks and faults."""

import numpy as np

from vgpu_sim.exec.errors import AddressFault, MisalignedFault
from vgpu_sim.exec.interp.address_space import Words
from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers.bits import Mask
from vgpu_sim.exec.interp.operands import read_bits
from vgpu_sim.isa import Instruction, Space

_WORD_MASK = 0xFFFF_FFFF_FFFF_FFFF
_LOW = np.uint64(0xFFFF_FFFF)
_NARROW = (Space.SHARED, Space.LOCAL)


def addresses_of(warp: Lanes, instruction: Instruction, mask: Mask) -> Words:
    """Return the address (base + displacement) that each active lane accesses.

    An address has as many bits as the addresses of the memory space.
    """
    bits = 32 if instruction.space in _NARROW else 64
    base = np.broadcast_to(read_bits(warp, instruction.srcs[0], bits), mask.shape)[mask]
    displacement = np.uint64(instruction.displacement & _WORD_MASK)
    result: Words = base.astype(np.uint64, copy=False) + displacement
    return result & _LOW if bits == 32 else result


def fault(
    warp: Lanes, instruction: Instruction, mask: Mask, accessed: Words, bad: int
) -> AddressFault:
    """Return the error for an active lane's access to ``bad``, an address at which memory is
    missing.
    """
    lane = int(np.flatnonzero(mask)[int((accessed == np.uint64(bad)).argmax())])
    return AddressFault(
        address=bad,
        word=warp.word,
        block=warp.block_of(lane),
        space=instruction.space,
        thread=warp.thread_of(lane),
    )


def check_alignment(
    warp: Lanes, instruction: Instruction, mask: Mask, first: Words, size: int = 0
) -> None:
    """Raise MisalignedFault if an address is not a multiple of the access's size in bytes.

    The default of ``size`` is the size of all values that the instruction accesses, taken
    together.
    """
    size = size or instruction.vector * instruction.type.bytes
    bad = (first & np.uint64(size - 1)) != 0
    if bad.any():
        place = int(bad.argmax())
        lane = int(np.flatnonzero(mask)[place])
        raise MisalignedFault(
            address=int(first[place]),
            size=size,
            word=warp.word,
            block=warp.block_of(lane),
            space=instruction.space,
            thread=warp.thread_of(lane),
        )
