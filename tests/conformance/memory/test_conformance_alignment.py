"""A misaligned access ends the launch, on both backends.

Natively it faults in the image of the aperture that is reserved for such accesses, at the same
offset as the program's address; inactive lanes never fault.
"""

import struct
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from support.execution import native_launch
from support.kernels.kernel_builder import KernelBuilder
from vgpu_sim.exec import interp, jit
from vgpu_sim.exec.errors import MisalignedFault
from vgpu_sim.exec.jit.values import launch as jit_launch
from vgpu_sim.hal.compute import address_map
from vgpu_sim.isa import (
    Compare,
    DataType,
    Guard,
    Instruction,
    Literal,
    Module,
    Op,
    Register,
    Space,
    SpecialRegister,
)

D = DataType
_BLOCK = (32, 1, 1)
_PLANS = (jit.Plan(16, 2), jit.Plan(16, 1), jit.Plan(1, 1))
_SHAPES = ((D.B16, 1), (D.F32, 1), (D.B64, 1), (D.B8, 4), (D.F32, 2), (D.B32, 4), (D.F64, 2))
_WHERE = ("pointer", "displacement", "unknown pointer", "unknown displacement")
_Address = Callable[[KernelBuilder, Register, int], Register]


def _same(b: KernelBuilder, base: Register, size: int) -> Register:
    return base


def _neighbours(b: KernelBuilder, base: Register, size: int) -> Register:
    return b.address(base, b.special(SpecialRegister.TID_X), size)


def _apart(b: KernelBuilder, base: Register, size: int) -> Register:
    return b.address(base, b.special(SpecialRegister.TID_X), 3 * size)


_LANES: dict[str, _Address] = {"same": _same, "neighbours": _neighbours, "apart": _apart}


def _access(b: KernelBuilder, op: Op, type_: DataType, count: int, address: Register,
            displacement: int, guard: Guard | None = None) -> None:  # fmt: skip
    values = tuple(b.register(max(16, type_.bits)) for _ in range(count))
    how = {"space": Space.GLOBAL, "vector": count, "displacement": displacement, "guard": guard}
    if op is Op.ST:
        b.add(Instruction(op, type_, (), (address, *values), **how))  # type: ignore[arg-type]
        return
    b.add(Instruction(op, type_, values, (address,), **how))  # type: ignore[arg-type]
    sink = b.address(b.parameter(1), b.special(SpecialRegister.TID_X), 32)
    for place, value in enumerate(values):  # per lane, or LLVM would drop the load as dead
        b.store(type_, sink, value, place * type_.bytes)


class _Bench:
    """One launch on both backends; ``fault`` is the address that the program accessed."""

    def __init__(self) -> None:
        self.aperture = native_launch.Aperture()
        self.data = self.aperture.allocate(np.zeros(4096, np.uint8))
        self.sink = self.aperture.allocate(np.zeros(4096, np.uint8))
        self.compiler = jit.Compiler()

    def parameters(self, offset: int) -> bytes:
        return struct.pack("<QQQ", self.data.address + offset, self.sink.address, 0)

    def interpret(self, module: Module, offset: int) -> MisalignedFault | None:
        base = min(self.data.address, self.sink.address)
        memory = interp.BufferMemory(base, bytearray(16384))
        try:
            interp.run(
                module, module.functions[0], (1, 1, 1), _BLOCK, self.parameters(offset), memory
            )
        except MisalignedFault as fault:
            return fault
        return None

    def native(self, module: Module, offset: int, plan: jit.Plan) -> int | None:
        code = self.compiler.compile(module, module.functions[0], _BLOCK, plan)
        launch = native_launch.context(self.aperture, (1, 1, 1), _BLOCK)
        loaded = self.compiler.load(code)
        address = native_launch.fault_address(loaded, launch, self.parameters(offset), [(0, 1)])
        return None if address is None else address - native_launch.MISALIGNED_OFFSET_BYTES


@pytest.fixture
def bench() -> Iterator[_Bench]:
    made = _Bench()
    yield made
    made.aperture.close()


def _base(b: KernelBuilder, where: str) -> Register:
    base = b.parameter(0)
    if where.startswith("unknown"):
        mixed = b.register(64)
        b.op(Op.XOR, D.B64, mixed, base, b.parameter(2))
        base = mixed
    return base


@pytest.mark.parametrize("where", _WHERE)
@pytest.mark.parametrize("lanes", _LANES)
@pytest.mark.parametrize(("type_", "count"), _SHAPES, ids=lambda v: getattr(v, "name", str(v)))
def test_every_width(type_: DataType, count: int, lanes: str, where: str, bench: _Bench) -> None:
    """If all lanes are misaligned, it is undefined which one is reported."""
    size = type_.bytes * count
    choice = size + len(lanes) + len(where)
    plan = _PLANS[choice % len(_PLANS)]
    first, second = (Op.LD, Op.ST) if choice % 2 else (Op.ST, Op.LD)
    for op, off in ((first, size // 2), (second, 0)):
        b = KernelBuilder(8, 8, 8)
        shift, displacement = (off, 0) if where.endswith("pointer") else (0, off)
        _access(b, op, type_, count, _LANES[lanes](b, _base(b, where), size), displacement)
        module = b.module()
        fault, address = bench.interpret(module, shift), bench.native(module, shift, plan)
        if not off:
            assert fault is None
            assert address is None
            continue
        assert fault is not None
        assert (fault.address, fault.size) == (bench.data.address + off, size)
        assert address is not None
        assert 0 <= address - fault.address < (3 * 32 + 1) * size


@pytest.mark.parametrize("plan", _PLANS, ids=str)
@pytest.mark.parametrize("op", [Op.LD, Op.ST])
def test_one_lane_of_many(op: Op, plan: jit.Plan, bench: _Bench) -> None:
    """Only lane 5 is misaligned: its address is reported."""
    b = KernelBuilder(8, 8, 8)
    lane, flag, extra = b.special(SpecialRegister.TID_X), b.predicate(), b.register(32)
    b.add(Instruction(Op.SETP, D.U32, (flag, None), (lane, Literal(5)), compare=Compare.EQ))
    b.op(Op.SELP, D.B32, extra, Literal(1), Literal(0), flag)
    _access(b, op, D.B32, 1, b.address(b.address(b.parameter(0), lane, 8), extra, 1), 0)
    module = b.module()
    fault = bench.interpret(module, 0)
    assert fault is not None
    assert fault.address == bench.data.address + 5 * 8 + 1
    assert bench.native(module, 0, plan) == fault.address


@pytest.mark.parametrize("plan", _PLANS, ids=str)
@pytest.mark.parametrize("lanes", _LANES)
@pytest.mark.parametrize("op", [Op.LD, Op.ST])
def test_inactive_lanes_never_fault(op: Op, lanes: str, plan: jit.Plan, bench: _Bench) -> None:
    """Guards are true in no lane, or in a single lane, whose own address is aligned."""
    b = KernelBuilder(8, 8, 8)
    lane, none, some = b.special(SpecialRegister.TID_X), b.predicate(), b.predicate()
    size = b.special(SpecialRegister.NTID_X)
    b.add(Instruction(Op.SETP, D.U32, (none, None), (size, Literal(77)), compare=Compare.EQ))
    b.add(Instruction(Op.SETP, D.U32, (some, None), (lane, Literal(4)), compare=Compare.EQ))
    base = b.parameter(0)
    _access(b, op, D.B32, 1, _LANES[lanes](b, base, 4), 0, Guard(none))
    mixed = b.register(64)
    b.op(Op.XOR, D.B64, mixed, base, b.parameter(2))
    _access(b, op, D.B32, 1, _LANES[lanes](b, mixed, 4), 1, Guard(none))
    _access(b, op, D.B32, 1, b.address(mixed, lane, 1), 3, Guard(some))
    module = b.module()
    assert bench.interpret(module, 1) is None
    assert bench.native(module, 1, plan) is None


@pytest.mark.parametrize("plan", _PLANS, ids=str)
def test_parameters(plan: jit.Plan, bench: _Bench) -> None:
    b = KernelBuilder(8, 8, 8)
    value = b.register(32)
    b.op(Op.LD, D.B32, value, space=Space.PARAM, displacement=2)
    b.store(D.B32, b.parameter(1), value)
    module = b.module()
    fault = bench.interpret(module, 0)
    assert fault is not None
    assert fault.size == 4
    assert bench.native(module, 0, plan) is not None


def test_the_image_is_where_the_worker_reserves_it() -> None:
    offset = address_map.MISALIGNED_OFFSET_BYTES
    assert jit_launch.MISALIGNED_OFFSET_BYTES == offset == native_launch.MISALIGNED_OFFSET_BYTES
    reach = address_map.APERTURE_BYTES + address_map.GUARD_AFTER_BYTES
    assert offset - address_map.GUARD_BEFORE_BYTES >= reach
