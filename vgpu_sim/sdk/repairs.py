"""Corrections of what clang writes for NVPTX and PTX ISA does not allow."""

import re
from pathlib import Path

from vgpu_sim.sdk.steps import Steps

# LLVM 19 writes the alignment 0 where the stack's own alignment of 8 bytes is enough. ptxas
# refuses 0: "Alignment must be a power of two".
_NO_ALIGNMENT = re.compile(rb"(?m)^(\s*alloca\.u(?:32|64)\s[^,;\n]*,[^,;\n]*),\s*0;")


def correct_ptx(text: bytes) -> bytes:
    """Return PTX of clang with valid alignments of ``alloca``."""
    return _NO_ALIGNMENT.sub(rb"\1, 8;", text)


def correct_file(steps: Steps, path: Path) -> Path:
    """Correct a file with PTX, which is written again only if that changes it; return its path."""
    text = steps.read(path)
    if (corrected := correct_ptx(text)) != text:
        steps.write(path, corrected)
    return path
