"""The parameter block of a kernel, laid out as the CUDA ABI does: natural alignment, in order."""

from vgpu_sim.compiler.lower.findings import Findings, Invalid, Refusal, Unsupported
from vgpu_sim.compiler.lower.types import DATA_TYPES
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import Parameter, Space

MAX_PARAMETER_BYTES = 4096

_POINTER_SPACES = {
    None: Space.GENERIC,
    tree.Space.GLOBAL: Space.GLOBAL,
    tree.Space.CONST: Space.CONST,
    tree.Space.SHARED: Space.SHARED,
    tree.Space.LOCAL: Space.LOCAL,
}


def element_bytes(variable: tree.Variable) -> int:
    """Return the size of one element (a whole vector) of a variable or parameter, in bytes.

    Raises:
        Unsupported: for types that have no memory form here.
    """
    type_ = DATA_TYPES.get(variable.type[1:])
    if type_ is None or variable.type == ".pred":
        raise Unsupported(f"a variable of type {variable.type}", variable)
    return type_.bytes * (int(variable.vector[2:]) if variable.vector else 1)


def lay_out(function: tree.Function, findings: Findings) -> tuple[tuple[Parameter, ...], int]:
    """Return the parameters and the bytes of the block up to the end of the last one."""
    parameters: list[Parameter] = []
    offset = 0
    seen: set[str] = set()
    for declared in function.parameters:
        try:
            if declared.name in seen:
                raise Invalid(f"{declared.name!r} is declared twice", declared)
            seen.add(declared.name)
            parameter = _place(declared, offset)
        except Refusal as refusal:
            findings.add(refusal, declared)
            continue
        parameters.append(parameter)
        offset = parameter.offset + parameter.size
    if offset > MAX_PARAMETER_BYTES:
        findings.add(
            Unsupported(f"{offset} bytes of parameters (the limit is {MAX_PARAMETER_BYTES})"),
            function,
        )
    return tuple(parameters), offset


def _place(declared: tree.Variable, end: int) -> Parameter:
    if declared.space is not tree.Space.PARAM:
        raise Invalid("a kernel's parameters are in .param space", declared)
    if declared.count is not None:
        raise Unsupported("a numbered family of parameters", declared)
    size = element_bytes(declared)
    align = declared.align or size
    for extent in declared.dimensions:
        if not extent:
            raise Invalid("a kernel's parameter has a size", declared)
        size *= extent
    pointer = declared.pointer
    return Parameter(
        name=declared.name,
        offset=-(-end // align) * align,
        size=size,
        align=align,
        pointer_space=None if pointer is None else _POINTER_SPACES[pointer.space],
    )
