"""Registers of a warp in matrix instructions: two vectors of 16 lanes, or one lane at a time."""

from collections.abc import Callable, Sequence
from typing import Final

from vgpu_sim.exec.jit.analysis.nans import reads_number
from vgpu_sim.exec.jit.arithmetic.matrix_factors import LANES
from vgpu_sim.exec.jit.arithmetic.warps import WarpText
from vgpu_sim.exec.jit.emission.emitter import Emitter
from vgpu_sim.exec.jit.ir.ssa import Source, Value
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.exec.jit.text.writer import BITS, Text
from vgpu_sim.exec.jit.values.environment import Form
from vgpu_sim.hal.compute.limits import WARP_THREADS
from vgpu_sim.isa import DataType, ShuffleMode
from vgpu_sim.isa.types import VoteMode

SHUFFLE: Final = int(ShuffleMode.IDX)  # the codes of collectives in ``warps.h``
BALLOT: Final = 0x10 + VoteMode.BALLOT
_ANY_LANE: Final = 0x1F << 32  # SHFL's operand c, above b


def read(emitter: Emitter, source: Source, scalar: str, form: Form, part: int) -> str:
    """Return an operand of a matrix instruction. Its NaNs are made canonical, except those of a
    float addend, which may have any pattern.
    """
    any_nan = scalar == "float" and reads_number(source, DataType.F32)
    return emitter.values.read(source, scalar, form, part, clean=not any_nan)


def present(emitter: Emitter, mask: Mask, vectors: range) -> str:
    """Return the participating lanes of a warp as a vector of 32 flags, or an empty string if all
    lanes participate.
    """
    if mask.full and len(vectors) * emitter.text.width == WARP_THREADS:
        return ""
    flat = emitter.masks.flat(mask)
    return WarpText(emitter.text).join([flat[part] for part in vectors], "i1")


def halves_of(
    emitter: Emitter, source: Source, scalar: str, vectors: range, flags: str
) -> list[str]:
    """Return a warp's register as two vectors of 16 lanes; absent lanes are zero."""
    text, warp = emitter.text, WarpText(emitter.text)
    parts = [read(emitter, source, scalar, Form.VECTOR, part) for part in vectors]
    if not flags and text.width == LANES and len(parts) == WARP_THREADS // LANES:
        return parts
    whole = warp.join(parts, scalar)
    if flags:
        whole = warp.select(flags, whole, "zeroinitializer")
    return [
        warp.shuffle(whole, "poison", range(begin, begin + LANES), scalar) for begin in (0, LANES)
    ]


def vectors_of(text: Text, halves: Sequence[str], scalar: str, count: int) -> list[str]:
    """Divide a warp's register into vectors of ``text.width`` lanes; return the first ``count`` of
    them.

    ``halves`` are the two halves of the register.
    """
    if text.width == LANES:
        return list(halves[:count])
    warp = WarpText(text)
    whole = warp.shuffle(halves[0], halves[1], range(WARP_THREADS), scalar, LANES)
    return [warp.extract_vector(whole, scalar, part) for part in range(count)]


def define(emitter: Emitter, result: Value, vectors: Sequence[str], scalar: str) -> None:
    """Record the vectors of lanes that hold a result."""
    values = emitter.values

    def produce(form: Form, part: int) -> str:
        return _fill(emitter, values.in_form(vectors[part], scalar, form), scalar, result, form)

    values.define(result, produce)


def _fill(emitter: Emitter, value: str, scalar: str, result: Value, form: Form) -> str:
    """Convert a result to the form in which its register is held."""
    values = emitter.values
    if scalar == "float" and result.bits != BITS[scalar]:
        value, scalar = values.canonicalise_nans(value, scalar, DataType.F32, form is Form.VECTOR)
    return values.extend_to_storage(value, scalar, result, form, signed=False)


def shuffle_lane(text: Text, callee: str, how: str, value: str, lane: str) -> str:
    """Return the value of another lane of the warp. Use this in code whose groups have one lane
    each.
    """
    a = text.let(f"zext i32 {value} to i64")
    b = text.let(f"zext i32 {lane} to i64")
    shuffle_operands = text.let(f"or i64 {b}, {_ANY_LANE}")
    shuffled = text.let(
        f"call i64 {callee}(ptr %thread, i32 {how}, i32 -1, i64 {a}, i64 {shuffle_operands})"
    )
    return text.let(f"trunc i64 {shuffled} to i32")


def define_alone(emitter: Emitter, result: Value, value: str, scalar: str) -> None:
    """Record the value of a result in a group of one lane."""

    def produce(form: Form, part: int) -> str:
        own = emitter.text.splat(scalar, value) if form is Form.VECTOR else value
        return _fill(emitter, own, scalar, result, form)

    emitter.values.define(result, produce)


def emit_if_in_mask(emitter: Emitter, mask: Mask, type_: str, write: Callable[[], str]) -> str:
    """Call ``write`` to emit code that runs only if the lane is in ``mask``. Return the code's
    value.

    If the lane is not in ``mask``, the value is arbitrary.
    """
    text = emitter.text
    condition = emitter.masks.any(mask)
    if condition == "true":
        return write()
    run_label, onward, origin = text.label("collects"), text.label("onward"), text.block_label
    text.branch(condition, run_label, onward)
    with text.known.open_scope():
        text.begin(run_label, follows=True)
        computed = write()
        end = text.block_label
        text.jump(onward)
    text.begin(onward, follows=True)
    return text.phi(type_, (computed, end), ("zeroinitializer", origin))
