"""The operands that name a texture or surface: a register with a handle, a variable, a parameter.

A variable of an opaque type is 8 bytes that hold a handle.
"""

from collections.abc import Sequence
from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.symbols.findings import Invalid, Unsupported
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Op, Operand, Register, Space, Symbol

PARTS: Final = 2
_LENGTHS: Final = (1, 2, 4)


def handle_of(context: Context, operand: tree.Operand, opaque: str = "") -> Operand:
    """Return the handle that an operand names; a variable must be of the type ``opaque``."""
    if not isinstance(operand, tree.Name):
        raise Invalid("expected a texture or surface: a register, a variable or a parameter")
    name, builder = operand.text, context.builder
    if context.scope.find(name) is not None:
        return values.source(context, operand, DataType.B64)
    parameter, declared = context.parameters.get(name), name in context.symbols.handles
    if parameter is None and not declared:
        return values.source(context, operand, DataType.B64)  # refuses the name
    if parameter is None and opaque not in ("", context.symbols.handles[name]):
        raise Invalid(f"{name!r} is not a {opaque}", operand)
    handle = builder.scratch_register(64)
    if parameter is not None:
        offset = parameter.offset
        builder.emit(
            Op.LD, type=DataType.B64, dsts=(handle,), space=Space.PARAM, displacement=offset
        )
    else:
        refused = context.symbols.refused.get(name)
        if refused is not None:
            raise Unsupported(refused.what, operand)
        builder.emit(
            Op.LD, type=DataType.B64, dsts=(handle,), srcs=(Symbol(name),), space=Space.GLOBAL
        )
    return handle


def handle_and_coordinates(
    context: Context, operand: tree.Operand, opaque: str, count: int, types: Sequence[DataType]
) -> tuple[Operand, list[Operand]]:
    """Return the handle and the coordinates of ``[name, {x, y}]``, a vector of at least ``count``
    elements of which the first are used, as these ``types``.
    """
    if not isinstance(operand, tree.Memory):
        raise Invalid("expected a texture or surface and its coordinates in brackets")
    if len(operand.parts) == PARTS + 1:
        raise Unsupported("a sampler apart from its texture")
    if len(operand.parts) != PARTS:
        raise Invalid("expected a texture or surface and its coordinates in brackets")
    name, coordinates = operand.parts
    handle = handle_of(context, name, opaque)
    return handle, vector(context, coordinates, count, types)


def vector(
    context: Context, operand: tree.Operand, count: int, types: Sequence[DataType]
) -> list[Operand]:
    """Return the first elements of a vector of at least ``count`` elements, or the one element."""
    elements = operand.elements if isinstance(operand, tree.Vector) else (operand,)
    if len(elements) not in _LENGTHS or len(elements) < count:
        raise Invalid(f"expected a vector of {count} coordinates, found {len(elements)}")
    used = zip(elements, types, strict=False)
    return [values.source(context, element, type_) for element, type_ in used]


def destinations(
    context: Context, operand: tree.Operand, count: int, type_: DataType
) -> list[Register | None]:
    """Return the registers of a vector to which results are written; None for ``_``."""
    if isinstance(operand, tree.Pair):
        raise Unsupported("a predicate of resident memory")
    elements = operand.elements if isinstance(operand, tree.Vector) else (operand,)
    if len(elements) != count:
        raise Invalid(f"expected a vector of {count} elements, found {len(elements)}")
    return [
        None if isinstance(element, tree.Sink) else values.destination(context, element, type_)
        for element in elements
    ]
