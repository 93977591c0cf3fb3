"""Lowers ``tex``, ``tld4``, the queries ``txq`` and ``suq``, and ``istypep`` (PTX ISA 9.7.12)."""

from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.copies import library
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid, Unsupported
from vgpu_sim.compiler.lower.symbols.types import DATA_TYPES
from vgpu_sim.compiler.lower.textures import handles, layout, queries, sampling
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import Compare, DataType, Literal, Op, Operand

VECTORS: Final = {"1d": 1, "2d": 2, "3d": 4, "a1d": 2, "a2d": 4, "cube": 4, "acube": 4}
"""The number of elements of the vector of coordinates, of which the last may be ignored."""
_GRADIENTS: Final = {"1d": 1, "2d": 2, "3d": 4, "a1d": 1, "a2d": 2, "cube": 4, "acube": 4}
_KINDS: Final = {"texref": layout.TEXTURE, "surfref": layout.SURFACE, "samplerref": -1}


def fetch(context: Context, form: Form, match: Match) -> None:
    """Lower tex."""
    data, where, *remaining_operands = context.operands
    geometry, texel = match["geometry"], match.get("texel") or match["packed"]
    choice = "level" if "of_level" in match else "grad" if "grad" in match else ""
    kind = DATA_TYPES[match["coordinate"]]
    if kind is DataType.S32 and geometry in sampling.CUBES:
        raise Invalid("integers cannot be the coordinates of a cube map")
    halves = texel if texel.startswith("f16") else ""
    width = DataType.B16 if texel == "f16" else DataType.B32
    to = handles.destinations(context, data, 2 if texel == "f16x2" else 4, width)
    actuals = _place(context, where, geometry, kind)
    count = _GRADIENTS[geometry]
    floats = (DataType.F32,) * sampling.COMPONENTS[geometry]
    if choice == "level":
        actuals.append(values.source(context, remaining_operands[0], kind))
    for gradient in remaining_operands if choice == "grad" else ():
        if not isinstance(gradient, tree.Vector) or len(gradient.elements) != count:
            raise Invalid(f"expected a vector of {count} elements as a gradient")
        actuals += handles.vector(context, gradient, count, floats)
    code = sampling.function(geometry, integers=kind is DataType.S32, choice=choice, halves=halves)
    library.call(context, code, actuals, to)


def _place(context: Context, where: tree.Operand, geometry: str, type_: DataType) -> list[Operand]:
    types = [type_] * sampling.COMPONENTS[geometry]
    if geometry in sampling.LAYERED:
        types.insert(0, DataType.U32)
    count = VECTORS[geometry]
    handle, coordinates = handles.handle_and_coordinates(context, where, ".texref", count, types)
    return [handle, *coordinates]


def gather(context: Context, form: Form, match: Match) -> None:
    """Lower tld4, which reads one channel of the four texels of a linear filter."""
    data, where, *_ = context.operands
    geometry = match["gathered"]
    to = handles.destinations(context, data, 4, DataType.B32)
    actuals = _place(context, where, geometry, DataType.F32)
    code = sampling.function(geometry, gathered="rgba".index(match["channel"]))
    library.call(context, code, actuals, to)


def refuse(context: Context, form: Form, match: Match) -> None:
    """Refuse the operands of tex and tld4 after those that are supported."""
    raise Unsupported(f"an offset or a depth to compare with as an operand of {form.opcode}")


def query(context: Context, form: Form, match: Match) -> None:
    """Lower txq and suq."""
    data, where, *level = context.operands
    if not isinstance(where, tree.Memory) or len(where.parts) != 1:
        raise Invalid("expected a texture or surface in brackets")
    (to,) = handles.destinations(context, data, 1, DataType.B32)
    opaque = ".texref" if form.opcode == "txq" else ".surfref"
    actuals = [handles.handle_of(context, where.parts[0], opaque)]
    actuals += [values.source(context, operand, DataType.U32) for operand in level]
    kind = layout.TEXTURE if form.opcode == "txq" else layout.SURFACE
    word = match.get("property_of") or match["size_of"]
    code = queries.function(word, kind, of_level=bool(level))
    library.call(context, code, actuals, [to])


def is_of_type(context: Context, form: Form, match: Match) -> None:
    """Lower istypep: whether a handle is that of a texture or of a surface."""
    to, handle_operand = context.operands
    predicate = values.predicate_destination(context, to)
    kind = context.builder.scratch_register(32)
    guard = context.builder.guard
    library.emit(context, queries.kind_of(), [handles.handle_of(context, handle_operand)], [kind])
    expected_kind = Literal(_KINDS[match["opaque"]] & 0xFFFF_FFFF)
    with context.builder.use_guard(guard):
        context.builder.emit(
            Op.SETP,
            type=DataType.U32,
            dsts=(predicate or context.builder.unused_predicate(), None),
            srcs=(kind, expected_kind),
            compare=Compare.EQ,
        )


_FETCH: Final = "LD of the descriptor's fields and of texels, and arithmetic of the filter"
_FIELD: Final = "LD of a field of the descriptor"


def _fetches() -> tuple[Form, ...]:
    forms = []
    for choice, operands in (("{.base}", ""), (".of_level", ", lod"), (".grad", ", dx, dy")):
        for ending in (".v4.texel.coordinate", ".v2.packed.coordinate"):
            pattern = f"tex{choice}.geometry{ending}"
            for extra in ("", ", e", ", e, f"):
                lower = refuse if extra else fetch
                note = "refused" if extra else _FETCH
                forms.append(Form(pattern, f"d, [a]{operands}{extra}", Op.LD, lower, isa=note))
    return tuple(forms)


FORMS: Final = (
    *_fetches(),
    Form("tld4.channel.gathered.v4.texel.f32", "d, [a]", Op.LD, gather, isa=_FETCH),
    Form("txq.property_of.b32", "d, [a]", Op.LD, query, isa=_FIELD),
    Form("txq.of_level.size_of.b32", "d, [a], lod", Op.LD, query, isa=_FIELD),
    Form("suq.property_of.b32", "d, [a]", Op.LD, query, isa=_FIELD),
    Form("istypep.opaque", "p, a", Op.LD, is_of_type, isa=f"{_FIELD}, SETP"),
)
