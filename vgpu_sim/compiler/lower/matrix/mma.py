"""mma.sync: products of small matrices whose fragments PTX defines."""

from functools import partial
from typing import Final

from vgpu_sim.compiler.lower import one_word
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.matrix import fragments
from vgpu_sim.compiler.lower.matrix.fragments import shape_of
from vgpu_sim.compiler.lower.matrix.products import NARROW, Product
from vgpu_sim.compiler.lower.matrix.small_floats import FORMATS
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.isa import DataType, Op

TOTALS = {"f16": DataType.F16, "f32": DataType.F32, "f64": DataType.F64, "s32": DataType.S32}
WORD_NOTE: Final = "MMA; CVT of C before it and of D after it if they are f16"
BYTES_NOTE: Final = "MMA; under .satfinite of zeros, then ADD_SAT"
NARROW_NOTE: Final = (
    "MMA; SHFL and CVT to f16 before it if the factors differ or have less than 8 bits"
)
FLOAT_NOTE: Final = "SHFL for the factors of other lanes; FMA in the order of k, starting with c"
NIBBLES_NOTE: Final = "SHFL for the factors of other lanes; DP4A"
BITS_NOTE: Final = "SHFL for the factors of other lanes; AND or XOR, POPC, ADD"


def _multiply(
    context: Context, form: Form, match: Match, *, shape: str, total: str, factors: str = ""
) -> None:
    """Lower ``mma.sync.aligned d, a, b, c``."""
    a_type, b_type = match.get("atype") or factors, match.get("btype") or factors
    product = Product(
        shape_of(shape, a_type),
        a_type,
        b_type,
        TOTALS[total],
        TOTALS[total],
        clamp="satfinite" in match,
        rounding=one_word.ROUNDINGS[match.get("rnd") or "rn"],
        logic=Op.XOR if "xor" in match else Op.AND,
    )
    size = product.shape
    factor_type = DataType.B64 if size.bits == 64 else DataType.B32
    accumulator = DataType.B64 if total == "f64" else DataType.B32
    count = size.row_blocks * size.column_blocks * (1 if total == "f16" else 2)
    d, a, b, c = context.operands
    x = fragments.sources(context, a, size.row_blocks * size.depth_blocks, factor_type)
    y = fragments.sources(context, b, size.column_blocks * size.depth_blocks, factor_type)
    z = fragments.sources(context, c, count, accumulator)
    to = fragments.destinations(context, d, count, accumulator)
    results = product.multiply(context.builder, x, y, z)
    fragments.assign(Sequence(context.builder), to, results, accumulator)


def _form(
    pattern: str,
    op: Op,
    note: str,
    shape: str,
    total: str,
    factors: str = "",
    types: tuple[str, ...] = (),
) -> Form:
    lower = partial(_multiply, shape=shape, total=total, factors=factors)
    return Form(f"mma.sync.aligned.{shape}.{pattern}", "d, a, b, c", op, lower, types, note)


def _floats(shape: str, factors: str, total: str) -> Form:
    rounding = "{.rnd}" if total == "f64" else ""
    pattern = f"row.col.{total}.{factors}.{factors}.{total}{rounding}"
    op, note = (Op.FMA, FLOAT_NOTE) if total == "f64" else (Op.MMA, WORD_NOTE)
    return _form(pattern, op, note, shape, total, factors)


_BYTES = ("s8", "u8")
_NIBBLES = ("s4", "u4")
_INTEGERS = "row.col{.satfinite}.s32.atype.btype.s32"

FORMS: Final = (
    *(_floats(shape, "f16", t) for shape in ("m16n8k8", "m16n8k16") for t in ("f16", "f32")),
    *(_floats(shape, "bf16", "f32") for shape in ("m16n8k8", "m16n8k16")),
    *(_floats(shape, "tf32", "f32") for shape in ("m16n8k4", "m16n8k8")),
    *(_floats(shape, "f64", "f64") for shape in ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16")),
    *(
        _form(f"row.col.{t}.atype.btype.{t}", Op.MMA, NARROW_NOTE, shape, t, types=NARROW)
        for shape in ("m16n8k16", "m16n8k32")
        for t in ("f16", "f32")
    ),
    *(
        _form(
            f"row.col.kind::f8f6f4.{t}.atype.btype.{t}", Op.MMA, NARROW_NOTE, shape, t, types=types
        )
        for shape, types in (("m16n8k16", NARROW), ("m16n8k32", FORMATS))
        for t in ("f16", "f32")
    ),
    *(
        _form(_INTEGERS, op, note, shape, "s32", types=types)
        for op, note, types, shapes in (
            (Op.MMA, BYTES_NOTE, _BYTES, ("m8n8k16", "m16n8k16", "m16n8k32")),
            (Op.DP4A, NIBBLES_NOTE, _NIBBLES, ("m8n8k32", "m16n8k32", "m16n8k64")),
        )
        for shape in shapes
    ),
    *(
        _form(f"row.col.s32.b1.b1.s32.{logic}.popc", Op.POPC, BITS_NOTE, shape, "s32", "b1")
        for shape in ("m8n8k128", "m16n8k128", "m16n8k256")
        for logic in ("xor", "and")
    ),
)
