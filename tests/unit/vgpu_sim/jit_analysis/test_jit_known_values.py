"""Known values: the transfer rules for pointers, operations without a rule, and loops."""

from collections.abc import Callable

import pytest

from support.kernels.kernel_builder import KernelBuilder
from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.numbers.known_bits import (
    SEGMENT,
    Known,
    between,
    multiple_of,
    refine_facts,
    unknown,
)
from vgpu_sim.exec.jit.numbers.known_values import ROW_BYTES, Pointer, known_values
from vgpu_sim.isa import (
    Compare,
    DataType,
    Guard,
    Instruction,
    Literal,
    MulMode,
    Op,
    Operand,
    Register,
    Rounding,
    Space,
    SpecialRegister,
    Symbol,
    Variable,
)

D = DataType
UNKNOWN = unknown(64)
_MOST = (1 << 32) - 1
_Build = Callable[[KernelBuilder, Register, Register], Register]


def _fact(build: _Build) -> Known:
    """Return the facts about the result of ``build``, given a pointer and a 32-bit integer."""
    b = KernelBuilder(8, 8)
    result = build(b, b.parameter(0), b.special(SpecialRegister.TID_X))
    b.store(D.B8, b.parameter(1), result)
    form = ssa.build(b.module(Variable("v", Space.GLOBAL, 16, 16, 48)).functions[0])
    (store,) = [
        node
        for block in form.blocks.values()
        for node in block.nodes
        if isinstance(node, ssa.Operation) and node.instruction.op is Op.ST
    ]
    return known_values(form, {"v": 48}).read(store.sources[1], 64)


def _number(low: int, high: int, power: int = 1) -> Known:
    return refine_facts(64, low, high - low, power - 1)


def _pointer(low: int, high: int, power: int = 1) -> Known:
    return refine_facts(64, low, high - low, power - 1, origin=0)


def _op(op: Op, type_: DataType, *rest: Operand | str, bits: int = 64, **fields: object) -> _Build:
    """Return a builder of ``op`` on operands, or on "pointer", "number" (32 bits) and "wide" (the
    number, extended).
    """

    def build(b: KernelBuilder, pointer: Register, number: Register) -> Register:
        wide, result = b.register(64), b.register(bits)
        b.op(Op.CVT, D.U64, wide, number, source_type=D.U32)
        named: dict[object, Operand] = {"pointer": pointer, "number": number, "wide": wide}
        b.op(op, type_, result, *(named.get(one, one) for one in rest), **fields)  # type: ignore[arg-type]
        return result

    return build


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (_op(Op.ADD, D.U64, "pointer", "wide"), _pointer(0, _MOST)),
        (_op(Op.ADD, D.U64, "wide", "pointer"), _pointer(0, _MOST)),
        (_op(Op.ADD, D.U64, "pointer", Literal((1 << 64) - 12)), _pointer(-12, -12)),
        (_op(Op.ADD, D.U64, "pointer", "pointer"), UNKNOWN),
        (_op(Op.SUB, D.U64, "pointer", "wide"), _pointer(-_MOST, 0)),
        (_op(Op.SUB, D.U64, "wide", "pointer"), UNKNOWN),
        (_op(Op.SUB, D.U64, "pointer", "pointer"), _number(0, 0)),
        (_op(Op.ADD, D.U32, "pointer", "number"), _number(0, _MOST)),
        (_op(Op.MAD, D.S32, "number", Literal(8), "pointer", mode=MulMode.WIDE),
         _pointer(-8 << 31, (8 << 31) - 8, 8)),
        (_op(Op.MAD, D.S32, "number", Literal(0xFFFF_FFFC), "pointer", mode=MulMode.WIDE),
         _pointer(4 - (4 << 31), 4 << 31, 4)),
        (_op(Op.MAD, D.U32, "number", Literal(0xFFFF_FFFC), "pointer", mode=MulMode.WIDE),
         _pointer(0, _MOST * 0xFFFF_FFFC, 4)),
        (_op(Op.MAD, D.U64, "wide", Literal(16), "pointer", mode=MulMode.LO),
         _pointer(0, 16 * _MOST, 16)),
        (_op(Op.MUL, D.U64, "wide", "wide", mode=MulMode.LO), _number(0, _MOST * _MOST)),
        (_op(Op.MUL, D.U64, "wide", Literal(16), mode=MulMode.HI), UNKNOWN),
        (_op(Op.MUL, D.U64, "pointer", Literal(2), mode=MulMode.LO), multiple_of(2, 64)),
        (_op(Op.SHL, D.B64, "wide", Literal(3)), _number(0, 8 * _MOST, 8)),
        (_op(Op.SHL, D.B64, "wide", Literal(64)), _number(0, 0)),
        (_op(Op.SHL, D.B64, "wide", "number"), UNKNOWN),
        (_op(Op.SHR, D.U64, "wide", Literal(3)), _number(0, _MOST >> 3)),
        (_op(Op.AND, D.B64, "pointer", Literal(0xFFF0)), _number(0, 0xFFF0, 16)),
        (_op(Op.AND, D.B64, "pointer", Literal((1 << 64) - 16)), multiple_of(16, 64)),
        (_op(Op.OR, D.B64, "pointer", "wide"), UNKNOWN),
        (_op(Op.XOR, D.B64, "pointer", Literal(0)), UNKNOWN),
        (_op(Op.NEG, D.S64, "wide"), _number(-_MOST, 0)),
        (_op(Op.NEG, D.S64, "pointer"), UNKNOWN),
        (_op(Op.MAX, D.U64, "pointer", "wide"), UNKNOWN),
        (_op(Op.CVT, D.S64, "number", source_type=D.S32), _number(-1 << 31, (1 << 31) - 1)),
        (_op(Op.CVT, D.U64, "number", source_type=D.U8), _number(0, 255)),
        (_op(Op.CVT, D.U64, "pointer", source_type=D.U64), _pointer(0, 0)),
        (_op(Op.CVT, D.U64, "pointer", source_type=D.U32), _number(0, _MOST)),
        (_op(Op.CVT, D.F64, "number", source_type=D.U32, rounding=Rounding.RN), UNKNOWN),
        (_op(Op.CVT, D.F64, "number", source_type=D.U8, rounding=Rounding.RN), UNKNOWN),
        (_op(Op.CVT, D.U64, "number", source_type=D.F32, rounding=Rounding.RZI), UNKNOWN),
        (_op(Op.CVT, D.F32, "number", source_type=D.U8, rounding=Rounding.RN, bits=32),
         _number(0, _MOST)),
        (_op(Op.MOV, D.B64, Symbol("v", 4)), between(52, 52, 64, SEGMENT)),
    ],
)  # fmt: skip
def test_rules(build: _Build, expected: Known) -> None:
    assert _fact(build) == expected


@pytest.mark.parametrize("op", [Op.FADD, Op.FSUB, Op.FMUL])
def test_floats_are_unknown_integers(op: Op) -> None:
    build = _op(op, D.F64, "wide", "wide", rounding=Rounding.RN)
    assert _fact(build) == UNKNOWN


@pytest.mark.parametrize("same", [True, False])
def test_a_select_of_pointers_keeps_a_common_origin_only(same: bool) -> None:
    def build(b: KernelBuilder, pointer: Register, number: Register) -> Register:
        flag, result = b.predicate(), b.register(64)
        other = b.address(pointer if same else b.parameter(1), number, 4)
        b.add(Instruction(Op.SETP, D.U32, (flag, None), (number, Literal(3)), compare=Compare.EQ))
        b.op(Op.SELP, D.B64, result, pointer, other, flag)
        return result

    assert _fact(build) == (_pointer(0, 4 * _MOST, 4) if same else UNKNOWN)


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("constant", [True, False])
def test_a_pointer_that_moves_in_a_loop(bounded: bool, constant: bool) -> None:
    """Its alignment follows from its steps, whatever the trip count."""

    def build(b: KernelBuilder, pointer: Register, number: Register) -> Register:
        stride, moving, flag = b.register(64), b.register(64), b.predicate()
        counter = b.register(32)
        b.op(Op.MUL, D.U32, stride, number, Literal(16), mode=MulMode.WIDE)
        b.op(Op.MOV, D.B64, moving, pointer)
        b.place("again")
        b.op(Op.ADD, D.U64, moving, moving, Literal(8) if constant else stride)
        b.op(Op.ADD, D.U32, counter, counter, Literal(1 if bounded else 2))
        b.add(Instruction(Op.SETP, D.U32, (flag, None), (counter, number), compare=Compare.NE))
        b.branch("again", Guard(flag))
        return moving

    found = _fact(build)
    assert (found.origin, found.known_divisor) == (0, 8 if constant else 16)
    assert (found.magnitude <= 8 * ((1 << 32) + 1)) is (bounded and constant)


def test_clamping_and_alignment_by_origin() -> None:
    pointer = Pointer(0, (1 << 37) - ROW_BYTES - 64, 8)
    assert pointer.is_confined(-48, 16)
    assert not pointer.is_confined(-49, 16)
    assert not pointer.is_confined(48, 17)
    assert pointer.is_aligned(-16, 8)
    assert not pointer.is_aligned(4, 8)
    assert not pointer.is_aligned(16, 16)


def test_a_loop_with_two_steps_bounds_nothing() -> None:
    """Each iteration may take the other step: only the common divisor and the origin are known."""

    def build(b: KernelBuilder, pointer: Register, number: Register) -> Register:
        moving, flag, counter = b.register(64), b.predicate(), b.register(32)
        b.op(Op.MOV, D.B64, moving, pointer)
        b.place("again")
        b.op(Op.ADD, D.U32, counter, counter, Literal(1))
        b.op(Op.ADD, D.U64, moving, moving, Literal(8))
        b.add(Instruction(Op.SETP, D.U32, (flag, None), (counter, Literal(5)), compare=Compare.LT))
        b.branch("again", Guard(flag))
        b.op(Op.ADD, D.U64, moving, moving, Literal(1 << 40))
        b.add(Instruction(Op.SETP, D.U32, (flag, None), (counter, number), compare=Compare.NE))
        b.branch("again", Guard(flag))
        return moving

    found = _fact(build)
    assert (found.origin, found.known_divisor, found.magnitude) == (0, 8, 1 << 63)


@pytest.mark.parametrize("kept", [True, False])
def test_loop_facts_hold_for_all_iterations(kept: bool) -> None:
    """A value on the back edge is compared with the assumption at the header."""

    def build(b: KernelBuilder, pointer: Register, number: Register) -> Register:
        moving, flag, wide = b.register(64), b.predicate(), b.register(64)
        b.op(Op.MOV, D.B64, moving, pointer)
        b.place("again")
        b.op(Op.CVT, D.U64, wide, number, source_type=D.U32)
        b.op(Op.SHL, D.B64, wide, wide, Literal(4))
        b.op(Op.ADD, D.U64, moving, moving, wide)
        b.op(Op.AND if not kept else Op.ADD, D.B64, moving, moving, Literal((1 << 64) - 32))
        b.add(Instruction(Op.SETP, D.U32, (flag, None), (number, Literal(5)), compare=Compare.LT))
        b.branch("again", Guard(flag))
        return moving

    found = _fact(build)
    assert (found.origin, found.known_divisor) == ((0, 16) if kept else (None, 32))
    assert found.magnitude == 1 << 63


def test_a_value_that_loses_a_known_zero_per_iteration_becomes_unknown() -> None:
    def build(b: KernelBuilder, pointer: Register, number: Register) -> Register:
        moving, flag = b.register(64), b.predicate()
        b.op(Op.MOV, D.B64, moving, Literal(1 << 40))
        b.place("again")
        b.op(Op.SHR, D.U64, moving, moving, Literal(1))
        b.op(Op.ADD, D.U64, moving, moving, moving)
        b.op(Op.SHR, D.U64, moving, moving, Literal(1))
        b.add(Instruction(Op.SETP, D.U32, (flag, None), (number, Literal(5)), compare=Compare.LT))
        b.branch("again", Guard(flag))
        return moving

    found = _fact(build)
    assert all(found.contains(1 << 40 - turn) for turn in range(1, 41))
    assert found.contains(0)
