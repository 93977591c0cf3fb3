"""mma, wmma, wgmma, ldmatrix and the like; what MMA does not support becomes other instructions."""

from typing import Final

from vgpu_sim.compiler.lower.matrix import (
    byte_moves,
    mma,
    moves,
    quads,
    scaled_mma,
    sparse_mma,
    wgmma,
    wmma,
)

FORMS: Final = (
    *mma.FORMS,
    *quads.FORMS,
    *scaled_mma.FORMS,
    *sparse_mma.FORMS,
    *moves.FORMS,
    *byte_moves.FORMS,
    *wmma.FORMS,
    *wgmma.FORMS,
)
