"""The families, one module each: ``LOWERING`` writes the LLVM text of their instructions."""

from typing import Final

from vgpu_sim.exec.jit.emitter import Lowering
from vgpu_sim.exec.jit.families import (
    compare,
    control,
    convert,
    float as float_family,
    integer,
    memory,
    move,
    sync,
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
    **sync.LOWERING,
}
