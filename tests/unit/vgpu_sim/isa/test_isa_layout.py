"""The layout of words: encoder, decoder and verifier follow the rows."""

from collections.abc import Iterator

import pytest

from support.kernels import instruction_forms
from support.kernels.isa_programs import PARAMETER_BYTES, PREDICATES, REGISTER_BITS
from vgpu_sim.isa import (
    Compare,
    DataType,
    Function,
    Instruction,
    Op,
    Predicate,
    Register,
    Space,
    encoding,
)
from vgpu_sim.isa.errors import ContainerError
from vgpu_sim.isa.layout import COMMON_BITS, DEFAULTS, OPERAND_BITS, WORD_BITS
from vgpu_sim.isa.rules import instruction_errors
from vgpu_sim.isa.table import TABLE


def _declared_fields(op: Op) -> Iterator[int]:
    """Yield every bit that the row declares, repeated if declared repeatedly."""
    spec = TABLE[op]
    for modifier in spec.modifiers:
        yield from modifier.bits
    for roles, places in ((spec.dsts, spec.dst_places), (spec.srcs, spec.src_places)):
        for _, first in zip(roles, places, strict=False):
            yield from range(first, first + OPERAND_BITS)


@pytest.mark.parametrize("op", Op)
def test_parts_of_a_word_do_not_overlap(op: Op) -> None:
    bits = [*COMMON_BITS, *_declared_fields(op)]
    assert len(set(bits)) == len(bits)
    assert set(bits) <= set(range(WORD_BITS))


@pytest.mark.parametrize("op", Op)
def test_every_role_has_a_place_and_every_modifier_fits(op: Op) -> None:
    spec = TABLE[op]
    assert len(spec.dsts) <= len(spec.dst_places)
    assert len(spec.srcs) <= len(spec.src_places)
    for modifier in spec.modifiers:
        assert modifier.name in DEFAULTS
        assert all(0 <= code < 1 << modifier.width for code in modifier.codes.values())
        assert len(set(modifier.codes.values())) == len(modifier.codes)


@pytest.mark.parametrize("op", Op)
def test_every_bit_that_a_row_does_not_name_must_be_zero(op: Op) -> None:
    form = instruction_forms.forms(op)[0]
    word = int(form.op) | form.type << 16 | 0x7FFF << 48
    for modifier in TABLE[op].modifiers:
        value = getattr(form, modifier.name)
        word |= modifier.encode(0 if value is None else value)
    free = set(range(WORD_BITS)) - COMMON_BITS - set(_declared_fields(op))
    for bit in sorted(free):
        with pytest.raises(ContainerError, match=f"bit {bit}, which {op.name} does not use"):
            encoding.decode((word | 1 << bit).to_bytes(16, "little"), (), {})


@pytest.mark.parametrize("op", Op)
def test_a_modifier_that_a_row_lacks_is_refused(op: Op) -> None:
    """Otherwise it would be lost in the binary."""
    form = instruction_forms.forms(op)[0]
    function = Function("f", (), PARAMETER_BYTES, REGISTER_BITS, PREDICATES, (form,), (0,))
    for name, default in DEFAULTS.items():
        if TABLE[op].has(name):
            continue
        value = _another_than(default, name)
        fields = {slot: getattr(form, slot) for slot in DEFAULTS} | {name: value}
        wrong = Instruction(op, form.type, **fields)  # type: ignore[arg-type]
        found = list(instruction_errors(wrong, function, ()))
        assert f"{op.name} has no {name.replace('_', ' ')}" in found


def _another_than(default: object, name: str) -> object:
    modifier = next(m for spec in TABLE.values() for m in spec.modifiers if m.name == name)
    return next(value for value in modifier.codes or (0, 4) if value != default)


def test_a_number_that_does_not_fit_is_refused() -> None:
    load = Instruction(
        Op.LD, DataType.B32, (Register(6),), (Register(12),), displacement=-(1 << 31) - 1
    )
    function = Function("f", (), 0, REGISTER_BITS, PREDICATES, (load,), (0,))
    found = list(instruction_errors(load, function, ()))
    assert found == [f"displacement {-(1 << 31) - 1} does not fit 32 bits"]


@pytest.mark.parametrize(
    ("absent", "place"),
    [
        (Instruction(Op.LD, DataType.B32, (Register(6),), space=Space.PARAM), 80),
        (
            Instruction(
                Op.SETP,
                DataType.U32,
                (Predicate(0), Predicate(1)),
                (Register(6), Register(7)),
                compare=Compare.LT,
            ),
            112,
        ),
    ],
    ids=["address", "combined"],
)
def test_the_field_of_an_absent_operand_must_be_zero(absent: Instruction, place: int) -> None:
    function = Function("f", (), PARAMETER_BYTES, REGISTER_BITS, PREDICATES, (absent,), (0,))
    word = encoding.encode(function).words
    assert encoding.decode(word, (), {}) == (absent,)
    damaged = int.from_bytes(word, "little") | 1 << place
    with pytest.raises(ContainerError, match=f"bit {place}, which {absent.op.name} does not use"):
        encoding.decode(damaged.to_bytes(16, "little"), (), {})
