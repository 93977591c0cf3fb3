"""mma, wmma, ldmatrix and their like; types that MMA does not multiply are others' words."""

from typing import Final

from vgpu_sim.compiler.lower.matrix import mma, moves, wmma

FORMS: Final = (*mma.FORMS, *moves.FORMS, *wmma.FORMS)
