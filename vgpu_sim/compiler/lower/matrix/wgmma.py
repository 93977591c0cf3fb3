"""wgmma: products of 64 rows that the four warps of a warpgroup compute, 16 rows each.

A warp's part of D has the fragments of ``mma``, and so has an A in registers. The factors that
descriptors name are loaded from shared memory by every warp that needs them, so no warp reads
another one's registers. A warp's product is complete when its instruction is: PTX only permits
that it continues until ``wgmma.wait_group``. The four warps meet at ``wgmma.commit_group``, since a
program may overwrite the factors when one of them has passed a wait for that group.
"""

from collections.abc import Sequence as Many
from functools import partial
from typing import Final

from vgpu_sim.compiler.lower import special, values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.matrix import fragments
from vgpu_sim.compiler.lower.matrix.descriptors import SharedMatrix
from vgpu_sim.compiler.lower.matrix.fragments import EDGE, Shape
from vgpu_sim.compiler.lower.matrix.mma import TOTALS
from vgpu_sim.compiler.lower.matrix.products import NARROW, Product
from vgpu_sim.compiler.lower.matrix.sparsity import metadata_of
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Literal, Op, Operand, Register, SpecialRegister
from vgpu_sim.isa.families.sync import WARPGROUP_BARRIER

D = DataType
_WARP_ROWS: Final = 16
_WARPS: Final = Literal(3)  # mask of a warp's index in its warpgroup
_A_REGISTERS: Final = 4
_PAIR: Final = 2 * EDGE  # columns that one LDMATRIX loads
_SIGNS: Final = {
    **dict.fromkeys(("f16", "bf16"), 0x8000_8000),
    "tf32": 0x8000_0000,
    **dict.fromkeys(NARROW, 0x8080_8080),
}


def _multiply(
    context: Context, form: Form, match: Match, *, depth: str, total: str, factors: str = ""
) -> None:
    """Lower ``wgmma.mma_async d, a, b-desc, scale-d, ...``."""
    builder, sequence = context.builder, Sequence(context.builder)
    a_type, b_type = match.get("atype") or factors, match.get("btype") or factors
    rows, (columns, size) = _WARP_ROWS, map(int, match[depth][4:].split("k"))
    d, a, b, *remaining_operands = context.operands
    sparse, (scale_d, *immediates) = (
        (remaining_operands[:2], remaining_operands[2:])
        if "sp" in match
        else ([], remaining_operands)
    )
    in_registers = isinstance(a, tree.Vector)
    negated, across_a, across_b = _immediates(immediates, in_registers)
    count = rows * columns // 32 // (2 if total == "f16" else 1)
    to = _destinations(context, d, count)
    z = _addends(context, to, scale_d)
    lane = special.s2r(context, SpecialRegister.LANEID)
    if in_registers:
        x: Many[Operand] = fragments.sources(context, a, _A_REGISTERS, D.B32)
    else:
        left = SharedMatrix(builder, values.source(context, a, D.B64), lane, across_a)
        warp = sequence.emit(Op.AND, D.B32, special.warp_id(context), _WARPS)
        x = left.load(warp, rows_first=True)
    if negated:
        signs = Literal(_SIGNS[a_type])
        x = [sequence.emit(Op.XOR, D.B32, register, signs) for register in x]
    if sparse:
        metadata = fragments.single(context, sparse[0], D.B32)
        bits = fragments.BITS[a_type]
        x = metadata_of(metadata, sparse[1], bits, size).expand(builder, x)
    right = SharedMatrix(builder, values.source(context, b, D.B64), lane, across_b)
    results = list[Register]()
    # Columns are multiplied as soon as they are loaded, which keeps few values alive. Of other
    # products, conversions of A would be repeated.
    together = _PAIR if a_type == b_type or a_type[1:] == "8" else columns
    for first in range(0, columns, together):
        count = min(together, columns - first)
        y = list[Register]()
        for n in range(first, first + count, _PAIR):
            register_count = 4 if n + EDGE < columns else 2
            steps = [
                right.load(Literal(n // _PAIR), rows_first=False, count=register_count, step=step)
                for step in range(2 if sparse else 1)
            ]
            y += [
                part
                for k in range(0, register_count, 2)
                for step_registers in steps
                for part in step_registers[k : k + 2]
            ]
        shape = Shape(rows, count, size, fragments.BITS[a_type])
        product = Product(shape, a_type, b_type, TOTALS[total], TOTALS[total], "satfinite" in match)
        each = len(to) * first // columns
        part = z[each : each + len(to) * count // columns]
        results += product.multiply(builder, x, y, part)
    fragments.assign(sequence, to, results, D.B32)


def _immediates(immediates: Many[tree.Operand], in_registers: bool) -> tuple[bool, bool, bool]:
    """Check the immediate operands; return whether the product is negated, and whether A and B
    are contiguous along M and N instead of K.
    """
    if not immediates:
        return False, False, False
    scales, turns = immediates[:2], immediates[2:]
    numbers = [_constant(operand, (-1, 1)) for operand in scales]
    across = [bool(_constant(operand, (0, 1))) for operand in turns]
    if not across:
        return numbers[0] != numbers[1], False, False
    if len(across) != (1 if in_registers else 2):
        operand_count = len(scales) + 4 + (1 if in_registers else 2)
        raise Invalid(f"wgmma takes {operand_count} operands here")
    return numbers[0] != numbers[1], len(across) == 2 and across[0], across[-1]


def _constant(operand: tree.Operand, allowed: tuple[int, int]) -> int:
    if not isinstance(operand, tree.Integer):
        raise Invalid("expected an integer constant")
    value = operand.value - (1 << 64 if operand.value >= 1 << 63 else 0)
    if value not in allowed:
        raise Invalid(f"the constant {value} is not allowed here")
    return value


def _destinations(context: Context, d: tree.Operand, count: int) -> tuple[Register, ...]:
    """Return D's registers, which are read too. One may occur twice: the last write counts."""
    parts = fragments.elements(d, count)
    if any(isinstance(part, tree.Sink) for part in parts):
        raise Invalid("'_' cannot stand for a register of D, which is read too")
    return tuple(values.destination(context, part, D.B32) for part in parts)


def _addends(context: Context, d: Many[Register], scale_d: tree.Operand) -> list[Operand]:
    """Return D's registers as addends, or zeros where ``scale_d`` is false."""
    chosen = values.predicate_source(context, scale_d)
    if isinstance(chosen, Literal):
        return list(d) if chosen.bits else [Literal(0)] * len(d)
    sequence = Sequence(context.builder)
    return [sequence.emit(Op.SELP, D.B32, register, Literal(0), chosen) for register in d]


def _commit(context: Context, form: Form, match: Match) -> None:
    """Emit a barrier of the warpgroup: all its warps have then read their factors."""
    context.builder.emit(form.op, srcs=(Literal(WARPGROUP_BARRIER), Literal(0)), uniform=True)


def _fence(context: Context, form: Form, match: Match) -> None:
    """Emit a barrier of the warpgroup in a kernel with fences alone, and nothing in others.

    On a GPU the warps of a warpgroup stay near each other, and code that tests pipelines without
    products relies on it: it releases a stage when one of the warps has passed. Where there are
    products, the warps wait for each other at the commits.
    """
    if not context.program.multiplies_asynchronously:
        _commit(context, form, match)


def _nothing(context: Context, form: Form, match: Match) -> None:
    """Emit nothing for waits: committed products are complete already."""


_COMPLETE: Final = "nothing: products are complete already"
_NOTE: Final = "LDMATRIX of the factors in shared memory; see `mma` of a warp's 16 rows"


def _forms(
    depth: str, total: str, factors: str, counts: tuple[int, ...], *, sparse: bool = False
) -> tuple[Form, ...]:
    head = f"wgmma.mma_async{'.sp' if sparse else ''}.sync.aligned.{depth}.{total}"
    types: tuple[str, ...] = ()
    if factors == "f8":
        pattern, types, own = f"{head}.atype.btype", NARROW, ""
    else:
        pattern, own = f"{head}.{factors}.{factors}", factors
    lower = partial(_multiply, depth=depth, total=total, factors=own)
    middle = ["metadata", "selector"] if sparse else []
    spelled = ["d", "a", "b", *middle, "{!}p", "scale-a", "scale-b", "trans-a", "trans-b"]
    return tuple(
        Form(pattern, ", ".join(spelled[: count + len(middle)]), Op.MMA, lower, types, _NOTE)
        for count in counts
    )


def _integers(depth: str, *, sparse: bool = False) -> tuple[Form, ...]:
    head = f"wgmma.mma_async{'.sp' if sparse else ''}.sync.aligned"
    operands = "d, a, b, metadata, selector, {!}p" if sparse else "d, a, b, {!}p"
    lower = partial(_multiply, depth=depth, total="s32")
    return tuple(
        Form(f"{head}.{pattern}", operands, Op.MMA, lower, ("s8", "u8"), _NOTE)
        for pattern in (
            f"{depth}{{.satfinite}}.s32.atype.btype",
            f"{depth}.s32.atype.btype.satfinite",
        )
    )


FORMS: Final = (
    *_forms("wgmma16", "f32", "f16", (8, 7)),
    *_forms("wgmma16", "f16", "f16", (8, 7)),
    *_forms("wgmma16", "f32", "bf16", (8, 7)),
    *_forms("wgmma8", "f32", "tf32", (6,)),
    *_forms("wgmma32", "f32", "f8", (6,)),
    *_forms("wgmma32", "f16", "f8", (6,)),
    *_integers("wgmma32s"),
    *_forms("wgmma32", "f32", "f16", (8, 7), sparse=True),
    *_forms("wgmma32", "f16", "f16", (8, 7), sparse=True),
    *_forms("wgmma32", "f32", "bf16", (8, 7), sparse=True),
    *_forms("wgmma16", "f32", "tf32", (6,), sparse=True),
    *_forms("wgmma64", "f32", "f8", (6,), sparse=True),
    *_forms("wgmma64", "f16", "f8", (6,), sparse=True),
    *_integers("wgmma64s", sparse=True),
    Form(
        "wgmma.mma_async.sync.aligned.wgmma256.s32.b1.b1.and.popc",
        "d, a, b, {!}p",
        Op.POPC,
        partial(_multiply, depth="wgmma256", total="s32", factors="b1"),
        isa=_NOTE,
    ),
    Form(
        "wgmma.fence.sync.aligned",
        "",
        Op.BAR_SYNC,
        _fence,
        isa="nothing; in a kernel without products BAR_SYNC of the warpgroup's barrier",
    ),
    Form(
        "wgmma.commit_group.sync.aligned",
        "",
        Op.BAR_SYNC,
        _commit,
        isa="BAR_SYNC of the warpgroup's barrier",
    ),
    Form("wgmma.wait_group.sync.aligned", "n", Op.NOP, _nothing, isa=_COMPLETE),
)
