"""Loads of a number of bytes that the instruction specifies; words without such a byte are not
read.
"""

import numpy as np

from vgpu_sim.exec.errors import BadAddress
from vgpu_sim.exec.interp.accesses import addresses_of, check_alignment, fault
from vgpu_sim.exec.interp.address_space import Words
from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers.bits import Mask
from vgpu_sim.exec.interp.operands import read_bits, write_bits
from vgpu_sim.isa import Instruction, Op

_WORD_BYTES = 4


def _ld_zfill(warp: Lanes, instruction: Instruction, mask: Mask) -> Words:
    size = np.broadcast_to(read_bits(warp, instruction.srcs[1], 32), mask.shape).astype(np.int64)
    non_empty = mask & (size > 0)
    check_alignment(warp, instruction, non_empty, addresses_of(warp, instruction, non_empty))
    loaded = []
    for index in range(instruction.vector):
        left = size - index * _WORD_BYTES
        reading = mask & (left > 0)
        addresses = addresses_of(warp, instruction, reading) + np.uint64(index * _WORD_BYTES)
        try:
            values = warp.spaces.load(instruction.space, addresses, reading, _WORD_BYTES)
        except BadAddress as error:
            raise fault(warp, instruction, reading, addresses, error.address) from error
        byte_masks = (
            np.uint64(1) << (np.clip(left[reading], 0, 4).astype(np.uint64) * np.uint64(8))
        ) - 1
        word = np.zeros(mask.shape, dtype=np.uint32)
        word[reading] = (values & byte_masks).astype(np.uint32)
        loaded.append(word)
    for destination, word in zip(instruction.dsts, loaded, strict=True):
        write_bits(warp, destination, word, instruction.type, mask)
    return addresses_of(warp, instruction, mask)


SEMANTICS = {Op.LD_ZFILL: _ld_zfill}
