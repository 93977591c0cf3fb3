"""The instruction families, one module each: ``LOWERING`` maps opcodes to their lowering to
LLVM.
"""

from typing import Final

from vgpu_sim.exec.jit.emission.emitter import Lowering
from vgpu_sim.exec.jit.families import (
    atomic,
    bitwise,
    compare,
    control,
    convert,
    copy,
    float as float_family,
    integer,
    matrix,
    memory,
    move,
    stack,
    sync,
    tensor,
    video,
    warp,
)
from vgpu_sim.isa import Op

LOWERING: Final[dict[Op, Lowering]] = {
    **control.LOWERING,
    **move.LOWERING,
    **integer.LOWERING,
    **float_family.LOWERING,
    **compare.LOWERING,
    **convert.LOWERING,
    **memory.LOWERING,
    **stack.LOWERING,
    **sync.LOWERING,
    **bitwise.LOWERING,
    **warp.LOWERING,
    **atomic.LOWERING,
    **video.LOWERING,
    **copy.LOWERING,
    **matrix.LOWERING,
    **tensor.LOWERING,
}
