"""Floating point compared with rational arithmetic: all formats, roundings, corner cases, random
values.
"""

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction

import pytest

from support.execution.isa_lanes import LANES, evaluate, prepare
from support.oracles import ieee_oracle
from support.oracles.ieee_oracle import BY_NAME, F32, F64, Format
from vgpu_sim.exec import interp

_ARITY = {"FADD": 2, "FSUB": 2, "FMUL": 2, "FMA": 3, "FDIV": 2, "FRCP": 1, "FSQRT": 1}
_NARROW_OPS = ("FADD", "FSUB", "FMUL", "FMA")


def _samples(format_: Format, arity: int, count: int, seed: int) -> list[tuple[int, ...]]:
    """Return corner cases in all pairs (a sample for three operands), then related random
    values.
    """
    generator = random.Random(seed)
    corners = format_.corners()
    tuples = list(itertools.product(corners, repeat=arity))
    tuples = generator.sample(tuples, min(len(tuples), count))
    for _ in range(count):
        values = [generator.getrandbits(format_.bits) for _ in range(arity)]
        if generator.random() < 0.5:  # close exponents: cancellation, carries, ties
            spread = generator.randrange(3 * format_.precision)
            hidden = 1 << (format_.precision - 1)
            fields = [format_.emax + generator.randint(-spread, spread) // 2 for _ in values]
            top = format_.infinity // hidden - 1
            values = [
                min(max(field, 1), top) * hidden
                + (value & (hidden - 1) & -(1 << generator.randrange(format_.precision)))
                + (value & format_.sign)
                for field, value in zip(fields, values, strict=True)
            ]
        tuples.append(tuple(values))
    return tuples


def _batches(tuples: list[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
    for begin in range(0, len(tuples), LANES):
        yield tuples[begin : begin + LANES]


def _check(op: str, type_: str, rounding: str, count: int) -> None:
    format_ = BY_NAME[type_]
    word = f".{rounding}" if rounding else ""
    direction = rounding if rounding in ("RZ", "RM", "RP") else "RN"
    for batch in _batches(
        _samples(format_, _ARITY[op], count, seed=_ARITY[op] * 100 + format_.bits)
    ):
        results = evaluate(
            f"{op}{word}.{type_}", list(zip(*batch, strict=True)), format_.bits, format_.bits
        )
        for operands, result in zip(batch, results, strict=True):
            expected = ieee_oracle.operate(op, operands, format_, direction)
            shown = [hex(operand) for operand in operands]
            assert result == expected, f"{op}{word}.{type_} {shown}: {result:#x} {expected:#x}"


@pytest.mark.parametrize("type_", ["F32", "F64"])
@pytest.mark.parametrize("rounding", ["", "RN", "RZ", "RM", "RP"])
@pytest.mark.parametrize("op", _ARITY)
def test_wide_formats_are_correctly_rounded(op: str, rounding: str, type_: str) -> None:
    _check(op, type_, rounding, 400)


@pytest.mark.parametrize("type_", ["F16", "BF16"])
@pytest.mark.parametrize("op", _NARROW_OPS)
def test_narrow_formats_are_correctly_rounded(op: str, type_: str) -> None:
    _check(op, type_, "RN", 1500)


@pytest.mark.parametrize("op", ["FDIV.APPROX", "FDIV.FULL", "FRCP.APPROX", "FSQRT.APPROX"])
def test_approximations_are_rounded_to_nearest(op: str) -> None:
    _check(op.split(".")[0], "F32", op.split(".")[1], 200)


def test_fma_rounds_once() -> None:
    """(1 + 2^-12)^2 - (1 + 2^-11) = 2^-24; the product rounded first would give 0."""
    a, c = 0x3F80_0800, 0xBF80_1000
    assert evaluate("FMA.F32", [[a], [a], [c]], 32, 32) == [0x3380_0000]
    assert evaluate("FMUL.F32", [[a], [a]], 32, 32) == [c ^ 0x8000_0000]
    # A tie that only a term 2^-100 below it breaks; float64 alone would lose that term.
    tie, tiny = 0x3F80_0001, 0x0D80_0000
    half = ieee_oracle.encode(Fraction(1, 2) + Fraction(1, 2**24), F32)
    exact = Fraction(tie - 0x3F80_0000, 2**23) + 1
    expected = ieee_oracle.encode(exact * Fraction(1, 2) + Fraction(2) ** -100, F32)
    assert evaluate("FMA.F32", [[tie], [0x3F00_0000], [tiny]], 32, 32) == [expected] == [half]


@pytest.mark.parametrize("type_", ["F16", "BF16", "F32", "F64"])
@pytest.mark.parametrize("op", ["FMIN", "FMAX"])
def test_extrema_prefer_numbers_and_order_zeros(op: str, type_: str) -> None:
    format_ = BY_NAME[type_]

    def rank(pattern: int) -> tuple[Fraction, int]:
        value = ieee_oracle.decode(pattern, format_)
        bound = Fraction(2) ** (format_.emax + 2)
        number = {"+inf": bound, "-inf": -bound}.get(str(value), value)
        assert isinstance(number, Fraction)
        return number, 0 if pattern & format_.sign else 1

    pairs = list(itertools.product(format_.corners(), repeat=2))
    for batch in _batches(pairs):
        results = evaluate(
            f"{op}.{type_}", list(zip(*batch, strict=True)), format_.bits, format_.bits
        )
        for pair, result in zip(batch, results, strict=True):
            numbers = [p for p in pair if ieee_oracle.decode(p, format_) != "nan"]
            choose = min if op == "FMIN" else max
            assert result == (choose(numbers, key=rank) if numbers else format_.nan)


@pytest.mark.parametrize("type_", ["F16", "BF16", "F32", "F64"])
def test_signs_change_one_bit_of_any_pattern(type_: str) -> None:
    format_ = BY_NAME[type_]
    for batch in _batches([(pattern,) for pattern in format_.corners()]):
        column = [pattern for (pattern,) in batch]
        negated = evaluate(f"FNEG.{type_}", [column], format_.bits, format_.bits)
        absolute = evaluate(f"FABS.{type_}", [column], format_.bits, format_.bits)
        assert negated == [pattern ^ format_.sign for pattern in column]
        assert absolute == [pattern & ~format_.sign for pattern in column]


def test_ftz_flushes_operands_and_results_and_keeps_their_sign() -> None:
    least_normal, subnormal, sign = 0x0080_0000, 0x007F_FFFF, 0x8000_0000
    one, half = 0x3F80_0000, 0x3F00_0000
    assert evaluate("FADD.FTZ.F32", [[subnormal, sign | 1], [0, sign]], 32, 32) == [0, sign]
    assert evaluate("FADD.F32", [[subnormal], [0]], 32, 32) == [subnormal]
    pairs = [[least_normal, sign | least_normal, subnormal], [half, half, one]]
    assert evaluate("FMUL.FTZ.F32", pairs, 32, 32) == [0, sign, 0]
    assert evaluate("FMUL.F32", pairs, 32, 32) == [0x0040_0000, 0x8040_0000, subnormal]
    assert evaluate("FMIN.FTZ.F32", [[sign | 5], [0]], 32, 32) == [sign]
    assert evaluate("FNEG.FTZ.F32", [[5, 0xFF80_0001]], 32, 32) == [sign, 0x7F80_0001]
    assert evaluate("FRCP.FTZ.F32", [[sign | 1, 0x7F00_0000]], 32, 32) == [0xFF80_0000, 0]
    assert evaluate("FADD.FTZ.F16", [[0x03FF], [0x8000]], 16, 16) == [0]


def test_ftz_looks_at_the_rounded_result() -> None:
    """Just below the smallest normal number, but rounded to it: not flushed."""
    largest_below_one = 0x3F7F_FFFF
    product = evaluate("FMUL.FTZ.F32", [[0x0080_0000], [largest_below_one]], 32, 32)
    assert product == [0x0080_0000]


def test_saturation_clamps_and_turns_nan_into_zero() -> None:
    values = [0x3F00_0000, 0x4000_0000, 0xBF00_0000, 0x7FC0_0000, 0xFFC0_0000, 0x8000_0000]
    values += [0x7F80_0000, 0xFF80_0000, 0x3F80_0000]
    result = evaluate("FADD.SAT.F32", [values, [0x8000_0000] * len(values)], 32, 32)
    assert result == [0x3F00_0000, 0x3F80_0000, 0, 0, 0, 0, 0x3F80_0000, 0, 0x3F80_0000]


def test_results_are_canonical_nans_but_moves_keep_theirs() -> None:
    strange = [0x7F80_0001, 0xFFFF_FFFF, 0x7FC0_1234]
    for op, operands in (("FADD", 2), ("FMA", 3), ("FSQRT", 1), ("FMAX", 2)):
        assert evaluate(f"{op}.F32", [strange] * operands, 32, 32) == [F32.nan] * 3
    assert evaluate("FDIV.F64", [[0], [0]], 64, 64) == [F64.nan]
    assert evaluate("MOV.F32", [strange], 32, 32) == strange


def _predicates(line: str, a: list[int], b: list[int], bits: int) -> list[bool]:
    warp = prepare(line)
    registers = (0, 1) if bits == 32 else (3, 4)
    for register, values in zip(registers, (a, b), strict=True):
        warp.registers[register][: len(values)] = values
    interp.step(warp)
    return [bool(value) for value in warp.predicates[0][: len(a)]]


_COMPARES = {
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
}


@pytest.mark.parametrize("unordered", [False, True])
@pytest.mark.parametrize("compare", _COMPARES)
@pytest.mark.parametrize(("format_", "type_"), [(F32, "F32"), (F64, "F64")])
def test_comparisons_know_nan_zeros_and_infinities(
    format_: Format, type_: str, compare: str, unordered: bool
) -> None:
    bound = Fraction(2) ** (format_.emax + 2)
    infinite = {"+inf": bound, "-inf": -bound}
    first = 0 if format_ is F32 else 3
    line = f"SETP.{compare}{'U' * unordered}.{type_} p0, r{first}, r{first + 1}"
    for batch in _batches(list(itertools.product(format_.corners(), repeat=2))):
        a, b = (list(column) for column in zip(*batch, strict=True))
        for pair, got in zip(batch, _predicates(line, a, b, format_.bits), strict=True):
            x, y = (ieee_oracle.decode(pattern, format_) for pattern in pair)
            if "nan" in (x, y):
                assert got is unordered
            else:
                numbers = [infinite.get(str(v), v) for v in (x, y)]
                assert got is _COMPARES[compare](*numbers)


def test_num_nan_and_ftz_comparisons() -> None:
    nan, one, subnormal = 0x7FC0_0000, 0x3F80_0000, 1
    a, b = [nan, one, one, nan], [one, nan, one, nan]
    assert _predicates("SETP.NAN.F32 p0, r0, r1", a, b, 32) == [True, True, False, True]
    assert _predicates("SETP.NUM.F32 p0, r0, r1", a, b, 32) == [False, False, True, False]
    assert _predicates("SETP.EQ.FTZ.F32 p0, r0, r1", [subnormal], [0], 32) == [True]
    assert _predicates("SETP.EQ.F32 p0, r0, r1", [subnormal], [0], 32) == [False]


def test_fused_binary64_is_exact_where_it_is_computed_in_arrays_and_where_it_is_not() -> None:
    """Cancellation to the last bits, and magnitudes on both sides of the limits for numpy
    arrays.
    """
    generator = random.Random(64)
    tuples = []
    for _ in range(1500):
        spread = generator.choice((3, 60, 398, 404, 900))
        a, b, c = (
            generator.getrandbits(52)
            | (F64.emax + generator.randint(-spread, spread)) << 52
            | generator.getrandbits(1) << 63
            for _ in range(3)
        )
        if generator.random() < 0.6:  # the addend cancels most of the product
            product = ieee_oracle.operate("FMUL", (a, b), F64)
            c = product ^ F64.sign ^ generator.getrandbits(3)
        tuples.append((a, b, c))
    for batch in _batches(tuples):
        results = evaluate("FMA.F64", list(zip(*batch, strict=True)), 64, 64)
        for operands, result in zip(batch, results, strict=True):
            assert result == ieee_oracle.operate("FMA", operands, F64), operands
