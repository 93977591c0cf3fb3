"""mma.sync with block scales: ``.kind::mxf8f6f4``, ``.kind::mxf4`` and ``.kind::mxf4nvf4``."""

from collections.abc import Sequence as Many
from functools import partial
from typing import Final

from vgpu_sim.compiler.lower.builder import Builder
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.matrix import fragments, small_floats
from vgpu_sim.compiler.lower.matrix.block_scales import Block, ScaledProduct, Selected
from vgpu_sim.compiler.lower.matrix.fragments import Lanes
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Literal, Op, Operand

D = DataType
_NOTE: Final = "MMA of each block; SHFL and CVT of its scales, FMUL and FMA in .f64; CVT to .f32"
_SELECTORS: Final = {"1X": (0, 1, 2, 3), "2X": (0, 2), "4X": (0,)}
_A_THREADS, _B_THREADS = (0, 1), (0, 1, 2, 3)
_NIBBLES: Final = 8  # a register's elements of 4 bits


def _multiply(context: Context, form: Form, match: Match, *, size: str, scale: str) -> None:
    """Lower ``mma.sync.aligned.block_scale d, a, b, c, scale-a, selectors, scale-b, selectors``."""
    builder = context.builder
    d, a, b, c, a_codes, a_place, b_codes, b_place = context.operands
    a_type, b_type = match.get("atype"), match.get("btype")
    to = fragments.destinations(context, d, 4, D.B32)
    x = fragments.sources(context, a, 4, D.B32)
    y = fragments.sources(context, b, 2, D.B32)
    z = fragments.sources(context, c, 4, D.B32)
    scales = (
        _selected(context, a_codes, a_place, _SELECTORS[size], _A_THREADS),
        _selected(context, b_codes, b_place, _SELECTORS[size], _B_THREADS),
    )
    if a_type is None or b_type is None:
        blocks, power = _nibble_blocks(builder, x, y, size)
        product = ScaledProduct("e4m3", "e4m3", scale, power)
    else:
        sequence = Sequence(builder)
        left, right = small_floats.common_formats(a_type, b_type)
        x, y = (
            tuple(small_floats.place_in_bytes(sequence, register, kind, held) for register in part)
            for part, kind, held in ((x, a_type, left), (y, b_type, right))
        )
        blocks = [Block(x, y)]
        power = -small_floats.exponent(a_type, left) - small_floats.exponent(b_type, right)
        product = ScaledProduct(left, right, scale, power)
    results = product.multiply(builder, blocks, scales, z)
    fragments.assign(Sequence(builder), to, results, D.B32)


def _nibble_blocks(
    builder: Builder, a: Many[Operand], b: Many[Operand], size: str
) -> tuple[list[Block], int]:
    """Return the blocks of E2M1 factors of depth 64, and the power of two of their products.

    The order of elements in a block is of no importance, because sums of their products are exact.
    Of blocks of 16, two share the registers: the elements of A that belong to the other are zeros.
    """
    sequence = Sequence(builder)
    blocks = []
    for half in range(2):
        even, odd = zip(
            *(small_floats.place_nibbles(sequence, one) for one in a[2 * half : 2 * half + 2]),
            strict=True,
        )
        block = Block((*even, *odd), small_floats.place_nibbles(sequence, b[half]))
        blocks += [block] if size == "2X" else _split(builder, block)
    return blocks, -2 * small_floats.exponent("e2m1", "e4m3")


def _split(builder: Builder, block: Block) -> list[Block]:
    """Return the blocks of the lower and of the upper two lanes of each quad."""
    sequence, lanes = Sequence(builder), Lanes(builder)
    is_upper = sequence.emit(Op.SHR, D.U32, lanes.index_in_quad(), Literal(1))
    upper = sequence.emit(Op.SUB, D.U32, Literal(0), is_upper)
    found = []
    for mask in (sequence.emit(Op.NOT, D.B32, upper), upper):
        kept = tuple(sequence.emit(Op.AND, D.B32, register, mask) for register in block.a)
        found.append(Block(kept, block.b))
    return found


def _selected(
    context: Context,
    codes: tree.Operand,
    place: tree.Operand,
    bytes_: tuple[int, ...],
    threads: tuple[int, ...],
) -> Selected:
    """Return the scales that an instruction selects.

    Raises:
        Invalid: a constant selector is not allowed.
    """
    (word,) = fragments.sources(context, codes, 1, D.B32)
    if not isinstance(place, tree.Vector):
        raise Invalid("expected the selectors {byte-id, thread-id}")
    selectors = fragments.sources(context, place, 2, D.U16)
    for name, selector, allowed in zip(
        ("byte-id", "thread-id"), selectors, (bytes_, threads), strict=True
    ):
        if isinstance(selector, Literal) and selector.bits not in allowed:
            wanted = " or ".join(map(str, allowed))
            raise Invalid(f"{name} is {selector.bits}, but it must be {wanted}")
    return Selected(word, *selectors)


def _form(pattern: str, size: str, scale: str, types: tuple[str, ...] = ()) -> Form:
    lower = partial(_multiply, size=size, scale=scale)
    operands = "d, a, b, c, scale-a, select-a, scale-b, select-b"
    return Form(f"mma.sync.aligned.{pattern}.{scale}", operands, Op.MMA, lower, types, _NOTE)


def _nibbles(kind: str, size: str, scale: str) -> Form:
    slot = f"{{.scale_vec::{size}}}" if kind == "mxf4" else f".scale_vec::{size}"
    rest = f"kind::{kind}.block_scale{slot}.f32.e2m1.e2m1.f32"
    return _form(f"m16n8k64.row.col.{rest}", size, scale)


FORMS: Final = (
    _form(
        "m16n8k32.row.col.kind::mxf8f6f4.block_scale{.scale_vec::1X}.f32.atype.btype.f32",
        "1X",
        "ue8m0",
        small_floats.FORMATS,
    ),
    _nibbles("mxf4", "2X", "ue8m0"),
    _nibbles("mxf4nvf4", "2X", "ue8m0"),
    _nibbles("mxf4nvf4", "4X", "ue8m0"),
    _nibbles("mxf4nvf4", "4X", "ue4m3"),
)
