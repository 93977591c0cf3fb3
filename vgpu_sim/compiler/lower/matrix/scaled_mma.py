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
from vgpu_sim.compiler.lower.matrix.sparsity import metadata_of
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Literal, Op, Operand

D = DataType
_NOTE: Final = "MMA of each block and zeros, MMA_SCALE; SHFL of scales that are selected"
_SELECTORS: Final = {"1X": (0, 1, 2, 3), "2X": (0, 2), "4X": (0,)}
_A_THREADS, _B_THREADS = (0, 1), (0, 1, 2, 3)
_NIBBLE_BITS: Final = 4


def _multiply(
    context: Context, form: Form, match: Match, *, shape: str, size: str, scale: str
) -> None:
    """Lower ``mma.sync.aligned.block_scale d, a, b, c, scale-a, selectors, scale-b, selectors``.

    Sparse products have ``metadata, selector`` before the scales.
    """
    builder = context.builder
    d, a, b, c, *sparse, a_codes, a_place, b_codes, b_place = context.operands
    a_type, b_type = match.get("atype") or "e2m1", match.get("btype") or "e2m1"
    are_nibbles = "atype" not in match
    depth = fragments.shape_of(shape, a_type).depth
    to = fragments.destinations(context, d, 4, D.B32)
    x: Many[Operand] = fragments.sources(context, a, 4, D.B32)
    y = fragments.sources(context, b, 4 if sparse else 2, D.B32)
    z = fragments.sources(context, c, 4, D.B32)
    if sparse:
        register = fragments.single(context, sparse[0], D.B32)
        bits = _NIBBLE_BITS if are_nibbles else fragments.BITS[a_type]
        x = metadata_of(register, sparse[1], bits, depth).expand(builder, x)
    scales = (
        _selected(context, a_codes, a_place, _SELECTORS[size], _A_THREADS),
        _selected(context, b_codes, b_place, _SELECTORS[size], _B_THREADS),
    )
    if are_nibbles:
        blocks = _nibble_blocks(builder, x, y, int(size[0]))
        product = ScaledProduct(a_type, b_type, scale)
    else:
        sequence = Sequence(builder)
        left, right = small_floats.common_formats(a_type, b_type)
        x, y = (
            tuple(
                small_floats.place_in_bytes(sequence, register, kind, common_kind)
                for register in part
            )
            for part, kind, common_kind in ((x, a_type, left), (y, b_type, right))
        )
        blocks = [Block(x, y)]
        power = -small_floats.exponent(a_type, left) - small_floats.exponent(b_type, right)
        product = ScaledProduct(left, right, scale, power)
    results = product.multiply(builder, blocks, scales, z)
    fragments.assign(Sequence(builder), to, results, D.B32)


def _nibble_blocks(builder: Builder, a: Many[Operand], b: Many[Operand], count: int) -> list[Block]:
    """Return ``count`` blocks of E2M1 factors.

    A register of each lane of a quad is 32 elements. Of blocks of 16, two share the registers: the
    elements of A that belong to the other are zeros.
    """
    if count > len(b):
        parts = (Block(tuple(a[2 * n : 2 * n + 2]), (column,)) for n, column in enumerate(b))
        return [block for part in parts for block in _split(builder, part)]
    each = len(b) // count
    return [
        Block(tuple(a[2 * n : 2 * (n + each)]), tuple(b[n : n + each]))
        for n in range(0, len(b), each)
    ]


def _split(builder: Builder, block: Block) -> list[Block]:
    """Return the blocks of the lower and of the upper two lanes of each quad."""
    sequence, lanes = Sequence(builder), Lanes(builder)
    is_upper = sequence.emit(Op.SHR, D.U32, lanes.index_in_quad(), Literal(1))
    upper = sequence.emit(Op.SUB, D.U32, Literal(0), is_upper)
    blocks = []
    for mask in (sequence.emit(Op.NOT, D.B32, upper), upper):
        masked_registers = tuple(
            sequence.emit(Op.AND, D.B32, register, mask) for register in block.a
        )
        blocks.append(Block(masked_registers, block.b))
    return blocks


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
    word = fragments.single(context, codes, D.B32)
    if not isinstance(place, tree.Vector):
        raise Invalid("expected the selectors {byte-id, thread-id}")
    selectors = fragments.sources(context, place, 2, D.U16)
    for name, selector, allowed in zip(
        ("byte-id", "thread-id"), selectors, (bytes_, threads), strict=True
    ):
        if isinstance(selector, Literal) and selector.bits not in allowed:
            allowed_list = " or ".join(map(str, allowed))
            raise Invalid(f"{name} is {selector.bits}, but it must be {allowed_list}")
    return Selected(word, *selectors)


def _forms(kind: str, size: str, scale: str, types: tuple[str, ...] = ()) -> tuple[Form, ...]:
    """Return the dense and the sparse form of a kind."""
    forms = []
    words = "atype.btype" if types else "e2m1.e2m1"
    slot = f".scale_vec::{size}" if kind == "mxf4nvf4" else f"{{.scale_vec::{size}}}"
    ending = f"row.col.kind::{kind}.block_scale{slot}.f32.{words}.f32.{scale}"
    for sparse, head in ((False, "mma"), (True, "mma.sp::ordered_metadata")):
        shape = f"m16n8k{(32 if types else 64) << sparse}"
        lower = partial(_multiply, shape=shape, size=size, scale=scale)
        middle = "metadata, selector, " if sparse else ""
        operands = f"d, a, b, c, {middle}scale-a, select-a, scale-b, select-b"
        pattern = f"{head}.sync.aligned.{shape}.{ending}"
        forms.append(Form(pattern, operands, Op.MMA, lower, types, _NOTE))
    return tuple(forms)


FORMS: Final = (
    *_forms("mxf8f6f4", "1X", "ue8m0", small_floats.FORMATS),
    *_forms("mxf4", "2X", "ue8m0"),
    *_forms("mxf4nvf4", "2X", "ue8m0"),
    *_forms("mxf4nvf4", "4X", "ue8m0"),
    *_forms("mxf4nvf4", "4X", "ue4m3"),
)
