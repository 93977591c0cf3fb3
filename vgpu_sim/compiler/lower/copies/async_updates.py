"""Lowers st.async and red.async (PTX ISA 9.7.10 and 9.7.15).

They are complete when their instruction has executed. Those to the shared memory of a cluster then
subtract the number of their bytes from the transactions of their mbarrier; those to global memory
are releases.
"""

from typing import Final

from vgpu_sim.compiler.lower import one_word, values, wide
from vgpu_sim.compiler.lower.addresses import base_and_displacement, whole_address
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.copies.bulk import COMPLETES
from vgpu_sim.compiler.lower.forms import WORDS, Form, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.lower.symbols.types import DATA_TYPES
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Literal, Op, Operand, Order, Scope, Space, Update

_STORED: Final = ("b32", "b64", "u32", "u64", "s32", "s64", "f32", "f64")
_BYTES_AND_WORDS: Final = ("b8", "u8", "s8", *WORDS)
_WIDE: Final = "b128"
_ADDED: Final = {"u32": "u32", "s32": "s32", "u64": "u64", "s64": "u64"}
"""The types of a sum in global memory, and the type of the update that computes it."""
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


def store_global(context: Context, form: Form, match: Match) -> None:
    """Lower st.async to global memory, a release store; ``.mmio`` ones are volatile, as all are."""
    where, data = context.operands
    _release(context, match)
    if match["type"] == _WIDE:
        assert isinstance(data, tree.Vector)  # the halves of one register
        space = _global_or_generic(match)
        halves = [values.source(context, half, DataType.B64) for half in data.elements]
        wide.store(context, whole_address(context, where, space), halves, space)
        return
    type_ = one_word.type_of(form, match)
    place, displacement = base_and_displacement(context, where, _global_or_generic(match))
    context.builder.emit(
        Op.ST,
        type=type_,
        srcs=(place, values.source(context, data, type_, wider=True)),
        space=_global_or_generic(match),
        displacement=displacement,
        volatile=True,
    )


def reduce_global(context: Context, form: Form, match: Match) -> None:
    """Lower red.async to global memory, a release update."""
    where, data = context.operands
    type_ = DATA_TYPES[_ADDED[match["type"]]]
    _release(context, match)
    place, displacement = base_and_displacement(context, where, _global_or_generic(match))
    context.builder.emit(
        Op.RED,
        type=type_,
        srcs=(place, values.source(context, data, type_)),
        space=_global_or_generic(match),
        displacement=displacement,
        update=Update.ADD,
    )


def _release(context: Context, match: Match) -> None:
    scope = Scope[match["scope"].upper()]
    context.builder.emit(Op.FENCE, order=Order.ACQ_REL, scope=scope)


def _global_or_generic(match: Match) -> Space:
    return Space.GLOBAL if "global" in match else Space.GENERIC


def _complete(context: Context, bar: Operand, size: int) -> None:
    srcs = (bar, Literal(-size & (1 << 64) - 1))
    context.builder.emit(Op.RED, type=DataType.B64, srcs=srcs, space=Space.SHARED, update=Update.TX)


FORMS: Final = (
    Form(f"st.async{{.weak}}{{.cluster}}.shared::cluster.{COMPLETES}{{.vec}}.type",
         "[a], b, [bar]", Op.ST, store, _STORED, "ST.VOLATILE, then RED.TX", any_order=True),
    Form(f"red.async.relaxed.cluster.shared::cluster.{COMPLETES}.fold.type", "[a], b, [bar]",
         Op.RED, reduce, ("b32", "b64", *_WHOLE), "RED, then RED.TX", any_order=True),
    Form("st.async.release.scope{.global}.type", "[a], b", Op.ST, store_global,
         _BYTES_AND_WORDS, "ST.VOLATILE, after FENCE", any_order=True),
    Form("st.async.mmio.release.scope{.global}.type", "[a], b", Op.ST, store_global,
         (*_BYTES_AND_WORDS, _WIDE), "ST.VOLATILE, after FENCE; `.b128`: ATOM.EXCH",
         any_order=True),
    Form("red.async{.mmio}.release.scope{.global}.add.type", "[a], b", Op.RED, reduce_global,
         tuple(_ADDED), "RED, after FENCE", any_order=True),
)  # fmt: skip
