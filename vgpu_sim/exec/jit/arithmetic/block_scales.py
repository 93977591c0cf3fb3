"""Block scales of matrix products as LLVM text: sums of blocks times scales, added in binary64."""

from collections.abc import Callable, Sequence
from typing import Final

from vgpu_sim.exec.jit.arithmetic.matrix_factors import Lanes, split_bytes
from vgpu_sim.isa import DataType

_NAN_CODE: Final = 0xFF
_BIAS: Final = 1023 - 127  # of binary64, less that of UE8M0
_FRACTION_BITS: Final = 52
_QUIET: Final = 0x7FF8_0000_0000_0000
_UNSIGNED: Final = 0x7F7F_7F7F  # without the upper bit of each byte
_SUMS: Final = 4
"""Sums and results of a lane: two columns of each of its two rows."""

Numbers = Callable[[int], str]
"""A function from the number of a block to a scale of it, as a double."""


def numbers_of(lanes: Lanes, word: str, type_: DataType) -> Numbers:
    """Return the scales whose codes are the bytes of a word."""
    if type_ is DataType.E4M3:
        magnitudes = lanes.emit("and", "i32", word, lanes.const("i32", str(_UNSIGNED)))
        singles = split_bytes(lanes, magnitudes, type_)
        return lambda block: _widen(lanes, singles[block])
    return lambda block: _power(lanes, word, block)


def accumulate(
    lanes: Lanes,
    sums: Sequence[str],
    rows: Sequence[Numbers],
    columns: Sequence[Numbers],
    addends: Sequence[str],
) -> list[str]:
    """Return the results in a lane: ``addends`` plus the scaled ``sums``, four for each block.

    All are floats. A product of a sum and its scales is exact in binary64.
    """
    totals = [_widen(lanes, addend) for addend in addends]
    for block in range(len(sums) // _SUMS):
        left, right = ([scale(block) for scale in scales] for scales in (rows, columns))
        for n in range(_SUMS):
            factor = lanes.emit("fmul", "double", left[n // 2], right[n % 2])
            number = _widen(lanes, sums[_SUMS * block + n])
            totals[n] = lanes.call("fma", "double", number, factor, totals[n])
    types = f"{lanes.type_of('double')} {{}} to {lanes.type_of('float')}"
    return [lanes.text.let("fptrunc " + types.format(total)) for total in totals]


def _widen(lanes: Lanes, number: str) -> str:
    return lanes.text.let(f"fpext {lanes.type_of('float')} {number} to {lanes.type_of('double')}")


def _power(lanes: Lanes, word: str, block: int) -> str:
    """Return the power of two whose UE8M0 code is a byte of a word."""
    moved = lanes.emit("lshr", "i32", word, lanes.const("i32", str(8 * block)))
    code = lanes.emit("and", "i32", moved, lanes.const("i32", str(_NAN_CODE)))
    wide = lanes.text.let(f"zext {lanes.type_of('i32')} {code} to {lanes.type_of('i64')}")
    field = lanes.emit("add", "i64", wide, lanes.const("i64", str(_BIAS)))
    bits = lanes.emit("shl", "i64", field, lanes.const("i64", str(_FRACTION_BITS)))
    flag = lanes.text.let(
        f"icmp eq {lanes.type_of('i32')} {code}, {lanes.const('i32', str(_NAN_CODE))}"
    )
    type_ = lanes.type_of("i64")
    chosen = lanes.text.let(
        f"select {lanes.type_of('i1')} {flag}, {type_} {lanes.const('i64', str(_QUIET))},"
        f" {type_} {bits}"
    )
    return lanes.bitcast(chosen, "i64", "double")
