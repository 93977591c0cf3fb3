"""Instructions that return the size and address of a thread's local memory.

Both are the same for all lanes of a launch.
"""

import numpy as np

from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers.bits import Mask
from vgpu_sim.exec.interp.operands import write_bits
from vgpu_sim.isa import DataType, Instruction, Op


def _local_bytes(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    value = np.array([warp.launch.local_bytes], dtype=np.uint32)
    write_bits(warp, instruction.dsts[0], value, DataType.B32, mask)


def _local_window(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    value = np.array([warp.launch.local_window >> 32], dtype=np.uint32)
    write_bits(warp, instruction.dsts[0], value, DataType.B32, mask)


SEMANTICS = {Op.LOCAL_BYTES: _local_bytes, Op.LOCAL_WINDOW: _local_window}
