"""Compiles PTX to the ISA: parse, check the target, lower, allocate registers.

``compile_ptx`` runs the whole compiler; ``pipeline.STAGES`` are its steps.
"""

from vgpu_sim.compiler.errors import (
    Diagnostic,
    InvalidPtxError,
    PtxError,
    PtxSyntaxError,
    TargetError,
    UnsupportedPtxError,
    render,
)
from vgpu_sim.compiler.pipeline import capability_of, compile_ptx
from vgpu_sim.compiler.ptx import decode

__all__ = [
    "Diagnostic",
    "InvalidPtxError",
    "PtxError",
    "PtxSyntaxError",
    "TargetError",
    "UnsupportedPtxError",
    "capability_of",
    "compile_ptx",
    "decode",
    "render",
]
