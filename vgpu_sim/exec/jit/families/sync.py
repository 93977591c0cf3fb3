"""Barriers: no native code for them yet; ``support`` names them when a module is loaded."""

from typing import Final

from vgpu_sim.exec.jit.emitter import Lowering
from vgpu_sim.isa import Op

REFUSED: Final = frozenset({Op.BAR_SYNC, Op.BAR_ARRIVE})

LOWERING: Final[dict[Op, Lowering]] = {}
