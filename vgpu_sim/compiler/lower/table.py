"""The binding PTX -> ISA: one row per supported form of an instruction, from all families.

``docs/binding.md`` is generated from it. Instructions that match no row are refused.
"""

from collections import defaultdict

from vgpu_sim.compiler.lower.families import (
    atomic,
    bitwise,
    compare,
    control,
    convert,
    copy,
    float as float_family,
    integer,
    matrix,
    memory,
    move,
    stack,
    sync,
    tensor,
    video,
    warp,
)
from vgpu_sim.compiler.lower.forms import Form
from vgpu_sim.compiler.lower.textures import fetches, surfaces

_MODULES = (
    integer,
    bitwise,
    float_family,
    compare,
    move,
    convert,
    memory,
    stack,
    sync,
    control,
    warp,
    matrix,
    tensor,
    atomic,
    video,
    copy,
    fetches,
    surfaces,
)

FORMS: tuple[Form, ...] = tuple(form for module in _MODULES for form in module.FORMS)
"""All rows of the binding, in the order of the documentation."""


def _by_opcode() -> dict[str, tuple[Form, ...]]:
    forms_of: dict[str, list[Form]] = defaultdict(list)
    for form in FORMS:
        forms_of[form.opcode].append(form)
    return {opcode: tuple(forms) for opcode, forms in forms_of.items()}


FORMS_BY_OPCODE = _by_opcode()
