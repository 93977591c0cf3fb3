"""Cache hints, which have no effect on results.

PTX ISA 9.7.10, "prefetch, prefetchu", "applypriority", "discard", "createpolicy". A discard
allows memory to lose its contents; here the contents are kept.
"""

from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.addresses import WINDOWS, base_and_displacement, space_of
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Literal, Op, Space

_LINE_BYTES = 128
_NAMED = frozenset({"global", "local"})


def nothing(context: Context, form: Form, match: Match) -> None:
    """Check the address of a cache hint, and emit no instruction.

    Nothing is loaded, since a load from the address may be illegal.
    """
    where, *sizes = context.operands
    stated_space = Space.GENERIC
    for word in _NAMED & match.words.keys():  # at most one
        stated_space = Space[word.upper()]
    base_and_displacement(context, where, space_of(context, where, stated_space, WINDOWS))
    if any(not isinstance(s, tree.Integer) or s.value != _LINE_BYTES for s in sizes):
        raise Invalid(f"the size must be the constant {_LINE_BYTES}")


def policy(context: Context, form: Form, match: Match) -> None:
    """Lower createpolicy to a move of 0, because no instruction reads cache policies."""
    first, *remaining_operands = context.operands
    if "range" in match:
        where, *remaining_operands = remaining_operands
        base_and_displacement(context, where, Space.GLOBAL if "global" in match else Space.GENERIC)
    kinds = {"fractional": (DataType.F32,), "range": (DataType.U32,) * 2, "cvt": (DataType.B64,)}
    (kind,) = kinds.keys() & match.words.keys()
    types = kinds[kind]
    for operand, type_ in zip(remaining_operands, types, strict=False):
        values.source(context, operand, type_)
    to = values.destination(context, first, DataType.B64)
    context.builder.emit(Op.MOV, type=DataType.B64, dsts=(to,), srcs=(Literal(0),))


def _hint(pattern: str, operands: str = "[a]") -> Form:
    return Form(pattern, operands, Op.NOP, nothing, isa="nothing: a hint")


HINTS: Final = (
    _hint("prefetch{.global}.line"),
    _hint("prefetch.local.line"),
    _hint("prefetch{.global}.L1::32B.valid_addr"),
    _hint("prefetch.global.L2::evict_last"),
    _hint("prefetch.global.L2::evict_normal"),
    _hint("prefetchu.L1"),
    _hint("prefetch{.of_map}.tensormap"),
    _hint("applypriority{.global}.L2::evict_normal", "[a], size"),
    _hint("discard{.global}.L2", "[a], size"),
)
_MADE = "MOV of 0: policies are hints"
POLICIES: Final = (
    Form("createpolicy.fractional.primary{.secondary}.b64", "d", Op.MOV, policy, isa=_MADE),
    Form("createpolicy.fractional.primary{.secondary}.b64", "d, f", Op.MOV, policy, isa=_MADE),
    Form(
        "createpolicy.range{.global}.primary{.secondary}.b64",
        "d, [a], size, size",
        Op.MOV,
        policy,
        isa=_MADE,
    ),
    Form("createpolicy.cvt.L2.b64", "d, a", Op.MOV, policy, isa=_MADE),
)
