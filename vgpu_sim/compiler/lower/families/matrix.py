"""mma, wmma, ldmatrix and their like; types that MMA does not multiply are others' words."""

from typing import Final

from vgpu_sim.compiler.lower import matrix_moves, mma, wmma

FORMS: Final = (*mma.FORMS, *matrix_moves.FORMS, *wmma.FORMS)
