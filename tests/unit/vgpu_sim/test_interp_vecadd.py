"""The thread through the interpreter: a vector addition as the compiler emits it."""

import struct
import time

import numpy as np
import pytest

from vgpu_sim import isa
from vgpu_sim.exec import interp
from vgpu_sim.isa import DataType, Instruction, Op, Predicate, Register

BASE = 0x7F00_0000_0000

_CODE = (
    Instruction(Op.LD, DataType.U32, (Register(0),), space=isa.Space.PARAM, displacement=24),
    Instruction(Op.S2R, dsts=(Register(1),), sreg=isa.SpecialRegister.CTAID_X),
    Instruction(Op.S2R, dsts=(Register(2),), sreg=isa.SpecialRegister.NTID_X),
    Instruction(Op.S2R, dsts=(Register(3),), sreg=isa.SpecialRegister.TID_X),
    Instruction(
        Op.MAD,
        DataType.S32,
        (Register(4),),
        (Register(1), Register(2), Register(3)),
        mode=isa.MulMode.LO,
    ),
    Instruction(
        Op.SETP,
        DataType.S32,
        (Predicate(0), None),
        (Register(4), Register(0)),
        compare=isa.Compare.GE,
    ),
    Instruction(Op.BRA, guard=isa.Guard(Predicate(0)), target=18),
    Instruction(Op.LD, DataType.U64, (Register(5),), space=isa.Space.PARAM),
    Instruction(Op.LD, DataType.U64, (Register(6),), space=isa.Space.PARAM, displacement=8),
    Instruction(Op.LD, DataType.U64, (Register(7),), space=isa.Space.PARAM, displacement=16),
    Instruction(
        Op.MUL,
        DataType.S32,
        (Register(8),),
        (Register(4), isa.Literal(4)),
        mode=isa.MulMode.WIDE,
    ),
    Instruction(Op.ADD, DataType.S64, (Register(5),), (Register(5), Register(8))),
    Instruction(Op.ADD, DataType.S64, (Register(6),), (Register(6), Register(8))),
    Instruction(Op.ADD, DataType.S64, (Register(7),), (Register(7), Register(8))),
    Instruction(Op.LD, DataType.F32, (Register(9),), (Register(5),), space=isa.Space.GLOBAL),
    Instruction(Op.LD, DataType.F32, (Register(10),), (Register(6),), space=isa.Space.GLOBAL),
    Instruction(
        Op.FADD,
        DataType.F32,
        (Register(9),),
        (Register(9), Register(10)),
        rounding=isa.Rounding.RN,
    ),
    Instruction(Op.ST, DataType.F32, (), (Register(7), Register(9)), space=isa.Space.GLOBAL),
    Instruction(Op.RET),
)
_FUNCTION = isa.Function(
    name="vecadd",
    parameters=(
        isa.Parameter("a", 0, 8, 8),
        isa.Parameter("b", 8, 8, 8),
        isa.Parameter("c", 16, 8, 8),
        isa.Parameter("n", 24, 4, 4),
    ),
    parameter_bytes=28,
    register_bits=(32,) * 5 + (64,) * 4 + (32,) * 2,
    predicate_count=1,
    code=_CODE,
    lines=(0,) * len(_CODE),
)


@pytest.mark.parametrize("threads", [256, 33, 1])
def test_vector_addition_stops_at_its_bound(threads: int) -> None:
    count, bound = 1000, 990
    a, b = (np.random.default_rng(seed).random(count, dtype=np.float32) for seed in (1, 2))
    data = bytearray(a.tobytes() + b.tobytes() + bytes(4 * count))
    parameters = struct.pack("<QQQI", BASE, BASE + 4 * count, BASE + 8 * count, bound)
    grid = (-(-count // threads), 1, 1)
    memory = interp.BufferMemory(BASE, data)
    interp.run(isa.Module((_FUNCTION,)), _FUNCTION, grid, (threads, 1, 1), parameters, memory)
    result = np.frombuffer(data, np.float32)[2 * count :]
    assert (result[:bound] == a[:bound] + b[:bound]).all()
    assert (result[bound:] == 0).all()


def test_65536_elements_take_less_than_two_seconds() -> None:
    count = 65536
    data = bytearray(np.ones(2 * count, dtype=np.float32).tobytes() + bytes(4 * count))
    parameters = struct.pack("<QQQI", BASE, BASE + 4 * count, BASE + 8 * count, count)
    memory = interp.BufferMemory(BASE, data)
    begin = time.perf_counter()
    module = isa.Module((_FUNCTION,))
    interp.run(module, _FUNCTION, (256, 1, 1), (256, 1, 1), parameters, memory)
    assert time.perf_counter() - begin < 2
    assert (np.frombuffer(data, np.float32)[2 * count :] == 2).all()
