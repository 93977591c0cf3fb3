"""mma.sp: products whose factor A has stored elements and metadata; it is expanded first."""

from functools import partial
from typing import Final

from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.matrix import fragments
from vgpu_sim.compiler.lower.matrix.fragments import shape_of
from vgpu_sim.compiler.lower.matrix.mma import TOTALS
from vgpu_sim.compiler.lower.matrix.products import NARROW, Product
from vgpu_sim.compiler.lower.matrix.small_floats import FORMATS
from vgpu_sim.compiler.lower.matrix.sparsity import metadata_of
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.isa import DataType, Op

D = DataType
_NOTE: Final = "SHFL of A and its metadata, SHL and OR; then as `mma` of the whole A"


def _multiply(
    context: Context, form: Form, match: Match, *, shape: str, total: str, factors: str = ""
) -> None:
    """Lower ``mma.sp.sync.aligned d, a, b, c, metadata, selector``."""
    a_type, b_type = match.get("atype") or factors, match.get("btype") or factors
    size = shape_of(shape, a_type)
    product = Product(
        size, a_type, b_type, TOTALS[total], TOTALS[total], clamp="satfinite" in match
    )
    d, a, b, c, metadata, selector = context.operands
    stored = size.row_blocks * size.depth_blocks // 2
    count = size.row_blocks * size.column_blocks * (1 if total == "f16" else 2)
    x = fragments.sources(context, a, stored, D.B32)
    y = fragments.sources(context, b, size.column_blocks * size.depth_blocks, D.B32)
    z = fragments.sources(context, c, count, D.B32)
    to = fragments.destinations(context, d, count, D.B32)
    register = fragments.single(context, metadata, D.B32)
    whole = metadata_of(register, selector, size.bits, size.depth).expand(context.builder, x)
    results = product.multiply(context.builder, whole, y, z)
    fragments.assign(Sequence(context.builder), to, results, D.B32)


def _form(
    pattern: str, shape: str, total: str, factors: str = "", types: tuple[str, ...] = ()
) -> Form:
    lower = partial(_multiply, shape=shape, total=total, factors=factors)
    op = Op.DP4A if "s4" in types else Op.MMA
    operands = "d, a, b, c, metadata, selector"
    return Form(f"mma.{pattern}", operands, op, lower, types, _NOTE)


def _floats(shape: str, factors: str, total: str) -> Form:
    pattern = f"sparse.sync.aligned.{shape}.row.col.{total}.{factors}.{factors}.{total}"
    return _form(pattern, shape, total, factors)


def _narrow(head: str, total: str, types: tuple[str, ...]) -> Form:
    pattern = f"{head}.{total}.atype.btype.{total}"
    return _form(pattern, "m16n8k64", total, types=types)


def _integers(shape: str, *types: str) -> Form:
    pattern = f"sparse.sync.aligned.{shape}.row.col{{.satfinite}}.s32.atype.btype.s32"
    return _form(pattern, shape, "s32", types=types)


_ORDERED: Final = "sp::ordered_metadata.sync.aligned"

FORMS: Final = (
    *(_floats(shape, "f16", t) for shape in ("m16n8k16", "m16n8k32") for t in ("f16", "f32")),
    *(_floats(shape, "bf16", "f32") for shape in ("m16n8k16", "m16n8k32")),
    *(_floats(shape, "tf32", "f32") for shape in ("m16n8k8", "m16n8k16")),
    *(_narrow("sparse.sync.aligned.m16n8k64.row.col", t, NARROW) for t in ("f16", "f32")),
    *(_narrow(f"{_ORDERED}.m16n8k64.row.col.kind::f8f6f4", t, FORMATS) for t in ("f16", "f32")),
    *(_integers(shape, "s8", "u8") for shape in ("m16n8k32", "m16n8k64")),
    *(_integers(shape, "s4", "u4") for shape in ("m16n8k64", "m16n8k128")),
)
