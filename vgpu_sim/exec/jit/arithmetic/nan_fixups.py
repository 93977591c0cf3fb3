"""Canonical NaNs by one AVX-512 instruction (VFIXUPIMM), which needs no mask register.

A comparison and a select do the same, but there are only seven mask registers, and groups of 16
vectors spill them. The instruction classifies each lane and looks up in a table what to return:
the first operand for a NaN, the number itself for anything else.
"""

from typing import Final

from vgpu_sim.exec.jit.analysis.nans import CANONICAL
from vgpu_sim.exec.jit.text.writer import Text, integer
from vgpu_sim.isa import DataType

_NAMES: Final = {DataType.F32: ("float", "ps"), DataType.F64: ("double", "pd")}
# Four bits per class, quiet and signalling NaNs lowest: 0 keeps the first operand, 1 takes the
# number.
_TABLE: Final = 0x1111_1100
_ROUNDING: Final = 4  # the current rounding mode; the instruction rounds nothing


def is_available(lanes: int, type_: DataType) -> bool:
    """Return whether VFIXUPIMM exists for vectors of ``lanes`` lanes of this type."""
    from vgpu_sim.exec.jit.target import llvm

    return type_ in _NAMES and llvm.vector_bits() == 512 and lanes * type_.bits >= 128


def canonicalise_nans(text: Text, number: str, type_: DataType) -> str:
    """Return a vector's bit patterns with canonical NaNs."""
    lanes, scalar = text.width, integer(type_.bits)
    float_type, whole = text.type_of(_NAMES[type_][0], True), text.type_of(scalar, True)
    part_lanes = 512 // type_.bits
    if lanes <= part_lanes:
        parts = [_fix_up(text, number, type_, lanes)]
    else:
        parts = []
        for first in range(0, lanes, part_lanes):
            places = ", ".join(f"i32 {lane}" for lane in range(first, first + part_lanes))
            order = f"<{part_lanes} x i32> <{places}>"
            part = f"shufflevector {float_type} {number}, {float_type} poison, {order}"
            parts.append(_fix_up(text, text.let(part), type_, part_lanes))
    while len(parts) > 1:
        places = ", ".join(f"i32 {lane}" for lane in range(2 * part_lanes))
        kind = f"<{part_lanes} x {_NAMES[type_][0]}>"
        parts = [
            text.let(f"shufflevector {kind} {a}, {kind} {b}, <{2 * part_lanes} x i32> <{places}>")
            for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
        part_lanes *= 2
    return text.let(f"bitcast {float_type} {parts[0]} to {whole}")


def _fix_up(text: Text, number: str, type_: DataType, lanes: int) -> str:
    name, suffix = _NAMES[type_]
    floats, words = f"<{lanes} x {name}>", f"<{lanes} x {integer(type_.bits)}>"
    bits = lanes * type_.bits
    pattern = f"splat ({integer(type_.bits)} {CANONICAL[type_]})"
    first = f"bitcast ({words} {pattern} to {floats})"
    table = f"splat ({integer(type_.bits)} {_TABLE})"
    flags = f"i{max(lanes, 8)}"
    arguments = [(floats, first), (floats, number), (words, table), ("i32", "0"), (flags, "-1")]
    if bits == 512:
        arguments.append(("i32", str(_ROUNDING)))
    return text.call(floats, f"llvm.x86.avx512.mask.fixupimm.{suffix}.{bits}", *arguments)
