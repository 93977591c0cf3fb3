"""The parameter block of a kernel, laid out as in the CUDA ABI: natural alignment, in order."""

from vgpu_sim.compiler.lower.symbols.findings import Findings, Invalid, Refusal, Unsupported
from vgpu_sim.compiler.lower.symbols.types import DATA_TYPES
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import Parameter, Space

MAX_PARAMETER_BYTES = 32764
MAX_PARAMETER_BYTES_BEFORE = 4352  # PTX ISA 8.1, and before sm_70 (".param" of kernels)
LARGE_SINCE_VERSION, LARGE_SINCE_CAPABILITY = (8, 1), (7, 0)

_POINTER_SPACES = {
    None: Space.GENERIC,
    tree.Space.GLOBAL: Space.GLOBAL,
    tree.Space.CONST: Space.CONST,
    tree.Space.SHARED: Space.SHARED,
    tree.Space.LOCAL: Space.LOCAL,
}

WIDE_BYTES = 16  # of .b128
OPAQUE = (".texref", ".samplerref", ".surfref")
HANDLE_BYTES = 8  # of a variable of an opaque type


def element_bytes(variable: tree.Variable) -> int:
    """Return the size in bytes of one element of a variable or parameter.

    If the type is a vector type, an element is a whole vector.

    Raises:
        Unsupported: the type cannot be stored in memory.
    """
    if variable.type == ".b128" and not variable.vector:
        return WIDE_BYTES
    if variable.type in OPAQUE and not variable.vector:
        return HANDLE_BYTES
    type_ = DATA_TYPES.get(variable.type[1:])
    if type_ is None or variable.type == ".pred":
        raise Unsupported(f"a variable of type {variable.type}", variable)
    return type_.bytes * (int(variable.vector[2:]) if variable.vector else 1)


def lay_out(
    function: tree.Function, findings: Findings, limit: int = MAX_PARAMETER_BYTES
) -> tuple[tuple[Parameter, ...], int]:
    """Return a kernel's parameters, and the size in bytes of the block that holds them.

    The block ends where the last parameter ends. If it is larger than ``limit``, or a parameter
    is refused, ``findings`` records that.
    """
    parameters: list[Parameter] = []
    offset = 0
    declared_names: set[str] = set()
    for declared in function.parameters:
        try:
            if declared.name in declared_names:
                raise Invalid(f"{declared.name!r} is declared twice", declared)
            declared_names.add(declared.name)
            parameter = _place(declared, offset)
        except Refusal as refusal:
            findings.add(refusal, declared)
            continue
        parameters.append(parameter)
        offset = parameter.offset + parameter.size
    if offset > limit:
        message = f"the parameters have {offset} bytes (the limit is {limit})"
        findings.add(Invalid(message), function)
    return tuple(parameters), offset


def max_parameter_bytes(version: tuple[int, int], capability: tuple[int, int]) -> int:
    """Return the maximum size in bytes of a kernel's parameters, given a file's version and
    target.
    """
    if version >= LARGE_SINCE_VERSION and capability >= LARGE_SINCE_CAPABILITY:
        return MAX_PARAMETER_BYTES
    return MAX_PARAMETER_BYTES_BEFORE


def _place(declared: tree.Variable, end: int) -> Parameter:
    if declared.space is not tree.Space.PARAM:
        raise Invalid("a kernel's parameters must be in .param space", declared)
    if declared.count is not None:
        raise Unsupported("a parameterized name of a parameter (name<N>)", declared)
    size = element_bytes(declared)
    align = declared.align or size
    for extent in declared.dimensions:
        if not extent:
            raise Invalid("an array parameter of a kernel needs a size", declared)
        size *= extent
    pointer = declared.pointer
    return Parameter(
        name=declared.name,
        offset=-(-end // align) * align,
        size=size,
        align=align,
        pointer_space=None if pointer is None else _POINTER_SPACES[pointer.space],
    )
