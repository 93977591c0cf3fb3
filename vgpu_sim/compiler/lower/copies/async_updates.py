"""Lowers st.async and red.async to the shared memory of a cluster (PTX ISA 9.7.15.16).

They are complete when their instruction has executed: the number of their bytes is then subtracted
from the transactions of their mbarrier.
"""

from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.addresses import whole_address
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.copies.bulk import COMPLETES
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.lower.symbols.types import DATA_TYPES
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Literal, Op, Operand, Space, Update

_STORED: Final = ("b32", "b64", "u32", "u64", "s32", "s64", "f32", "f64")
_WHOLE: Final = ("u32", "s32", "u64", "s64")
_REDUCED: Final = {
    "inc": ("u32",),
    "dec": ("u32",),
    "min": _WHOLE,
    "max": _WHOLE,
    "add": ("u32", "s32", "u64"),
    **dict.fromkeys(("and", "or", "xor"), ("b32", "b64")),
}


def store(context: Context, form: Form, match: Match) -> None:
    """Lower st.async: a store, and the completion of its bytes."""
    where, data, bar = context.operands
    type_ = DATA_TYPES[match["type"]]
    elements = data.elements if isinstance(data, tree.Vector) else (data,)
    if len(elements) != int((match.get("vec") or "v1")[1:]):
        raise Invalid("the data is not a vector of as many elements as the instruction states")
    place = whole_address(context, where, Space.SHARED)
    srcs = tuple(values.source(context, element, type_) for element in elements)
    context.builder.emit(
        Op.ST,
        type=type_,
        srcs=(place, *srcs),
        space=Space.SHARED,
        vector=len(elements),
        volatile=True,
    )
    _complete(context, whole_address(context, bar, Space.SHARED), len(elements) * type_.bytes)


def reduce(context: Context, form: Form, match: Match) -> None:
    """Lower red.async: an update, and the completion of its bytes."""
    where, data, bar = context.operands
    operation, word = match["fold"], match["type"]
    if word not in _REDUCED[operation]:
        raise Invalid(f".{operation} of .{word} does not exist in .shared::cluster memory")
    type_ = DATA_TYPES[word]
    place = whole_address(context, where, Space.SHARED)
    context.builder.emit(
        Op.RED,
        type=type_,
        srcs=(place, values.source(context, data, type_)),
        space=Space.SHARED,
        update=Update[operation.upper()],
    )
    _complete(context, whole_address(context, bar, Space.SHARED), type_.bytes)


def _complete(context: Context, bar: Operand, size: int) -> None:
    srcs = (bar, Literal(-size & (1 << 64) - 1))
    context.builder.emit(Op.RED, type=DataType.B64, srcs=srcs, space=Space.SHARED, update=Update.TX)


FORMS: Final = (
    Form(f"st.async{{.weak}}{{.cluster}}.shared::cluster.{COMPLETES}{{.vec}}.type",
         "[a], b, [bar]", Op.ST, store, _STORED, "ST.VOLATILE, then RED.TX", any_order=True),
    Form(f"red.async.relaxed.cluster.shared::cluster.{COMPLETES}.fold.type", "[a], b, [bar]",
         Op.RED, reduce, ("b32", "b64", *_WHOLE), "RED, then RED.TX", any_order=True),
)  # fmt: skip
