"""Where a kernel's shared variables lie in shared memory (PTX ISA, "Shared State Space").

Those that the kernel names are laid out in order, the module's before its own; arrays without a
size (``.extern``) all begin where these end: what a launch asks for is theirs.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vgpu_sim.compiler.lower.symbols import names
from vgpu_sim.compiler.lower.symbols.findings import Findings, Invalid, Refusal, Unsupported
from vgpu_sim.compiler.lower.symbols.parameters import element_bytes
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.hal.compute.limits import MAX_SHARED_BYTES_PER_BLOCK


@dataclass(frozen=True, slots=True)
class SharedVariable:
    """A name that is the address ``offset`` of shared memory."""

    offset: int


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """A kernel's shared memory: its variables by place of declaration, and its size."""

    offsets: dict[tuple[int, int], SharedVariable]
    size: int

    def of(self, declared: tree.Variable) -> SharedVariable | None:
        """Return where a declaration lies; None: nothing names it, or it was refused."""
        return self.offsets.get((declared.line, declared.column))


def is_shared(declared: tree.Variable) -> bool:
    return declared.space is tree.Space.SHARED


def lay_out(
    module_variables: Mapping[str, tree.Variable], bodies: Sequence[tree.Block], findings: Findings
) -> SharedMemory:
    """Place what a kernel uses, in its own body and those that it calls.

    What is wrong with a declaration is found where it is lowered.
    """
    named = frozenset[str]().union(*(names.used(body) for body in bodies))
    of_module = [module_variables[name] for name in named & module_variables.keys()]
    of_module.sort(key=lambda variable: (variable.line, variable.column))
    declared = [*of_module, *(v for body in bodies for v in names.variables(body))]
    used = [v for v in declared if is_shared(v) and v.name in named]
    offsets: dict[tuple[int, int], SharedVariable] = {}
    end, unsized = 0, []
    for variable in used:
        try:
            size, align = extent(variable)
        except Refusal:
            continue
        if size is None:
            unsized.append((variable, align))
            continue
        offset = _aligned(end, align)
        offsets[variable.line, variable.column] = SharedVariable(offset)
        end = offset + size
    end = _aligned(end, max((align for _, align in unsized), default=1))
    for variable, _ in unsized:
        offsets[variable.line, variable.column] = SharedVariable(end)
    if end > MAX_SHARED_BYTES_PER_BLOCK:
        what = f"{end} bytes of shared variables (the limit is {MAX_SHARED_BYTES_PER_BLOCK})"
        findings.add(Invalid(what), used[-1])
    return SharedMemory(offsets, end)


def extent(declared: tree.Variable) -> tuple[int | None, int]:
    """Return size and alignment of a shared variable in bytes; no size: the launch's.

    Raises:
        Invalid, Unsupported: for a declaration that cannot be.
    """
    if declared.attributes:
        raise Unsupported(f"attribute {declared.attributes[0].name}", declared)
    if declared.count is not None:
        raise Unsupported("a numbered family of variables", declared)
    if declared.initial is not None:
        raise Invalid("a shared variable has no initial value", declared)
    element = element_bytes(declared)
    align = declared.align or element  # shared memory begins at address 0, so any will do
    if declared.linkage is tree.Linkage.EXTERN:
        if not declared.dimensions or declared.dimensions[0] is not None:
            raise Unsupported(f"a shared variable of another module, {declared.name!r},", declared)
        return None, align
    sizes = [size for size in declared.dimensions if size]
    if len(sizes) != len(declared.dimensions):
        raise Invalid("a shared array has a size, or is .extern", declared)
    return element * math.prod(sizes), align


def _aligned(offset: int, align: int) -> int:
    return -(-offset // align) * align
