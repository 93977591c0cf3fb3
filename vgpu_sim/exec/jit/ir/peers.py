"""Whether a kernel may access the shared memory of other blocks of its cluster."""

from typing import Final

from vgpu_sim.exec.jit.ir.ssa import SsaFunction
from vgpu_sim.isa import Op
from vgpu_sim.isa.families.sync import CLUSTER_OPS

_OPS: Final = frozenset({Op.MAPA, *CLUSTER_OPS})


def reaches_peers(ssa: SsaFunction) -> bool:
    """Return whether other blocks of the cluster may access a block's shared memory."""
    return any(instruction.op in _OPS for instruction in ssa.function.code)
