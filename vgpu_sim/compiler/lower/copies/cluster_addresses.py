"""Lowers mapa and getctarank: addresses of the shared memory of a cluster's blocks.

Source: PTX ISA, "Data Movement and Conversion Instructions: mapa" and "getctarank".
"""

from typing import Final

from vgpu_sim.compiler.lower import special, values
from vgpu_sim.compiler.lower.addresses import symbol_of
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import Compare, DataType, Literal, Op, Operand, Space
from vgpu_sim.isa.families.move import CLUSTER_RANK_SHIFT, FIRST_RANK_FIELD

_RANK_BITS: Final = 0xFF


def mapa(context: Context, form: Form, match: Match) -> None:
    """Lower mapa of an address in shared memory, or of a generic one."""
    first, where, rank = context.operands
    type_ = DataType[match["width"].upper()]
    source = _address(context, where, type_, shared="shared::cluster" in match)
    block = values.source(context, rank, DataType.U32)
    to = values.destination(context, first, type_)
    context.builder.emit(Op.MAPA, type=type_, dsts=(to,), srcs=(source, block))


def getctarank(context: Context, form: Form, match: Match) -> None:
    """Lower getctarank: the rank that an address names, or else that of the executing block.

    An address whose field is 1 names no block (ADR 191): the result is 0xFFFFFFFF.
    """
    first, where = context.operands
    builder, type_ = context.builder, DataType[match["width"].upper()]
    source = _address(context, where, type_, shared="shared::cluster" in match)
    if type_ is DataType.U64:
        low = builder.scratch_register(32)
        builder.emit(Op.CVT, type=DataType.U32, source_type=type_, dsts=(low,), srcs=(source,))
        source = low
    field, named_rank = builder.scratch_register(32), builder.scratch_register(32)
    builder.emit(
        Op.SHR, type=DataType.U32, dsts=(field,), srcs=(source, Literal(CLUSTER_RANK_SHIFT))
    )
    builder.emit(Op.AND, type=DataType.B32, dsts=(field,), srcs=(field, Literal(_RANK_BITS)))
    srcs = (field, Literal(FIRST_RANK_FIELD))
    builder.emit(Op.SUB, type=DataType.U32, dsts=(named_rank,), srcs=srcs)
    named = builder.new_predicate()
    builder.emit(
        Op.SETP,
        type=DataType.U32,
        dsts=(named, None),
        srcs=(field, Literal(0)),
        compare=Compare.NE,
    )
    own = special.cluster_rank(context)
    to = values.destination(context, first, DataType.U32)
    builder.emit(Op.SELP, type=DataType.B32, dsts=(to,), srcs=(named_rank, own, named))


def with_own_rank(context: Context, address: Operand, type_: DataType) -> Operand:
    """Return the address of a shared variable as a value, which has the block's rank in a kernel
    with instructions of pairs of blocks.

    On hardware it has in all kernels. Code for pairs clears the lowest bit of the rank to address
    the even block.
    """
    if not context.program.has_pairs:
        return address
    own = context.builder.scratch_register(type_.bits)
    srcs = (address, special.cluster_rank(context))
    context.builder.emit(Op.MAPA, type=type_, dsts=(own,), srcs=srcs)
    return own


def _address(context: Context, where: tree.Operand, type_: DataType, *, shared: bool) -> Operand:
    """Return the address that an operand holds, or that of the shared variable that it names."""
    symbol = symbol_of(context, where)
    if symbol is None:
        return values.source(context, where, type_)
    if symbol[1] is not Space.SHARED:
        raise Invalid("the variable is not in .shared space")
    if not shared:
        raise Invalid("a variable's name is an address in .shared::cluster")
    return symbol[0]


FORMS: Final = (
    Form("mapa{.shared::cluster}.width", "d, a, b", Op.MAPA, mapa),
    Form("getctarank{.shared::cluster}.width", "d, a", Op.SHR, getctarank,
         isa="SHR, AND, SUB, SETP, SELP: the rank of the block itself for its own addresses"),
)  # fmt: skip
