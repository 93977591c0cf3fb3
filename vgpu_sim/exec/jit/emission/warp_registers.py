"""Registers of a warp that holds matrices: as two vectors of 16 lanes, or lane by lane."""

from collections.abc import Callable, Sequence
from typing import Final

from vgpu_sim.exec.jit.analysis.nans import reads_number
from vgpu_sim.exec.jit.arithmetic.matrix_products import LANES
from vgpu_sim.exec.jit.arithmetic.warps import WarpText
from vgpu_sim.exec.jit.emission.emitter import Emitter
from vgpu_sim.exec.jit.ir.ssa import Source, Value
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.exec.jit.text.writer import BITS, Text
from vgpu_sim.exec.jit.values.environment import Form
from vgpu_sim.hal.compute.limits import WARP_THREADS
from vgpu_sim.isa import DataType, ShuffleMode
from vgpu_sim.isa.types import VoteMode

SHUFFLE: Final = int(ShuffleMode.IDX)  # as ``warps.h`` calls collectives
BALLOT: Final = 0x10 + VoteMode.BALLOT
_ANY_LANE: Final = 0x1F << 32  # c of SHFL, above b


def read(emitter: Emitter, source: Source, scalar: str, form: Form, strip: int) -> str:
    """Read an operand; an addend may have any NaN."""
    any_nan = scalar == "float" and reads_number(source, DataType.F32)
    return emitter.values.read(source, scalar, form, strip, clean=not any_nan)


def present(emitter: Emitter, mask: Mask, strips: range) -> str:
    """Return a warp's lanes that take part as 32 flags; nothing if those are all."""
    if mask.full and len(strips) * emitter.text.width == WARP_THREADS:
        return ""
    flat = emitter.masks.flat(mask)
    return WarpText(emitter.text).join([flat[strip] for strip in strips], "i1")


def halves_of(
    emitter: Emitter, source: Source, scalar: str, strips: range, flags: str
) -> list[str]:
    """Return a warp's register as two vectors of 16 lanes; those that are not there are zeros."""
    text, warp = emitter.text, WarpText(emitter.text)
    parts = [read(emitter, source, scalar, Form.VECTOR, strip) for strip in strips]
    if not flags and text.width == LANES and len(parts) == WARP_THREADS // LANES:
        return parts
    whole = warp.join(parts, scalar)
    if flags:
        whole = warp.select(flags, whole, "zeroinitializer")
    return [
        warp.shuffle(whole, "poison", range(begin, begin + LANES), scalar) for begin in (0, LANES)
    ]


def strips_of(text: Text, halves: Sequence[str], scalar: str, count: int) -> list[str]:
    """Return the first strips of a warp's register."""
    if text.width == LANES:
        return list(halves[:count])
    warp = WarpText(text)
    whole = warp.shuffle(halves[0], halves[1], range(WARP_THREADS), scalar, LANES)
    return [warp.strip(whole, scalar, strip) for strip in range(count)]


def define(emitter: Emitter, result: Value, strips: Sequence[str], scalar: str) -> None:
    """Hold a result by its strips."""
    values = emitter.values

    def produce(form: Form, strip: int) -> str:
        return _filled(emitter, values.one_of(strips[strip], scalar, form), scalar, result, form)

    values.define(result, produce)


def _filled(emitter: Emitter, value: str, scalar: str, result: Value, form: Form) -> str:
    """Return a result as its register holds it."""
    values = emitter.values
    if scalar == "float" and result.bits != BITS[scalar]:
        value, scalar = values.canonical(value, scalar, DataType.F32, form is Form.VECTOR)
    return values.fill(value, scalar, result, form, signed=False)


def shuffled(text: Text, callee: str, how: str, value: str, lane: str) -> str:
    """Return what another lane, that is a group of its own, holds."""
    a = text.let(f"zext i32 {value} to i64")
    b = text.let(f"zext i32 {lane} to i64")
    way = text.let(f"or i64 {b}, {_ANY_LANE}")
    found = text.let(f"call i64 {callee}(ptr %thread, i32 {how}, i32 -1, i64 {a}, i64 {way})")
    return text.let(f"trunc i64 {found} to i32")


def define_alone(emitter: Emitter, result: Value, value: str, scalar: str) -> None:
    """Hold a result of a group of one lane."""

    def produce(form: Form, strip: int) -> str:
        own = emitter.text.splat(scalar, value) if form is Form.VECTOR else value
        return _filled(emitter, own, scalar, result, form)

    emitter.values.define(result, produce)


def if_here(emitter: Emitter, mask: Mask, type_: str, write: Callable[[], str]) -> str:
    """Write something for a lane that may not be there; return its value, or anything."""
    text = emitter.text
    condition = emitter.masks.any(mask)
    if condition == "true":
        return write()
    here, onward, origin = text.label("collects"), text.label("onward"), text.block_label
    text.branch(condition, here, onward)
    with text.known.within():
        text.begin(here, follows=True)
        found = write()
        end = text.block_label
        text.jump(onward)
    text.begin(onward, follows=True)
    return text.phi(type_, (found, end), ("zeroinitializer", origin))
