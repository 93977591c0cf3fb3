"""Integer and predicate arithmetic and conversions, compared with Python's unbounded integers."""

import math
import random
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from support.execution.isa_lanes import evaluate, prepare
from support.oracles import ieee_oracle
from support.oracles.ieee_oracle import BY_NAME
from vgpu_sim.exec import interp

_TYPES = ["U16", "S16", "U32", "S32", "U64", "S64", "B32"]


def _bits(type_: str) -> int:
    return int(type_.lstrip("USBF"))


def _to_signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _value(pattern: int, type_: str) -> int:
    return _to_signed(pattern, _bits(type_)) if type_[0] == "S" else pattern


def _patterns(bits: int, count: int, seed: int) -> list[int]:
    generator = random.Random(seed)
    top = 1 << bits
    corners = [0, 1, 2, 3, top - 1, top - 2, top // 2, top // 2 - 1, top // 2 + 1, 7, top - 7]
    rest = (generator.getrandbits(generator.randint(1, bits)) for _ in range(count - len(corners)))
    return corners + list(rest)


def _pairs(bits: int) -> tuple[list[int], list[int]]:
    """Return two columns of 32 whose first rows pair the corner cases differently for each seed."""
    a, b = _patterns(bits, 32, 1), _patterns(bits, 32, 2)
    random.Random(bits).shuffle(b)
    # the pairs that matter for division
    a[:3], b[:3] = [1 << (bits - 1), 5, 1 << (bits - 1)], [(1 << bits) - 1, 0, 0]
    return a, b


def _divide(a: int, b: int) -> int:
    return -1 if b == 0 else math.trunc(Fraction(a, b))


_BINARY: dict[str, Callable[[int, int], int]] = {
    "ADD": lambda a, b: a + b,
    "SUB": lambda a, b: a - b,
    "MUL.LO": lambda a, b: a * b,
    "MIN": min,
    "MAX": max,
    "DIV": _divide,
    "REM": lambda a, b: -1 if b == 0 else a - _divide(a, b) * b,
    "AND": lambda a, b: a & b,
    "OR": lambda a, b: a | b,
    "XOR": lambda a, b: a ^ b,
}


@pytest.mark.parametrize("type_", _TYPES)
@pytest.mark.parametrize("op", _BINARY)
def test_binary_operations_wrap(op: str, type_: str) -> None:
    bits = _bits(type_)
    a, b = _pairs(bits)
    expected = [
        _BINARY[op](_value(x, type_), _value(y, type_)) % (1 << bits)
        for x, y in zip(a, b, strict=True)
    ]
    assert evaluate(f"{op}.{type_}", [a, b], bits, bits) == expected


def test_division_corners() -> None:
    least = 0x8000_0000
    assert evaluate("DIV.S32", [[least, 7, 0], [2**32 - 1, 0, 0]], 32, 32) == [
        least,
        2**32 - 1,
        2**32 - 1,
    ]
    assert evaluate("REM.S32", [[least, 7, 2**32 - 7], [2**32 - 1, 0, 3]], 32, 32) == [
        0,
        2**32 - 1,
        2**32 - 1,
    ]
    assert evaluate("DIV.U64", [[9], [0]], 64, 64) == [2**64 - 1]


@pytest.mark.parametrize("type_", _TYPES)
def test_high_and_wide_products(type_: str) -> None:
    bits = _bits(type_)
    a, b = _pairs(bits)
    products = [_value(x, type_) * _value(y, type_) for x, y in zip(a, b, strict=True)]
    high = [(product >> bits) % (1 << bits) for product in products]
    assert evaluate(f"MUL.HI.{type_}", [a, b], bits, bits) == high
    if bits < 64:
        wide = [product % (1 << 2 * bits) for product in products]
        assert evaluate(f"MUL.WIDE.{type_}", [a, b], bits, 2 * bits) == wide


@pytest.mark.parametrize("type_", ["U16", "S32", "U64", "S64"])
def test_multiply_add(type_: str) -> None:
    bits = _bits(type_)
    a, b = _pairs(bits)
    c = _patterns(bits, 32, 3)
    rows = list(zip(a, b, c, strict=True))
    low = [(x * y + z) % (1 << bits) for x, y, z in rows]
    assert evaluate(f"MAD.LO.{type_}", [a, b, c], bits, bits) == low
    high = [((_value(x, type_) * _value(y, type_) >> bits) + z) % (1 << bits) for x, y, z in rows]
    assert evaluate(f"MAD.HI.{type_}", [a, b, c], bits, bits) == high


def test_wide_multiply_add_takes_a_wide_addend() -> None:
    warp = prepare("MAD.WIDE.S32 r3, r0, r1, r4")
    warp.registers[0][:], warp.registers[1][:] = 2**32 - 3, 5
    warp.registers[4][:] = 2**63
    interp.step(warp)
    assert set(warp.registers[3].tolist()) == {2**63 - 15}


@pytest.mark.parametrize("type_", ["B16", "U32", "S32", "S64", "U64", "S16"])
@pytest.mark.parametrize("op", ["SHL", "SHR"])
def test_shifts_clamp_their_count(op: str, type_: str) -> None:
    bits = _bits(type_)
    for count in (0, 1, bits - 1, bits, bits + 1, 63, 64, 255, 256, 2**31, 2**32 - 1):
        values = _patterns(bits, 32, 4)
        warp = prepare(
            f"{op}.{type_} r{ {16: 6, 32: 0, 64: 3}[bits] }, r{ {16: 7, 32: 1, 64: 4}[bits] }, r2"
        )
        source = {16: 7, 32: 1, 64: 4}[bits]
        warp.registers[source][:] = values
        warp.registers[2][:] = count
        interp.step(warp)
        got = warp.registers[{16: 6, 32: 0, 64: 3}[bits]].tolist()
        if op == "SHL":
            assert got == [value << min(count, 64) & (1 << bits) - 1 for value in values]
        else:
            assert got == [
                (_value(value, type_) >> min(count, 64)) % (1 << bits) for value in values
            ]


@pytest.mark.parametrize("type_", ["S16", "S32", "S64"])
def test_unary_operations(type_: str) -> None:
    bits = _bits(type_)
    values = _patterns(bits, 32, 5)
    top = 1 << bits
    assert evaluate(f"NEG.{type_}", [values], bits, bits) == [-v % top for v in values]
    assert evaluate(f"NOT.{type_}", [values], bits, bits) == [~v % top for v in values]
    absolute = [abs(_to_signed(v, bits)) % top for v in values]
    assert evaluate(f"ABS.{type_}", [values], bits, bits) == absolute


def test_results_extend_to_a_wider_register_by_their_type() -> None:
    assert evaluate("ADD.S32", [[2**31], [0]], 32, 64) == [2**64 - 2**31]
    assert evaluate("ADD.U32", [[2**31], [0]], 32, 64) == [2**31]
    assert evaluate("ADD.B32", [[2**31], [0]], 32, 64) == [2**31]
    assert evaluate("ADD.S16", [[2**15], [0]], 16, 32) == [2**32 - 2**15]
    assert evaluate("FADD.F32", [[0xBF80_0000], [0]], 32, 64) == [0xBF80_0000]
    assert evaluate("MUL.WIDE.S16", [[2**16 - 1], [1]], 16, 64) == [2**64 - 1]
    # a wider source register supplies its low bits
    assert evaluate("ADD.U32", [[2**32 + 1], [2**40 + 1]], 64, 32) == [2]


def test_predicate_logic() -> None:
    patterns = [np.array([False, False, True, True] * 8), np.array([False, True] * 16)]
    for op, expected in (
        ("AND", patterns[0] & patterns[1]),
        ("OR", patterns[0] | patterns[1]),
        ("XOR", patterns[0] ^ patterns[1]),
    ):
        warp = prepare(f"{op}.PRED p2, p0, p1", "NOT.PRED p3, p2", "MOV.PRED p2, 1")
        warp.predicates[0][:], warp.predicates[1][:] = patterns
        interp.step(warp)
        assert (warp.predicates[2] == expected).all()
        interp.step(warp)
        assert (warp.predicates[3] == ~expected).all()
        interp.step(warp)
        assert warp.predicates[2].all()


def test_select_takes_each_lane_by_its_predicate() -> None:
    warp = prepare("SELP.F32 r0, r1, 0x7f800001, p0")
    warp.registers[1][:] = 5
    warp.predicates[0][::2] = True
    interp.step(warp)
    assert warp.registers[0].tolist() == [5, 0x7F80_0001] * 16


@pytest.mark.parametrize("type_", ["U32", "S32", "S64", "U16"])
def test_setp_combines_and_complements(type_: str) -> None:
    bits = _bits(type_)
    first = {16: 6, 32: 0, 64: 3}[bits]
    a, b = _pairs(bits)
    with_ = np.array([True, False] * 16)
    less = np.array([_value(x, type_) < _value(y, type_) for x, y in zip(a, b, strict=True)])
    for combine, function in (
        ("AND", np.logical_and),
        ("OR", np.logical_or),
        ("XOR", np.logical_xor),
    ):
        warp = prepare(f"SETP.LT.{combine}.{type_} p0|p1, r{first}, r{first + 1}, p2")
        warp.registers[first][:], warp.registers[first + 1][:] = a, b
        warp.predicates[2][:] = with_
        interp.step(warp)
        assert (warp.predicates[0] == function(less, with_)).all()
        assert (warp.predicates[1] == function(~less, with_)).all()


_INTEGERS = ["U8", "S8", "U16", "S16", "U32", "S32", "U64", "S64"]


@pytest.mark.parametrize("source", _INTEGERS)
@pytest.mark.parametrize("to", _INTEGERS)
@pytest.mark.parametrize("saturate", [False, True])
def test_integer_conversions(source: str, to: str, saturate: bool) -> None:
    bits, width = _bits(source), _bits(to)
    values = _patterns(bits, 32, 6)
    lowest, highest = (
        (-(1 << (width - 1)), (1 << (width - 1)) - 1) if to[0] == "S" else (0, (1 << width) - 1)
    )
    expected = []
    for pattern in values:
        value = _value(pattern, source)
        if saturate:
            value = min(max(value, lowest), highest)
        value = value % (1 << width)
        expected.append(_value(value, to) % (1 << 64))
    word = ".SAT" if saturate else ""
    assert evaluate(f"CVT{word}.{to}.{source}", [values], bits, 64) == expected


@pytest.mark.parametrize("rounding", ["", "RN", "RZ", "RM", "RP"])
@pytest.mark.parametrize("to", ["F16", "BF16", "F32", "F64"])
@pytest.mark.parametrize("source", ["U8", "S16", "U32", "S32", "U64", "S64"])
def test_integers_to_floats_round_once(source: str, to: str, rounding: str) -> None:
    bits, format_ = _bits(source), BY_NAME[to]
    values = _patterns(bits, 24, 7)
    if bits == 64:  # ties at 53 and 24 bits, and one that a 64-bit tail breaks
        values += [2**53 + 1, 2**53 + 3, 2**54 + 2, 2**63 + 2**39, 2**63 + 2**39 + 1]
        values += [2**62 + 2**38 + 1, 2**64 - 2**10, 2**64 - 2**10 - 1]
    expected = []
    for pattern in values:
        value = _value(pattern, source)
        expected.append(
            ieee_oracle.encode(Fraction(value), format_, rounding or "RN") if value else 0
        )
    word = f".{rounding}" if rounding else ""
    got = evaluate(f"CVT{word}.{to}.{source}", [values], bits, format_.bits)
    assert got == expected


_INTEGRAL: dict[str, Callable[[Fraction], int]] = {
    "RNI": round,
    "RZI": math.trunc,
    "RMI": math.floor,
    "RPI": math.ceil,
}


@pytest.mark.parametrize("rounding", _INTEGRAL)
@pytest.mark.parametrize("source", ["F16", "BF16", "F32", "F64"])
@pytest.mark.parametrize("to", ["U8", "S8", "U16", "S32", "U32", "S64", "U64"])
def test_floats_to_integers_clamp_and_nan_is_zero_or_the_top_bit(
    source: str, to: str, rounding: str
) -> None:
    format_, width = BY_NAME[source], _bits(to)
    lowest, highest = (
        (-(1 << (width - 1)), (1 << (width - 1)) - 1) if to[0] == "S" else (0, (1 << width) - 1)
    )
    near = [Fraction(v, 4) for v in (1, 2, 3, 5, 6, 7, 10, -1, -2, -3, -6, 511, 513, 1022)]
    near += [Fraction(lowest), Fraction(highest), Fraction(highest + 1), Fraction(2**63)]
    near += [Fraction(-(2**63)), Fraction(2**31) - Fraction(1, 2), Fraction(2**64 - 2**11)]
    patterns = format_.corners() + [ieee_oracle.encode(v, format_) for v in near if v]
    for begin in range(0, len(patterns), 32):
        batch = patterns[begin : begin + 32]
        expected = []
        for pattern in batch:
            value = ieee_oracle.decode(pattern, format_)
            if isinstance(value, Fraction):
                integer = min(max(_INTEGRAL[rounding](value), lowest), highest)
            else:
                # PTX ISA, "cvt": a NaN of .f64, or one converted to 64 bits, yields only the top
                # bit.
                top = 1 << (width - 1) if source == "F64" or width == 64 else 0
                top -= 2 * top if to[0] == "S" else 0
                integer = {"nan": top, "+inf": highest, "-inf": lowest}[value]
            expected.append(integer % (1 << 64))
        got = evaluate(f"CVT.{rounding}.{to}.{source}", [batch], format_.bits, 64)
        assert got == expected


@pytest.mark.parametrize("rounding", ["RN", "RZ", "RM", "RP"])
@pytest.mark.parametrize(
    ("to", "source"),
    [("F32", "F64"), ("F16", "F32"), ("BF16", "F32"), ("F16", "F64"), ("BF16", "F16")],
)
def test_narrowing_rounds_in_each_direction(to: str, source: str, rounding: str) -> None:
    to_format, from_format = BY_NAME[to], BY_NAME[source]
    generator = random.Random(8)
    patterns = from_format.corners()
    for pattern in to_format.corners():  # at, and adjacent to, the limits of the target
        value = ieee_oracle.decode(pattern, to_format)
        if isinstance(value, Fraction) and value:
            exact = ieee_oracle.encode(value, from_format)
            patterns += [(exact + step) % (2 * from_format.sign) for step in (-1, 0, 1)]
            patterns.append(ieee_oracle.encode(value * Fraction(3, 2), from_format))
    patterns += [generator.getrandbits(from_format.bits) for _ in range(200)]
    for begin in range(0, len(patterns), 32):
        batch = patterns[begin : begin + 32]
        expected = []
        for pattern in batch:
            value = ieee_oracle.decode(pattern, from_format)
            sign = to_format.sign if pattern & from_format.sign else 0
            if value == "nan":
                expected.append(to_format.nan)
            elif isinstance(value, str):
                expected.append(sign | to_format.infinity)
            elif value == 0:
                expected.append(sign)
            else:
                expected.append(ieee_oracle.encode(value, to_format, rounding))
        got = evaluate(f"CVT.{rounding}.{to}.{source}", [batch], from_format.bits, to_format.bits)
        assert got == expected


def test_widening_is_exact_and_makes_nans_canonical() -> None:
    half = [0x3C00, 0x0001, 0x8000, 0x7C00, 0x7C01, 0xFBFF]
    assert evaluate("CVT.F32.F16", [half], 16, 32) == [
        0x3F80_0000,
        0x3380_0000,
        0x8000_0000,
        0x7F80_0000,
        0x7FFF_FFFF,
        0xC77F_E000,
    ]
    assert evaluate("CVT.F64.F32", [[1, 0xFFC0_0000]], 32, 64) == [
        ieee_oracle.encode(Fraction(2) ** -149, ieee_oracle.F64),
        0x7FF8_0000_0000_0000,
    ]
    assert evaluate("CVT.F32.BF16", [[0x3FC0, 0x0001]], 16, 32) == [0x3FC0_0000, 0x0001_0000]


def test_integral_roundings_between_equal_formats_keep_the_zero_sign() -> None:
    values = [0xBE80_0000, 0x3F00_0000, 0x3FC0_0000, 0xC020_0000, 0x4B80_0001, 0x7F80_0001]
    assert evaluate("CVT.RNI.F32.F32", [values], 32, 32) == [
        0x8000_0000,
        0,
        0x4000_0000,
        0xC000_0000,
        0x4B80_0001,
        0x7FFF_FFFF,
    ]
    assert evaluate("CVT.RPI.F32.F32", [[0xBE80_0000, 0x3E80_0000]], 32, 32) == [
        0x8000_0000,
        0x3F80_0000,
    ]


def test_conversions_flush_only_binary32() -> None:
    assert evaluate("CVT.FTZ.F64.F32", [[1, 0x8000_0001]], 32, 64) == [0, 2**63]
    tiny = ieee_oracle.encode(Fraction(2) ** -140, ieee_oracle.F64)
    assert evaluate("CVT.RN.FTZ.F32.F64", [[tiny]], 64, 32) == [0]
    assert evaluate("CVT.RN.F32.F64", [[tiny]], 64, 32) == [1 << 9]
    # the binary16 result is subnormal and stays
    assert evaluate("CVT.RN.FTZ.F16.F32", [[0x3380_0000]], 32, 16) == [1]
    assert evaluate("CVT.RPI.FTZ.S32.F32", [[1]], 32, 32) == [0]
    assert evaluate("CVT.RPI.S32.F32", [[1]], 32, 32) == [1]


def test_conversions_saturate_floats() -> None:
    values = [0x4000_0000, 0xBF80_0000, 0x7FC0_0000, 0x3E80_0000]
    assert evaluate("CVT.SAT.F32.F32", [values], 32, 32) == [0x3F80_0000, 0, 0, 0x3E80_0000]
