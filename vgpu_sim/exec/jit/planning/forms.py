"""The SSA form of a kernel for which plans are chosen and code is generated."""

from vgpu_sim.exec.jit.ir.ssa import SsaFunction
from vgpu_sim.exec.jit.planning import full_unrolling, partial_unrolling, wide_products
from vgpu_sim.exec.jit.planning.plan import Block
from vgpu_sim.isa import Function


def build(function: Function, block: Block, *, best: bool) -> SsaFunction:
    """Return the SSA form of ``function`` for blocks of this shape.

    If ``best`` is set, return the form from which the best plan's code is generated. Otherwise,
    return the form for the first-tier plan.
    """
    form = full_unrolling.build(function, block)
    wide_products.split(form)
    if best:
        partial_unrolling.unroll(form)
    return form
