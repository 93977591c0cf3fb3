"""cvt between scalar types."""

from typing import Final

from vgpu_sim.compiler.lower import one_word, values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.findings import Invalid
from vgpu_sim.compiler.lower.forms import FLOATS, INTEGERS, UNARY, Form, Match
from vgpu_sim.compiler.lower.types import DATA_TYPES
from vgpu_sim.isa import DataType, Op

_CONVERTIBLE = ("u8", "s8", *INTEGERS, "f16", *FLOATS)


def cvt(context: Context, form: Form, match: Match) -> None:
    """Lower cvt between two scalar types."""
    to_type, from_type = DATA_TYPES[match["dtype"]], DATA_TYPES[match["atype"]]
    _check_rounding(match, to_type, from_type)
    if "ftz" in match and DataType.F32 not in (to_type, from_type):
        raise Invalid(".ftz applies to .f32 only")
    first, value = context.operands
    source = values.source(context, value, from_type, wider=True)
    to = values.destination(context, first, to_type, wider=True)
    fields = one_word.float_fields(match)
    if fields["saturate"] and from_type.is_float and not to_type.is_float:
        fields["saturate"] = False  # such conversions clamp anyway (PTX ISA, "cvt")
    context.builder.emit(
        Op.CVT, type=to_type, source_type=from_type, dsts=(to,), srcs=(source,), **fields
    )


def _check_rounding(match: Match, to: DataType, source: DataType) -> None:
    """Hold cvt to the rounding modifiers that PTX asks for or forbids."""
    integral, rounded = "irnd" in match, "rnd" in match
    if not source.is_float and not to.is_float:
        wanted = not integral and not rounded
    elif not to.is_float:
        wanted = integral
    elif not source.is_float or to.bits < source.bits:
        wanted = rounded
    elif to.bits > source.bits:
        wanted = not integral and not rounded
    else:
        wanted = not rounded
    if not wanted:
        kinds = f".{to.name.lower()} from .{source.name.lower()}"
        raise Invalid(f"cvt {kinds}: rounding modifier is missing or does not apply")


FORMS: Final = (
    Form("cvt{.rnd}{.ftz}{.sat}.dtype.atype", UNARY, Op.CVT, cvt, _CONVERTIBLE),
    Form("cvt.irnd{.ftz}{.sat}.dtype.atype", UNARY, Op.CVT, cvt, _CONVERTIBLE),
)
