"""Lowers texture and surface instructions (PTX ISA 9.7.12)."""

from typing import Final

from vgpu_sim.compiler.lower.textures import fetches, surfaces

FORMS: Final = (*fetches.FORMS, *surfaces.FORMS)
