"""The form of a kernel that plans are chosen for and code is made of."""

from vgpu_sim.exec.jit.ir.ssa import SsaFunction
from vgpu_sim.exec.jit.planning import joined_rounds, unrolled, wide_products
from vgpu_sim.exec.jit.planning.plan import Block
from vgpu_sim.isa import Function


def build(function: Function, block: Block, *, best: bool) -> SsaFunction:
    """Return the form of ``function`` for blocks of this shape; ``best``: for the best plan's code,
    else for the first tier's."""
    form = unrolled.build(function, block)
    wide_products.split(form)
    if best:
        joined_rounds.join(form)
    return form
