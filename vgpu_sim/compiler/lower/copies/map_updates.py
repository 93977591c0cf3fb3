"""Lowers tensormap.replace and tensormap.cp_fenceproxy (PTX ISA 9.7.10.28), by which kernels write
tensor maps.
"""

from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.addresses import space_of, whole_address
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.copies import bulk, library
from vgpu_sim.compiler.lower.copies.tensor_map import (
    ADDRESS,
    ATOMICITY,
    BOX,
    BYTES,
    ELEMENT_STRIDES,
    FILL,
    INTERLEAVE,
    RANK,
    SIZES,
    STRIDES,
    SWIZZLE,
    TYPE,
)
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Literal, Op, Operand, Order, Scope, Space

_WHOLE: Final = {
    "global_address": (ADDRESS, DataType.B64),
    "rank": (RANK, DataType.B8),
    "elemtype": (TYPE, DataType.B8),
    "interleave_layout": (INTERLEAVE, DataType.B8),
    "swizzle_mode": (SWIZZLE, DataType.B8),
    "swizzle_atomicity": (ATOMICITY, DataType.B8),
    "fill_mode": (FILL, DataType.B8),
}
_OF_A_DIMENSION: Final = {
    "box_dim": (BOX, DataType.B16, 5),
    "global_dim": (SIZES, DataType.B32, 5),
    "global_stride": (STRIDES, DataType.B64, 4),
    "element_stride": (ELEMENT_STRIDES, DataType.B8, 5),
}
_CHOICES: Final = {
    "elemtype": 16,
    "interleave_layout": 3,
    "swizzle_mode": 5,
    "swizzle_atomicity": 4,
    "fill_mode": 2,
}
"""The number of values of each field that only a constant sets; they are numbered from 0."""
_RANKS: Final = 5
FIELDS: Final = (*_WHOLE, *_OF_A_DIMENSION)


def replace(context: Context, form: Form, match: Match) -> None:
    """Lower tensormap.replace: a store of one field of the map."""
    where, *dimension_operands, value = context.operands
    field = match["field"]
    if field in _WHOLE:
        offset, type_ = _WHOLE[field]
        if dimension_operands:
            raise Invalid(f".{field} belongs to no dimension")
        _check_value(field, value)
    else:
        first, type_, count = _OF_A_DIMENSION[field]
        number = dimension_operands[0] if dimension_operands else None
        if not isinstance(number, tree.Integer) or not 0 <= number.value < count:
            raise Invalid(f".{field} needs the constant number of a dimension, 0 to {count - 1}")
        offset = first + number.value * type_.bytes
    wide = match["type"] == "b64"
    if wide != (type_ is DataType.B64):
        raise Invalid(f".{field} has the type .{'b64' if type_ is DataType.B64 else 'b32'}")
    space = space_of(context, where, _space(match))
    place = whole_address(context, where, space)
    stored: Operand = values.source(context, value, DataType.B64 if wide else DataType.B32)
    if field == "global_dim":  # the map contains the number minus 1
        less = context.builder.scratch_register(32)
        srcs = (stored, Literal(0xFFFF_FFFF))
        context.builder.emit(Op.ADD, type=DataType.U32, dsts=(less,), srcs=srcs)
        stored = less
    context.builder.emit(Op.ST, type=type_, srcs=(place, stored), space=space, displacement=offset)


def _check_value(field: str, value: tree.Operand) -> None:
    """Raise Invalid for a value that is not one of the field's, or should be a constant."""
    count = _CHOICES.get(field, _RANKS if field == "rank" else 0)
    if isinstance(value, tree.Integer):
        if count and not 0 <= value.value < count:
            raise Invalid(f".{field} {value.value} does not exist; it is 0 to {count - 1}")
    elif field in _CHOICES:
        raise Invalid(f".{field} needs a constant, 0 to {count - 1}")


def _space(match: Match) -> Space:
    if "global" in match:
        return Space.GLOBAL
    return Space.SHARED if "shared::cta" in match else Space.GENERIC


def copy(context: Context, form: Form, match: Match) -> None:
    """Lower tensormap.cp_fenceproxy: copy a map from shared to global memory, and order it."""
    target, source, size = context.operands
    if not isinstance(size, tree.Integer) or size.value != BYTES:
        raise Invalid(f"the size of a tensor map must be the constant {BYTES}")
    actuals = (
        whole_address(context, target, Space.GLOBAL),
        whole_address(context, source, Space.SHARED),
        Literal(BYTES),
    )
    library.emit(context, bulk.copy_from_shared(), actuals)
    context.builder.emit(Op.FENCE, order=Order.ACQ_REL, scope=Scope[match["scope"].upper()])


FORMS: Final = (
    *(
        Form(f"tensormap.replace.mode.field{place}.b1024.type", operands, Op.ST, replace,
             ("b32", "b64"), "ST; with `.global_dim` after ADD of -1")
        for place in ("", ".global", ".shared::cta")
        for operands in ("[map], v", "[map], n, v")
    ),
    Form("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned",
         "[map], [map], size", Op.LD, copy, isa="a loop of LD and ST of 16 bytes, then FENCE"),
)  # fmt: skip
