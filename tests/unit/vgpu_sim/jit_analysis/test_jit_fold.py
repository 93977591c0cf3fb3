"""Constant folding of division, compared with the exact quotient."""

import itertools
import math
from fractions import Fraction

import pytest

from vgpu_sim.exec.jit.numbers.fold import integer_function
from vgpu_sim.exec.jit.shapes.lane_shapes import to_signed
from vgpu_sim.isa import DataType, Instruction, Op, Register

_EDGES = (0, 1, 2, 3, 7, 0x7FFF_FFFF, 0x8000_0000, 0x8000_0001, 0xFFFF_FFF9, 0xFFFF_FFFF)


def _quotient(a: int, b: int) -> int:
    return math.trunc(Fraction(a, b)) if b else -1


@pytest.mark.parametrize("type_", [DataType.U32, DataType.S32])
def test_quotients_and_remainders_are_those_of_the_manual(type_: DataType) -> None:
    """PTX ISA, "div" and "rem": truncated toward zero; division by zero follows docs/isa.md."""
    operands = (Register(0),) * 2
    div, rem = (
        integer_function(Instruction(op, type_, (Register(0),), operands))
        for op in (Op.DIV, Op.REM)
    )
    assert div is not None
    assert rem is not None
    for a, b in itertools.product(_EDGES, repeat=2):
        x, y = (to_signed(v, 32) if type_.is_signed else v for v in (a, b))
        quotient = _quotient(x, y)
        assert div(a, b) % (1 << 32) == quotient % (1 << 32), (a, b)
        assert rem(a, b) % (1 << 32) == (x - y * quotient if y else -1) % (1 << 32), (a, b)
