"""cvt from and to bfloat16, TF32 and formats of 8 bits and fewer, compared with ml_dtypes and exact
arithmetic: every pattern of a narrow source; for wide ones, all values around each boundary.
"""

import bisect
import itertools
import math
import random
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from support.execution.interpreted_ptx import compile_verified, kernel
from support.execution.ptx_lanes import Patterns, evaluate
from support.oracles import ieee_oracle
from support.oracles.ieee_oracle import BY_NAME
from vgpu_sim.compiler import InvalidPtxError, PtxSyntaxError

RANDOM = random.Random(8)
Floats = NDArray[np.float32]

# ml_dtypes' type, bits in a packed pair, the largest number, the pattern of a converted NaN
TINY = {
    "e4m3": (ml_dtypes.float8_e4m3fn, 8, 448.0, 0x7F),
    "e5m2": (ml_dtypes.float8_e5m2, 8, 57344.0, 0x7F),
    "e2m3": (ml_dtypes.float6_e2m3fn, 8, 7.5, 0x1F),
    "e3m2": (ml_dtypes.float6_e3m2fn, 8, 28.0, 0x1F),
    "e2m1": (ml_dtypes.float4_e2m1fn, 4, 6.0, 0x7),
}


def _numbers(name: str) -> Floats:
    """Return a format's numbers, midpoints and neighbours of both, values all over binary32,
    special values.
    """
    type_, bits, largest, _ = TINY[name]
    patterns = np.arange(1 << {"e2m3": 6, "e3m2": 6}.get(name, bits), dtype=np.uint8)
    known = patterns.view(type_).astype(np.float32)
    known = np.unique(known[np.isfinite(known)])
    known = np.concatenate([known, [-2 * largest, 2 * largest]]).astype(np.float32)
    known.sort()
    middles = (known[:-1].astype(np.float64) + known[1:]) / 2
    edges = np.concatenate([known, middles.astype(np.float32), known / 2, known / 4])
    near = [np.nextafter(edges, np.float32(way)) for way in (-np.inf, np.inf)]
    rng = np.random.default_rng(1)
    some = rng.integers(0, 1 << 32, 4096, dtype=np.uint64).astype(np.uint32).view(np.float32)
    ranged = rng.uniform(-1.1 * largest, 1.1 * largest, 4096)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan]
    found = np.concatenate([edges, *near, some, ranged, special]).astype(np.float32)
    return found[: len(found) // 4 * 4]


@np.errstate(all="ignore")
def _expected_patterns(name: str, values: NDArray[np.floating], relu: bool) -> Patterns:
    """Return the results of .satfinite."""
    type_, _bits, largest, nan = TINY[name]
    limited = np.clip(values, -largest, largest).astype(np.float32)
    result = limited.astype(type_).view(np.uint8) & np.uint8((1 << _width(name)) - 1)
    if relu:
        result = np.where(np.signbit(values), 0, result)
    return np.where(np.isnan(values), nan, result).astype(np.uint8)


def _width(name: str) -> int:
    return {"e2m3": 6, "e3m2": 6, "e2m1": 4}.get(name, 8)


def _through(bits: int, line: str) -> str:
    """Return an instruction with a result of two parts of ``bits``, moved to %d of 16 bits."""
    if bits == 8:
        return line
    return f"{{ .reg .b8 %byte; {line.replace('%d', '%byte')} cvt.u16.u8 %d, %byte; }}"


def _from(bits: int, line: str) -> str:
    """Return an instruction that reads ``bits`` from %a, which has at least 16."""
    if bits != 8:
        return line
    return f"{{ .reg .b8 %byte; cvt.u8.u16 %byte, %a; {line.replace('%a', '%byte')} }}"


def _pairs(elements: Patterns, bits: int) -> Patterns:
    """Pack patterns in pairs, the first in the upper half."""
    wide = elements.astype(np.uint16).reshape(-1, 2)
    return wide[:, 0] << bits | wide[:, 1]


@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize("name", TINY)
@np.errstate(all="ignore")
def test_of_two_singles(name: str, relu: str) -> None:
    values = _numbers(name)
    a, b = values[0::2].view(np.uint32), values[1::2].view(np.uint32)
    bits = TINY[name][1]
    body = _through(bits, f"cvt.rn.satfinite{relu}.{name}x2.f32 %d, %a, %b;")
    got = evaluate(body, 16, a, b)
    assert (got == _pairs(_expected_patterns(name, values, bool(relu)), bits)).all()


@pytest.mark.parametrize("order", [".relu.satfinite", ".satfinite.relu"])
def test_modifiers_may_be_in_any_order(order: str) -> None:
    one = np.array([0x3F80_0000, 0xBF80_0000], np.uint32)
    assert list(evaluate(f"cvt.rn{order}.e4m3x2.f32 %d, %a, %b;", 16, one, one)) == [0x3838, 0]


@pytest.mark.parametrize(("half", "name"), list(itertools.product(["f16", "bf16"], TINY)))
@np.errstate(all="ignore")
def test_of_every_half(half: str, name: str) -> None:
    a = np.arange(1 << 16, dtype=np.uint16)
    values = a.view(np.float16 if half == "f16" else ml_dtypes.bfloat16).astype(np.float32)
    bits = TINY[name][1]
    for relu in ("", ".relu"):
        body = _through(bits, f"cvt.rn.satfinite{relu}.{name}x2.{half}x2 %d, %a;")
        got = evaluate(body, 16, a.view(np.uint32))
        wanted = _expected_patterns(name, values, bool(relu)).reshape(-1, 2)[:, ::-1].ravel()
        assert (got == _pairs(wanted, bits)).all()


@pytest.mark.parametrize(("half", "name"), list(itertools.product(["f16", "bf16"], TINY)))
@np.errstate(all="ignore")
def test_to_halves(half: str, name: str) -> None:
    """All pairs of patterns; bits above those of a 6-bit format are ignored."""
    type_, bits, _, _ = TINY[name]
    a = np.arange(1 << (2 * bits), dtype=np.uint16)
    upper, lower = (
        (a >> shift & ((1 << _width(name)) - 1)).astype(np.uint8) for shift in (bits, 0)
    )
    small = np.float16 if half == "f16" else ml_dtypes.bfloat16
    for relu in ("", ".relu"):
        wanted = np.zeros(len(a), np.uint32)
        for part, shift in ((upper, 16), (lower, 0)):
            number = part.view(type_).astype(np.float32)
            if relu:
                number = np.where(number <= 0, np.float32(0), number)
            pattern = number.astype(small).view(np.uint16)
            wanted |= np.where(np.isnan(number), 0x7FFF, pattern).astype(np.uint32) << shift
        got = evaluate(_from(2 * bits, f"cvt.rn{relu}.{half}x2.{name}x2 %d, %a;"), 32, a)
        assert (got == wanted).all()


def test_e5m2_infinities_remain_infinite_in_halves() -> None:
    a = np.array([0x7CFC, 0x7F00], np.uint16)
    assert list(evaluate("cvt.rn.f16x2.e5m2x2 %d, %a;", 32, a)) == [0x7C00_FC00, 0x7FFF_0000]


def _singles() -> Patterns:
    corners = np.array(BY_NAME["F32"].corners(), np.uint32)
    rng = np.random.default_rng(2)
    some = rng.integers(0, 1 << 32, 1 << 14, dtype=np.uint64).astype(np.uint32)
    ties = some & ~np.uint32(0xFFFF) | rng.choice(
        np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0x1000, 0xFFFF], np.uint32), len(some)
    )
    # Binary16's subnormal numbers and their neighbourhood.
    small = (some >> 4 | 0x3000_0000).astype(np.uint32)
    return np.concatenate([corners, some, ties, small, small & ~np.uint32(0xFFF)])


@pytest.mark.parametrize("type_", ["f16", "bf16"])
@np.errstate(all="ignore")
def test_halves_of_every_single_to_nearest(type_: str) -> None:
    a = _singles()
    number = a.view(np.float32)
    small = np.float16 if type_ == "f16" else ml_dtypes.bfloat16
    nearest = number.astype(small).view(np.uint16)
    nearest = np.where(np.isnan(number), 0x7FFF, nearest)
    positive = np.where(np.signbit(number) & ~np.isnan(number), 0, nearest)
    infinity = 0x7C00 if type_ == "f16" else 0x7F80
    finite = np.where(nearest & 0x7FFF == infinity, nearest - 1, nearest)
    assert (evaluate(f"cvt.rn.{type_}.f32 %d, %a;", 16, a) == nearest).all()
    assert (evaluate(f"cvt.rn.relu.{type_}.f32 %d, %a;", 16, a) == positive).all()
    assert (evaluate(f"cvt.rn.satfinite.{type_}.f32 %d, %a;", 16, a) == finite).all()
    b = a[::-1].copy()
    got = evaluate(f"cvt.rn.{type_}x2.f32 %d, %a, %b;", 32, a, b)
    assert (got == (nearest.astype(np.uint32) << 16 | nearest[::-1])).all()


@pytest.mark.parametrize(
    ("to", "source"),
    [
        ("f16", "f32"),
        ("bf16", "f32"),
        ("bf16", "f64"),
        ("f16", "bf16"),
        ("bf16", "f16"),
        ("f16", "f64"),
        ("f32", "f64"),
    ],
)
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_narrowing_in_any_direction(to: str, source: str, mode: str) -> None:
    target, origin = BY_NAME[to.upper()], BY_NAME[source.upper()]
    values = [RANDOM.choice(origin.corners()) for _ in range(300)]
    values += [RANDOM.getrandbits(origin.bits) for _ in range(300)]
    for _ in range(900):  # within the narrower range, and adjacent to ties
        number = ieee_oracle.decode(RANDOM.getrandbits(target.bits), target)
        if isinstance(number, Fraction) and number:
            pattern = ieee_oracle.encode(number, origin) + RANDOM.randint(-2, 2)
            step = 1 << max(origin.precision - target.precision - 1, 0)
            values.append((pattern + RANDOM.choice([0, step])) % (1 << origin.bits))
    a = np.array(values, dtype=f"<u{origin.bits // 8}")
    got = evaluate(f"cvt.{mode}.{to}.{source} %d, %a;", target.bits, a)
    for pattern, result in zip(values, got, strict=True):
        value = ieee_oracle.decode(pattern, origin)
        sign = target.sign if pattern & origin.sign else 0
        if isinstance(value, str):
            wanted = target.nan if value == "nan" else sign | target.infinity
        else:
            wanted = ieee_oracle.encode(value, target, mode.upper()) if value else sign
        assert int(result) == wanted, (hex(pattern), hex(int(result)), hex(wanted))


@pytest.mark.parametrize(("to", "source"), [("f16", "bf16"), ("bf16", "f16")])
def test_conversions_between_halves_round_to_nearest_by_default(to, source) -> None:
    a = np.arange(1 << 16, dtype=np.uint16)
    nearest = evaluate(f"cvt.rn.{to}.{source} %d, %a;", 16, a)
    assert (evaluate(f"cvt.{to}.{source} %d, %a;", 16, a) == nearest).all()


@pytest.mark.parametrize("mode", ["", ".rn", ".rz", ".rm", ".rp"])  # assemblers accept only one
@pytest.mark.parametrize("to", ["f32", "f64"])
@np.errstate(all="ignore")
def test_widening_of_every_bfloat16(to: str, mode: str) -> None:
    a = np.arange(1 << 16, dtype=np.uint16)
    bits = int(to[1:])
    got = evaluate(f"cvt{mode}.{to}.bf16 %d, %a;", bits, a)
    number = a.view(ml_dtypes.bfloat16).astype(np.float32 if bits == 32 else np.float64)
    wanted = np.where(np.isnan(number), BY_NAME[to.upper()].nan, number.view(f"<u{bits // 8}"))
    assert (got == wanted).all()


@pytest.mark.parametrize("type_", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@np.errstate(all="ignore")
def test_integers_and_bfloat16(type_: str) -> None:
    bits, is_signed, format_ = int(type_[1:]), type_[0] == "s", BY_NAME["BF16"]
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    values = [RANDOM.getrandbits(RANDOM.randint(1, bits)) for _ in range(512)]
    a = np.array(values, dtype=f"<u{max(bits, 16) // 8}")
    for mode in ("rn", "rz", "rm", "rp"):
        got = evaluate(_from(bits, f"cvt.{mode}.bf16.{type_} %d, %a;"), 16, a)
        for value, result in zip(values, got, strict=True):
            number = value - (1 << bits) if is_signed and value >> (bits - 1) else value
            wanted = ieee_oracle.encode(Fraction(number), format_, mode.upper()) if number else 0
            assert int(result) == wanted, (mode, value)
    every = np.arange(1 << 16, dtype=np.uint16)
    number = every.view(ml_dtypes.bfloat16).astype(np.float64)
    for mode, function in (
        ("rni", np.rint),
        ("rzi", np.trunc),
        ("rmi", np.floor),
        ("rpi", np.ceil),
    ):
        body = f"cvt.{mode}.{type_}.bf16 %d, %a;"
        if bits == 8:
            wider = f"cvt.{type_[0]}16.{type_} %d, %byte;"
            body = f"{{ .reg .b8 %byte; {body.replace('%d', '%byte')} {wider} }}"
        got = evaluate(body, max(bits, 16), every)
        whole = function(np.where(np.isnan(number), 0, number))
        wanted = [
            min(max(int(v), low), high) if np.isfinite(v) else low if v < 0 else high for v in whole
        ]
        nan = 1 << 63 if bits == 64 else 0
        extended = (1 << max(bits, 16)) - 1
        expected = [
            nan if np.isnan(n) else w & extended for n, w in zip(number, wanted, strict=True)
        ]
        assert [int(v) for v in got] == expected
        same = evaluate(f"cvt.{mode}.bf16.bf16 %d, %a;", 16, every)
        again = function(number).astype(ml_dtypes.bfloat16).view(np.uint16)
        assert (same == np.where(np.isnan(number), 0x7FFF, again)).all()


@pytest.mark.parametrize("mode", ["rn", "rz", "rna"])
def test_tf32(mode: str) -> None:
    a = _singles()
    magnitude = (a & 0x7FFF_FFFF).astype(np.uint64)
    added = {"rn": 0xFFF + (magnitude >> 13 & 1), "rz": 0, "rna": 0x1000}[mode]
    rounded = (magnitude + added) & ~np.uint64(0x1FFF)
    is_nan = magnitude > 0x7F80_0000
    sign = a & 0x8000_0000
    for words in ("", ".satfinite", ".relu", ".satfinite.relu"):
        if "relu" in words and mode == "rna":
            continue
        limit = 0x7F7F_E000 if "satfinite" in words else 0x7F80_0000
        wanted = np.minimum(rounded, limit).astype(np.uint32) | sign
        if "relu" in words:
            wanted = np.where(sign, 0, wanted)
        wanted = np.where(is_nan, 0x7FFF_FFFF, wanted)
        assert (evaluate(f"cvt.{mode}{words}.tf32.f32 %d, %a;", 32, a) == wanted).all(), words


_POWERS = [Fraction(2) ** (code - 127) for code in range(255)]


def _power(value: float, mode: str, finite: bool) -> int:
    if np.isnan(value):
        return 0xFF
    value = abs(value)
    if np.isinf(value):
        return 0xFE if finite else 0xFF
    exact = Fraction(value)
    code = bisect.bisect_left(_POWERS, exact)  # the least power that is not smaller
    if code < len(_POWERS):
        return code if _POWERS[code] == exact or mode == "rp" else max(code - 1, 0)
    if mode == "rz":
        return 254
    return 0xFE if finite else 0xFF


@np.errstate(all="ignore")
def test_powers_of_two() -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    numbers = every.view(ml_dtypes.bfloat16).astype(np.float64)
    singles = np.concatenate([np.array(BY_NAME["F32"].corners(), np.uint32), _singles()[:2000]])
    for mode, finite in itertools.product(("rz", "rp"), (False, True)):
        name = f"cvt.{mode}{'.satfinite' if finite else ''}.ue8m0x2"
        got = evaluate(f"{name}.bf16x2 %d, %a;", 16, every.view(np.uint32))
        some = [*RANDOM.sample(range(1 << 15), 3000), 0, 8191, 16320, 16321]
        for place in some:
            low, high = (_power(v, mode, finite) for v in numbers[2 * place : 2 * place + 2])
            assert int(got[place]) == high << 8 | low, (name, place)
        got = evaluate(f"{name}.f32 %d, %a, %b;", 16, singles, singles)
        for pattern, result in zip(singles.view(np.float32), got, strict=True):
            assert int(result) == 0x101 * _power(float(pattern), mode, finite), (name, pattern)
    pairs = evaluate("cvt.rn.bf16x2.ue8m0x2 %d, %a;", 32, every).view(np.uint16)
    powers = every.view(np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    wanted = powers.astype(ml_dtypes.bfloat16).view(np.uint16)
    assert (pairs == np.where(np.isnan(powers), 0x7FFF, wanted)).all()


def _halves(numbers: np.ndarray, words: str) -> np.ndarray:
    """Return products as patterns of bfloat16, computed in binary32, which holds all but
    infinities.
    """
    if "relu" in words:
        numbers = np.where(numbers <= 0, 0.0, numbers)
    singles = numbers.astype(np.float32)
    assert ((singles == numbers) | np.isnan(numbers) | (abs(numbers) > 2.0**127)).all()
    found = singles.astype(ml_dtypes.bfloat16)
    if "satfinite" in words:
        largest = ml_dtypes.finfo(ml_dtypes.bfloat16).max
        found = np.where(np.isinf(found), np.copysign(largest, found), found)
    patterns = found.astype(ml_dtypes.bfloat16).view(np.uint16)
    return np.where(np.isnan(numbers), np.uint16(0x7FFF), patterns).astype(np.uint32)


def _powers(codes: np.ndarray) -> np.ndarray:
    return np.where(codes == 0xFF, np.nan, np.exp2(codes.astype(np.float64) - 127))


@pytest.mark.parametrize("words", ["", ".relu", ".satfinite", ".relu.satfinite"])
@pytest.mark.parametrize("name", ["s2f6", *TINY])
@np.errstate(all="ignore")
def test_small_numbers_times_powers_of_two(name: str, words: str) -> None:
    """Each half has a separate power; 2 of s2f6's eight bits are integer bits."""
    bits = 8 if name == "s2f6" else TINY[name][1]
    codes = np.random.default_rng(6).integers(0, 1 << 16, (2, 1 << 14)).astype(np.uint16)
    pairs, scales = codes[0] & np.uint16((1 << 2 * bits) - 1), codes[1]
    scales[:600] = np.arange(600) * 0x0101 % 0xFFFF

    def number(shift: int) -> np.ndarray:
        if name == "s2f6":
            return (pairs >> shift * 8).astype(np.int8) / 64.0
        part = (pairs >> shift * bits & ((1 << _width(name)) - 1)).astype(np.uint8)
        return part.view(TINY[name][0]).astype(np.float64)

    plain = [number(shift) for shift in (0, 1)]
    if name == "s2f6":
        got = evaluate(f"cvt.rn{words}.bf16x2.s2f6x2 %d, %a;", 32, pairs)
        assert (got == (_halves(plain[1], words) << 16 | _halves(plain[0], words))).all()
    body = _from(2 * bits, f"cvt.rn{words}.scaled::n2::ue8m0.bf16x2.{name}x2 %d, %a, %b;")
    got = evaluate(body, 32, pairs, scales)
    products = [plain[n] * _powers(scales >> 8 * n & 0xFF) for n in (0, 1)]
    assert (got == (_halves(products[1], words) << 16 | _halves(products[0], words))).all()


def _by_chance(value: float, type_: str, chance: int, bits: int, finite: bool, relu: bool) -> int:
    """Round by the definition: fraction of an ulp, truncated to ``bits``, plus chance."""
    stored, bias, width, largest = {
        "f16": (10, 15, 16, 0x7BFF),
        "bf16": (7, 127, 16, 0x7F7F),
        "e4m3": (3, 7, 8, 0x7E),
        "e5m2": (2, 15, 8, 0x7B),
        "e2m3": (3, 1, 6, 0x1F),
        "e3m2": (2, 3, 6, 0x1F),
        "e2m1": (1, 1, 4, 0x7),
    }[type_]
    if np.isnan(value):
        return {"f16": 0x7FFF, "bf16": 0x7FFF}.get(type_) or TINY[type_][3]
    sign = (1 << (width - 1)) if np.signbit(value) else 0
    if sign and relu:
        return 0
    if np.isinf(value):
        return sign | (largest if finite else largest + 1)
    exact = abs(Fraction(float(value)))
    exponent = max(math.frexp(value)[1] - 1, 1 - bias) if value else 1 - bias
    units = exact / Fraction(2) ** (exponent - stored)
    whole = int(units)
    whole += int((units - whole) * 2**bits) + chance >= 2**bits
    pattern = ((exponent + bias - 1) << stored) + whole
    return sign | min(pattern, largest if finite else largest + 1)


@pytest.mark.parametrize("type_", ["f16", "bf16"])
def test_stochastic_rounding_of_pairs(type_: str) -> None:
    singles = _singles()
    a, b = (np.array(RANDOM.sample(list(singles), 1500), np.uint32) for _ in range(2))
    random_bits = np.array([RANDOM.getrandbits(32) for _ in a], np.uint32)
    width = 13 if type_ == "f16" else 16
    for words in ("", ".satfinite", ".relu", ".relu.satfinite"):
        body = f"cvt.rs{words}.{type_}x2.f32 %d, %a, %b, %c;"
        got = evaluate(body, 32, a, b, random_bits)
        for lane, result in enumerate(got):
            halves = []
            for column, shift in ((a, 16), (b, 0)):
                chance = int(random_bits[lane]) >> shift & ((1 << width) - 1)
                value = column[lane : lane + 1].view(np.float32)[0]
                flags = ("satfinite" in words, "relu" in words)
                halves.append(_by_chance(value, type_, chance, width, *flags))
            assert int(result) == halves[0] << 16 | halves[1], (words, hex(a[lane]), hex(b[lane]))


@pytest.mark.parametrize("name", TINY)
@np.errstate(all="ignore")
def test_stochastic_rounding_of_four(name: str) -> None:
    numbers = list(_numbers(name))
    columns = [np.array(RANDOM.sample(numbers, 1000), np.float32) for _ in range(4)]
    random_bits = np.array([RANDOM.getrandbits(32) for _ in range(1000)], np.uint32)
    bits, total = TINY[name][1], TINY[name][1] * 4
    loads = [column.view(np.uint32) for column in columns[:3]]
    fourth = columns[3].view(np.uint32).astype(np.uint64) << 32 | random_bits
    for relu in ("", ".relu"):
        body = "mov.b64 {%w0, %w1}, %e;"
        body += f"cvt.rs{relu}.satfinite.{name}x4.f32 %d, {{%a, %b, %c, %w1}}, %w0;"
        got = evaluate(body, total, *loads, fourth)
        for lane, result in enumerate(got):
            chance, wanted = int(random_bits[lane]), 0
            first, second = chance >> 16, chance & 0xFFFF
            if name == "e2m1":
                first, second = (
                    (chance >> 24) << 8 | (chance >> 8 & 0xFF),
                    (chance >> 16 & 0xFF) << 8 | (chance & 0xFF),
                )
            for column, share in zip(columns, (first, first, second, second), strict=True):
                one = _by_chance(column[lane], name, share, 16, True, bool(relu))
                wanted = wanted << bits | one
            assert int(result) == wanted, (name, [column[lane] for column in columns])


@pytest.mark.parametrize("word", ["u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"])
def test_pack(word: str) -> None:
    bits = int(word[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if word[0] == "s" else (0, (1 << bits) - 1)
    edges = [low - 1, low, high, high + 1, 0, -1, 1, -(1 << 31), (1 << 31) - 1]
    pool = edges * 30 + [RANDOM.randint(-(1 << 31), (1 << 31) - 1) for _ in range(400)]
    a, b, c = (np.array(RANDOM.sample(pool, len(pool)), np.int32) for _ in range(3))
    columns = [column.view(np.uint32) for column in (a, b, c)]
    joined = [
        (int(np.clip(x, low, high)) & ((1 << bits) - 1)) << bits
        | int(np.clip(y, low, high)) & ((1 << bits) - 1)
        for x, y in zip(a, b, strict=True)
    ]
    if bits == 16:
        got = evaluate(f"cvt.pack.sat.{word}.s32 %d, %a, %b;", 32, *columns[:2])
        assert [int(v) for v in got] == joined
        return
    got = evaluate(f"cvt.pack.sat.{word}.s32.b32 %d, %a, %b, %c;", 32, *columns)
    above = [int(v) << 2 * bits & 0xFFFF_FFFF for v in columns[2]]
    assert [int(v) for v in got] == [x | y for x, y in zip(above, joined, strict=True)]


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("cvt.rn.f32.f16 %r, %h;", PtxSyntaxError, "cannot stand after"),
        ("cvt.rni.f32.bf16 %r, %h;", PtxSyntaxError, "cannot stand after"),
        ("cvt.bf16.f32 %h, %r;", InvalidPtxError, "cannot stand after"),
        ("cvt.rm.relu.f16.f32 %h, %r;", PtxSyntaxError, "cannot stand after"),
        ("cvt.rz.satfinite.e4m3x2.f32 %h, %r, %r;", InvalidPtxError, "needs .target sm_107a"),
        ("cvt.rn.satfinite.s2f6x2.f32 %r, %r, %r;", InvalidPtxError, "has 32 bits"),
        (
            "cvt.rn.satfinite.e4m3x2.f32 %r, %r, %r;",
            InvalidPtxError,
            "has 32 bits, but .b16 needs 16",
        ),
        ("cvt.rn.f16x2.e4m3x2 %h, %h;", InvalidPtxError, "has 16 bits, but .b32 needs 32"),
        ("cvt.rs.satfinite.e4m3x4.f32 %r, %r, %r;", InvalidPtxError, "a vector of four"),
        ("cvt.rn.e4m3x2.f32 %h, %r, %r;", PtxSyntaxError, "cannot stand after"),
    ],
)
def test_invalid_forms_are_rejected(body: str, error: type[Exception], message: str) -> None:
    registers = ".reg .b16 %h; .reg .b32 %r;"
    with pytest.raises(error) as caught:
        compile_verified(kernel(body, registers=registers))
    assert message in str(caught.value)
