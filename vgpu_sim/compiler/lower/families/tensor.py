"""tcgen05: allocation of tensor memory, accesses, products, and their completion."""

from typing import Final

from vgpu_sim.compiler.lower.tensor import allocation, completion, copies, moves, products

FORMS: Final = (
    *allocation.FORMS,
    *moves.FORMS,
    *copies.FORMS,
    *products.FORMS,
    *completion.FORMS,
)
