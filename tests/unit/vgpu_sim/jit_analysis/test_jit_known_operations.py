"""Soundness of known bits and ranges: the facts about a result hold for all possible operands."""

import itertools
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings, strategies as st

from support.kernels.instruction_forms import forms, source_bits
from vgpu_sim.exec.jit.numbers import fold, known_arithmetic as arithmetic, known_operations
from vgpu_sim.exec.jit.numbers.known_bits import (
    Known,
    between,
    constant,
    either,
    multiple_of,
    refine_facts,
    resize,
    unknown,
)
from vgpu_sim.exec.jit.shapes.lane_shapes import to_signed
from vgpu_sim.isa import Instruction, Op

_BITS = 3
_MASK = (1 << _BITS) - 1
_ALL = range(1 << _BITS)


def _every() -> Iterator[Known]:
    """Yield all facts that can be known about a 3-bit integer."""
    made = set()
    for zeros, ones in itertools.product(_ALL, _ALL):
        if not zeros & ones:
            made |= {refine_facts(_BITS, low, span, zeros, ones) for low in _ALL for span in _ALL}
    return iter(sorted(made, key=repr))


_EVERY = list(_every())
_NUMBERS = {one: [number for number in _ALL if one.contains(number)] for one in _EVERY}
_COUNTS = (constant(0, _BITS), constant(2, _BITS), constant(5, _BITS), between(1, 3, _BITS))


def test_refinement_keeps_every_value_in_both_facts() -> None:
    for zeros, ones, low, span in itertools.product(_ALL, repeat=4):
        both = [
            number
            for number in _ALL
            if (number - low) % 8 <= span and not number & zeros and not ~number & ones
        ]
        found = refine_facts(_BITS, low, span, zeros, ones)
        assert not zeros & ones or found == unknown(_BITS)
        assert all(map(found.contains, both))


@pytest.mark.parametrize(
    ("known", "concrete"),
    [
        (arithmetic.plus, lambda a, b: a + b),
        (arithmetic.minus, lambda a, b: a - b),
        (arithmetic.times, lambda a, b: a * b),
        (arithmetic.bitwise_and, lambda a, b: a & b),
        (arithmetic.bitwise_or, lambda a, b: a | b),
        (arithmetic.bitwise_xor, lambda a, b: a ^ b),
    ],
)
def test_every_pair_of_three_bits(
    known: Callable[[Known, Known], Known], concrete: Callable[[int, int], int]
) -> None:
    assert len(_EVERY) > 60
    for a, b in itertools.product(_EVERY, _EVERY):
        found = known(a, b)
        given = {concrete(x, y) & _MASK for x in _NUMBERS[a] for y in _NUMBERS[b]}
        assert all(map(found.contains, given)), (a, b, found)


def test_either_of_every_pair_of_three_bits() -> None:
    for a, b in itertools.product(_EVERY, _EVERY):
        found = either(a, b)
        assert all(map(found.contains, (*_NUMBERS[a], *_NUMBERS[b]))), (a, b, found)


def _right(a: int, count: int) -> int:
    return a >> min(count, _BITS)


def test_every_shift_and_field_of_three_bits() -> None:
    for a, by in itertools.product(_EVERY, _COUNTS):
        left = arithmetic.shifted_left(a, by)
        right = arithmetic.shifted_right(a, by, is_signed=False)
        spread = arithmetic.shifted_right(a, by, is_signed=True)
        for x, count in itertools.product(_NUMBERS[a], filter(by.contains, _ALL)):
            assert left.contains(x << count & _MASK)
            assert right.contains(_right(x, count))
            assert spread.contains(_right(to_signed(x, _BITS), count) & _MASK)
    for a, first, length in itertools.product(_EVERY, _COUNTS, _COUNTS):
        found = arithmetic.field(a, first, length)
        ways = itertools.product(filter(first.contains, _ALL), filter(length.contains, _ALL))
        for (at, count), x in itertools.product(ways, _NUMBERS[a]):
            assert found.contains(x >> at & (1 << count) - 1)


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 6])
def test_every_number_of_three_bits_in_another_width(bits: int) -> None:
    mask = (1 << bits) - 1
    for a in _EVERY:
        for x in _NUMBERS[a]:
            assert resize(a, bits).contains(x & mask)
            assert resize(a, bits, is_signed=True).contains(to_signed(x, _BITS) & mask)


def test_properties_of_a_known_number() -> None:
    for one in _EVERY:
        numbers = _NUMBERS[one]
        (low, high), (least, most) = one.unsigned, one.signed
        for x in numbers:
            assert low <= x <= high
            assert least <= to_signed(x, _BITS) <= most
            assert abs(to_signed(x, _BITS)) <= one.magnitude
            assert x % one.known_divisor == 0
            assert not x & ~one.possible
        assert one.constant is None or numbers == [one.constant]


def test_values_with_an_origin_have_no_known_bits() -> None:
    """Its integer part is a distance: bits and bounds are not those of the value."""
    pointer, small = between(0, 3, 64, 8), between(0, 3, 64)
    nothing = unknown(64)
    assert between(0, 0, 64, 8).constant is None
    assert pointer.possible == (1 << 64) - 1
    for function in (
        arithmetic.bitwise_and,
        arithmetic.bitwise_or,
        arithmetic.bitwise_xor,
        arithmetic.times,
    ):
        assert function(pointer, small) == function(nothing, small)
        assert function(small, pointer) == function(small, nothing)
    assert arithmetic.shifted_left(pointer, constant(2, 32)) == multiple_of(4, 64)
    assert arithmetic.shifted_right(pointer, constant(60, 32), is_signed=False) == between(
        0, 15, 64
    )
    assert resize(pointer, 32) == unknown(32)
    assert arithmetic.plus(pointer, pointer) == arithmetic.minus(small, pointer) == nothing
    assert arithmetic.minus(pointer, between(1, 1, 64, 8)) == between(-1, 2, 64)
    assert arithmetic.minus(pointer, between(0, 0, 64, 16)) == nothing
    assert either(pointer, small) == either(pointer, between(0, 3, 64, 16)) == nothing


# All forms of all operations of the table, in all their widths.

_FORMS: dict[str, list[Instruction]] = {}
for _form in itertools.chain.from_iterable(map(forms, known_operations.RULES)):
    if _form.type.is_integer and (_form.source_type is None or _form.source_type.is_integer):
        _sign = "signed" if _form.type.is_signed else "unsigned"
        _FORMS.setdefault(f"{_form.op.name} {_form.mode.name} {_sign}", []).append(_form)


@st.composite
def _facts(draw: st.DrawFn, bits: int) -> tuple[Known, int]:
    """Draw facts about an integer, and the integer."""
    mask = (1 << bits) - 1
    edges = st.sampled_from([0, 1, 2, 31, 32, mask, mask >> 1, (mask >> 1) + 1, mask - 3])
    number = draw(edges | st.integers(0, mask)) & mask
    size = draw(st.integers(0, bits))
    below, above = (draw(st.integers(0, (1 << size) - 1)) for _ in range(2))
    sure = draw(st.integers(0, mask) | st.sampled_from([0, mask, 7, mask ^ 7]))
    span = min(below + above, mask)
    found = refine_facts(bits, number - below, span, ~number & sure & mask, number & sure & mask)
    assert found.contains(number)
    return found, number


def _concrete(form: Instruction) -> Callable[..., int]:
    if form.op is Op.SELP:
        return lambda a, b, chooser: a if chooser else b
    function = fold.integer_function(form)
    assert function is not None
    return function


@pytest.mark.parametrize("kind", _FORMS)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_no_result_violates_the_known_facts(kind: str, data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(_FORMS[kind]))
    widths = source_bits(form)
    drawn = [data.draw(_facts(bits)) for bits in widths]

    def read(place: int, bits: int) -> Known:
        assert bits == widths[place]
        return drawn[place][0]

    type_ = fold.result_type(form)
    found = known_operations.result(form, read, type_.bits)
    number = _concrete(form)(*(number for _, number in drawn)) & (1 << type_.bits) - 1
    assert found.contains(number), (form, drawn, found, number)
    for bits in (16, 32, 64):
        filled = known_operations.result(form, read, bits)
        assert filled.contains(fold.extend(number, type_, bits))


def test_the_table_has_integers_only() -> None:
    """Saturating operations have unknown results, too."""
    for op in known_operations.RULES:
        for form in forms(op):
            if not fold.result_type(form).is_integer or form.saturate:
                found = known_operations.result(form, lambda _, bits: constant(0, bits), 64)
                assert found == unknown(64)
