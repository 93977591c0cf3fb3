"""Variables in local memory (PTX ISA, "Local State Space"): their frames and sizes.

While code is built each variable has a symbol. ``linking`` places the variables when the code is
complete, since many of them become registers.
"""

import math
from dataclasses import field

from vgpu_sim.compiler.lower.symbols.findings import Invalid, Unsupported
from vgpu_sim.compiler.lower.symbols.parameters import element_bytes
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.hal.compute.limits import MAX_LOCAL_BYTES_PER_THREAD
from vgpu_sim.isa import Register, Symbol
from vgpu_sim.records import dataclass

MAX_STACK_ALIGNMENT_BYTES = 128  # elsewhere any alignment works: local memory begins at address 0


@dataclass(frozen=True, slots=True, eq=False)
class LocalVariable:
    """A variable of ``size`` bytes; ``name`` is unique in the code of the kernel.

    If the variable is replaced by registers, ``owner`` is their owner (see ``Builder.owner``).
    """

    name: str
    size: int
    align: int
    owner: int

    def symbol(self, addend: int = 0) -> Symbol:
        """Return the symbol of the variable's address, plus ``addend`` bytes."""
        return Symbol(self.name, addend)


@dataclass(slots=True, eq=False)
class Frame:
    """The local memory of a function's code.

    ``inner`` are the frames of inlined calls. Only one of them is active at a time, so they share
    the memory after the variables. ``pointer`` holds the start of the frame; if it is None, the
    frame is at a fixed place.
    """

    name: str
    pointer: Register | None = None
    variables: list[LocalVariable] = field(default_factory=list)
    inner: list["Frame"] = field(default_factory=list)

    def size_symbol(self) -> Symbol:
        """Return the symbol that represents the frame's size while that is unknown."""
        return Symbol(self.name)


def size_and_alignment(declared: tree.Variable) -> tuple[int, int]:
    """Return size and alignment in bytes of a variable in local memory, or of an argument.

    Raises:
        Invalid, Unsupported: the declaration is refused.
    """
    if declared.attributes:
        raise Unsupported(f"attribute {declared.attributes[0].name}", declared)
    if declared.count is not None:
        raise Unsupported("a parameterized variable name (name<N>)", declared)
    if declared.initial is not None:
        raise Invalid(f"a {declared.space.value} variable cannot have an initial value", declared)
    if declared.linkage is tree.Linkage.EXTERN:
        raise Invalid(f"a {declared.space.value} variable cannot be .extern", declared)
    element = element_bytes(declared)
    align = declared.align or element
    sizes = [size for size in declared.dimensions if size]
    if len(sizes) != len(declared.dimensions):
        raise Invalid("the array needs a size", declared)
    size = element * math.prod(sizes)
    if size > MAX_LOCAL_BYTES_PER_THREAD:
        limit = f"the limit is {MAX_LOCAL_BYTES_PER_THREAD}"
        raise Invalid(f"the variable needs {size} bytes of local memory ({limit})", declared)
    return size, align
