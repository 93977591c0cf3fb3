"""Names for texture and surface references (PTX ISA, "Texture Sampler and Surface Types").

A variable of an opaque type is 8 bytes that hold a handle, like any other variable of 8 bytes. For
each ``.texref`` and ``.surfref`` a module has a second variable, whose name states the type: a
client writes handles only to variables of which it finds the second one. A third variable states
that a kernel may read a reference, so that its launches need the reference.
"""

from typing import Final

from vgpu_sim.compiler.ptx import tree

MARKED: Final = frozenset((".texref", ".surfref"))
MARKER_PREFIX: Final = "tessera"
MARKER_BYTES: Final = 1
READS_PREFIX: Final = "tessera.reads."


def is_reference(declared: tree.Variable) -> bool:
    """Whether a variable is one texture or surface reference, not an array of them."""
    return declared.type in MARKED and not declared.vector and not declared.dimensions


def marker_name(name: str, type_: str) -> str:
    """Return the name of the variable that states the type of reference ``name``."""
    return f"{MARKER_PREFIX}{type_}.{name}"


def marker_names(name: str) -> frozenset[str]:
    """Return the names of all markers that a variable may have."""
    return frozenset(marker_name(name, type_) for type_ in MARKED)


def reads_name(kernel: str, name: str) -> str:
    """Return the name of the variable which states that a kernel may read reference ``name``."""
    return f"{READS_PREFIX}{kernel}.{name}"
