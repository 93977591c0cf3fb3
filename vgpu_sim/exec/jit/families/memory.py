"""Loads and stores; their lowering is in ``exec/jit/memory``."""

from typing import Final

from vgpu_sim.exec.jit.emission.emitter import Emitter, Lowering
from vgpu_sim.exec.jit.ir.ssa import Operation
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.isa import Op


def _load(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    emitter.memory.load(node, mask, occupied=occupied)


def _store(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    emitter.memory.store(node, mask)


LOWERING: Final[dict[Op, Lowering]] = {Op.LD: _load, Op.ST: _store}
