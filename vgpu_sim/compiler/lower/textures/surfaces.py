"""Lowers ``suld``, ``sust`` and ``sured`` (PTX ISA 9.7.12)."""

from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.copies import library
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.lower.symbols.types import DATA_TYPES, UNTYPED
from vgpu_sim.compiler.lower.textures import handles, surface_code
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Op, Operand

_VECTORS: Final = {"1d": 1, "2d": 2, "3d": 4, "a1d": 2, "a2d": 4}
_MAX_BYTES: Final = 16


def _place(context: Context, where: tree.Operand, geometry: str) -> list[Operand]:
    """Return the handle, the layer and the coordinates."""
    _, dimensions = surface_code.GEOMETRIES[geometry]
    layers = geometry in surface_code.LAYERED
    types = [DataType.B32] * (dimensions + layers)
    count = _VECTORS[geometry]
    handle, coordinates = handles.handle_and_coordinates(context, where, ".surfref", count, types)
    return [handle, *coordinates]


def _count(match: Match, bits: int) -> int:
    count = int(match["vec"][1:]) if "vec" in match else 1
    if bits // 8 * count > _MAX_BYTES:
        raise Invalid(f"a vector of more than {_MAX_BYTES} bytes")
    return count


def load(context: Context, form: Form, match: Match) -> None:
    """Lower suld.b, which loads bytes as they are."""
    data, where = context.operands
    type_ = DATA_TYPES[match["type"]]
    count = _count(match, type_.bits)
    elements = data.elements if isinstance(data, tree.Vector) else (data,)
    if len(elements) != count:
        raise Invalid(f"expected {count} elements, found {len(elements)}")
    to = [
        None
        if isinstance(element, tree.Sink)
        else values.destination(context, element, type_, wider=True)
        for element in elements
    ]
    actuals = _place(context, where, match["surface"])
    code = surface_code.load(match["surface"], match["outside"], type_.bits, count)
    library.call(context, code, actuals, to)


def store(context: Context, form: Form, match: Match) -> None:
    """Lower sust.b, which stores bytes as they are, and sust.p, which converts to the format."""
    where, data = context.operands
    type_ = UNTYPED[int(match["type"][1:])]
    formatted = "p" in match
    count = _count(match, type_.bits)
    elements = data.elements if isinstance(data, tree.Vector) else (data,)
    if len(elements) != count:
        raise Invalid(f"expected {count} elements, found {len(elements)}")
    actuals = _place(context, where, match["surface"])
    actuals += [values.source(context, element, type_, wider=True) for element in elements]
    if formatted:
        code = surface_code.store_element(match["surface"], match["outside"], count)
    else:
        code = surface_code.store(match["surface"], match["outside"], type_.bits, count)
    library.call(context, code, actuals)


def reduce(context: Context, form: Form, match: Match) -> None:
    """Lower sured.b and sured.p."""
    where, data = context.operands
    type_, operation = match["type"], match.get("combined") or match["truth"]
    actuals = _place(context, where, match["reduced"])
    actuals.append(values.source(context, data, UNTYPED[int(type_[1:])]))
    if "p" in match:
        code = surface_code.update_element(match["reduced"], match["outside"], operation)
    else:
        code = surface_code.update(match["reduced"], match["outside"], operation, type_)
    library.call(context, code, actuals)


_LOAD: Final = "LD of the descriptor's fields, then LD"
_STORE: Final = "LD of the descriptor's fields, then ST"
_REDUCE: Final = "LD of the descriptor's fields, then RED"
_BITS: Final = ("b8", "b16", "b32", "b64")
_WORDS: Final = ("b32",)
_SUMS: Final = ("u32", "s32", "u64", "s64")

FORMS: Final = (
    Form("suld.b.surface{.lcache}{.vec}.type.outside", "d, [a]", Op.LD, load, _BITS, _LOAD),
    Form("sust.b.surface{.scache}{.vec}.type.outside", "[a], b", Op.ST, store, _BITS, _STORE),
    Form("sust.p.surface{.vec}.type.outside", "[a], b", Op.ST, store, _WORDS,
         f"{_STORE} of the channels, converted"),
    Form("sured.b.combined.reduced.type.outside", "[a], b", Op.RED, reduce, _SUMS, _REDUCE),
    Form("sured.b.truth.reduced.type.outside", "[a], b", Op.RED, reduce, ("b32",), _REDUCE),
    Form("sured.p.combined.reduced.type.outside", "[a], b", Op.RED, reduce, ("b32",), _REDUCE),
    Form("sured.p.truth.reduced.type.outside", "[a], b", Op.RED, reduce, ("b32",), _REDUCE),
)  # fmt: skip
