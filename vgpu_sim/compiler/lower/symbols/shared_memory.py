"""The layout of a kernel's shared variables (PTX ISA, "Shared State Space").

The variables that the kernel names are laid out in order, the module's before the kernel's;
arrays without a size (``.extern``) all begin after them: they are the launch's dynamic shared
memory. An ``.extern`` variable with a size is a variable like any other, as ptxas treats it.
"""

import math
from collections.abc import Mapping, Sequence

from vgpu_sim.compiler.lower.symbols import names
from vgpu_sim.compiler.lower.symbols.findings import Findings, Invalid, Refusal, Unsupported
from vgpu_sim.compiler.lower.symbols.parameters import element_bytes
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.hal.compute.limits import MAX_SHARED_BYTES_PER_BLOCK
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class SharedVariable:
    """A variable that begins at address ``offset`` in shared memory."""

    offset: int


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """A kernel's shared memory: its variables and its size.

    The key of a variable is the position (line and column) of its declaration.
    """

    offsets: dict[tuple[int, int], SharedVariable]
    size: int

    def find_variable(self, declared: tree.Variable) -> SharedVariable | None:
        """Return the position of a declared variable in shared memory.

        Return None if the variable is not used, or was refused.
        """
        return self.offsets.get((declared.line, declared.column))


def is_shared(declared: tree.Variable) -> bool:
    return declared.space is tree.Space.SHARED


def lay_out(
    module_variables: Mapping[str, tree.Variable], bodies: Sequence[tree.Block], findings: Findings
) -> SharedMemory:
    """Place the shared variables that a kernel uses, in its own body or in a body that it calls.

    A variable whose declaration is refused is left out. The error is reported where the
    declaration is lowered.
    """
    named = frozenset[str]().union(*(names.find_used(body) for body in bodies))
    of_module = [module_variables[name] for name in named & module_variables.keys()]
    of_module.sort(key=lambda variable: (variable.line, variable.column))
    declared = [*of_module, *(v for body in bodies for v in names.variables(body))]
    used = [v for v in declared if is_shared(v) and v.name in named]
    offsets: dict[tuple[int, int], SharedVariable] = {}
    end, unsized = 0, []
    for variable in used:
        try:
            size, align = size_and_alignment(variable)
        except Refusal:
            continue
        if size is None:
            unsized.append((variable, align))
            continue
        offset = _align(end, align)
        offsets[variable.line, variable.column] = SharedVariable(offset)
        end = offset + size
    end = _align(end, max((align for _, align in unsized), default=1))
    for variable, _ in unsized:
        offsets[variable.line, variable.column] = SharedVariable(end)
    if end > MAX_SHARED_BYTES_PER_BLOCK:
        message = (
            f"the shared variables have {end} bytes (the limit is {MAX_SHARED_BYTES_PER_BLOCK})"
        )
        findings.add(Invalid(message), used[-1])
    return SharedMemory(offsets, end)


def size_and_alignment(declared: tree.Variable) -> tuple[int | None, int]:
    """Return size and alignment in bytes of a shared variable.

    The size is None if it is dynamic, that is, set by the launch.

    Raises:
        Invalid, Unsupported: the declaration is refused.
    """
    if declared.attributes:
        raise Unsupported(f"attribute {declared.attributes[0].name}", declared)
    if declared.count is not None:
        raise Unsupported("a parameterized variable name (name<N>)", declared)
    if declared.initial is not None:
        raise Invalid("a shared variable cannot have an initial value", declared)
    element = element_bytes(declared)
    align = declared.align or element  # shared memory begins at address 0, so any alignment works
    if declared.linkage is tree.Linkage.EXTERN and declared.dimensions[:1] == (None,):
        return None, align
    sizes = [size for size in declared.dimensions if size]
    if len(sizes) != len(declared.dimensions):
        raise Invalid("a shared array must have a size or be .extern", declared)
    return element * math.prod(sizes), align


def _align(offset: int, align: int) -> int:
    return -(-offset // align) * align
