"""No pointer argument makes native code access memory outside the aperture.

Each case runs in a forked child. Each launch must either fault, at an address inside the
aperture's reserved pages, or leave every canary (live device memory and host memory) unchanged.
"""

import ctypes
import mmap
import os
import signal
import struct
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from support.execution import native_launch
from support.kernels.kernel_builder import KernelBuilder
from vgpu_sim import compiler
from vgpu_sim.exec import interp, jit
from vgpu_sim.exec.errors import AddressFault
from vgpu_sim.hal.compute import abi
from vgpu_sim.isa import (
    Compare,
    DataType,
    Guard,
    Instruction,
    Literal,
    Module,
    MulMode,
    Op,
    Rounding,
    Space,
    SpecialRegister,
)

D = DataType
_BLOCK = (64, 1, 1)
_M64 = (1 << 64) - 1
_CANARY = 0xA5


class _World:
    """An aperture with live memory, and host memory to which a client's pointer might refer."""

    def __init__(self) -> None:
        self.aperture = native_launch.Aperture()
        count = 128
        self.live = self.aperture.allocate(bytes([_CANARY]) * 4096)
        self.good = self.aperture.allocate(np.arange(count, dtype=np.float32))
        self.host = mmap.mmap(-1, 1 << 16)
        self.host[:] = bytes([_CANARY]) * len(self.host)
        view = (ctypes.c_char * len(self.host)).from_buffer(self.host)
        self.host_address = ctypes.addressof(view)
        del view

    def wild(self) -> Iterator[int]:
        """Yield pointers outside all allocations, over the whole 64-bit range."""
        base, limit = self.aperture.base, native_launch.APERTURE_BYTES
        yield from (0, _M64, self.host_address, self.host_address + 4096, base, base + limit)
        yield from (base + limit - 64, base + limit + 4, base - 64)
        for origin in (base, self.live.address):
            for power in range(64):
                yield (origin + (1 << power)) & _M64
                yield (origin - (1 << power)) & _M64

    def survives(self, loaded: jit.Loaded, parameters: bytes) -> None:
        launch = native_launch.context(self.aperture, (2, 1, 1), _BLOCK)
        address = native_launch.fault_address(loaded, launch, parameters, [(0, 2)])
        if address is not None:
            start = self.aperture.base - native_launch.BEFORE_BYTES
            end = self.aperture.base + native_launch.APERTURE_BYTES + native_launch.AFTER_BYTES
            image = native_launch.MISALIGNED_OFFSET_BYTES
            assert start <= address < end or start <= address - image < end, hex(address)
        assert self.host[:] == bytes([_CANARY]) * len(self.host)

    def intact(self) -> bool:
        return bytes(self.live.view) == bytes([_CANARY]) * len(self.live.view)


def _vecadd() -> Module:
    with open("examples/vecadd.ptx") as file:
        return compiler.compile_ptx(file.read(), capability=(8, 0))


def _gather() -> Module:
    """Return p[(t * 7) % 64] += 1: its addresses are vectors."""
    b = KernelBuilder(8)
    pointer = b.parameter(0)
    index = b.register(32)
    b.op(Op.MUL, D.U32, index, b.linear_thread(), Literal(7), mode=MulMode.LO)
    b.op(Op.REM, D.U32, index, index, Literal(64))
    address = b.address(pointer, index, 4)
    value = b.load(D.B32, address)
    b.op(Op.ADD, D.B32, value, value, Literal(1))
    b.store(D.B32, address, value)
    return b.module()


def _loaded_pointer() -> Module:
    """Return a kernel with a pointer that is not a parameter: *(p ^ 0), arithmetic without
    provenance.
    """
    b = KernelBuilder(8)
    pointer = b.parameter(0)
    mixed = b.register(64)
    b.op(Op.XOR, D.B64, mixed, pointer, Literal(0x5555))
    b.op(Op.XOR, D.B64, mixed, mixed, Literal(0x5555))
    address = b.address(mixed, b.special(SpecialRegister.TID_X), 4)
    b.store(D.B32, address, Literal(7))
    uniform = b.load(D.B32, mixed, 4)
    b.store(D.B32, address, uniform)
    return b.module()


def _walking_pointer() -> Module:
    """Return a kernel whose pointer advances by a run-time stride in a loop."""
    b = KernelBuilder(8)
    pointer = b.parameter(0)
    address = b.address(pointer, b.special(SpecialRegister.TID_X), 4)
    stride, counter, flag = b.register(64), b.register(32), b.predicate()
    b.op(Op.CVT, D.U64, stride, b.special(SpecialRegister.NTID_X), source_type=D.U32)
    b.op(Op.MUL, D.U64, stride, stride, pointer, mode=MulMode.LO)
    b.op(Op.MOV, D.B32, counter, Literal(3))
    b.place("again")
    b.store(D.B32, address, counter)
    b.op(Op.ADD, D.B64, address, address, stride)
    b.op(Op.SUB, D.B32, counter, counter, Literal(1))
    b.add(Instruction(Op.SETP, D.U32, (flag, None), (counter, Literal(0)), compare=Compare.NE))
    b.branch("again", Guard(flag))
    return b.module()


def _far_displacement() -> Module:
    b = KernelBuilder(8)
    pointer = b.parameter(0)
    address = b.address(pointer, b.special(SpecialRegister.TID_X), 4)
    b.store(D.B32, address, Literal(7), (1 << 31) - 4)
    b.add(
        Instruction(
            Op.LD, D.B32, (b.register(32),), (address,), space=Space.GLOBAL, displacement=-(1 << 31)
        )
    )
    return b.module()


def _two_exits() -> Module:
    """Return a kernel whose pointer advances far beyond the aperture.

    The counter of the loop's first exit never meets its limit.
    """
    b = KernelBuilder(8)
    address, counter, turns = b.register(64), b.register(32), b.register(32)
    never, more = b.predicate(), b.predicate()
    b.op(Op.MOV, D.B64, address, b.parameter(0))
    b.place("again")
    b.op(Op.ADD, D.B32, counter, counter, Literal(1 << 30))
    b.add(Instruction(Op.SETP, D.U32, (never, None), (counter, Literal(1)), compare=Compare.EQ))
    b.branch("out", Guard(never))
    b.op(Op.ADD, D.B64, address, address, Literal(1 << 34))
    b.op(Op.ADD, D.B32, turns, turns, Literal(1))
    b.add(Instruction(Op.SETP, D.U32, (more, None), (turns, Literal(700)), compare=Compare.NE))
    b.branch("again", Guard(more))
    b.place("out")
    b.store(D.B32, address, Literal(7))
    return b.module()


def _narrow_sum() -> Module:
    """Return a kernel that adds a 16-bit product to the low half of a pointer, which is no longer
    one.
    """
    b = KernelBuilder(8)
    factor, address = b.register(16), b.register(64)
    b.op(Op.MOV, D.B16, factor, Literal(4))
    operands = (factor, Literal(4), b.parameter(0))
    b.op(Op.MAD, D.U16, address, *operands, mode=MulMode.WIDE)
    b.store(D.B32, address, Literal(7))
    return b.module()


def _float_patterns(type_: DataType, lanes: bool) -> Callable[[], Module]:
    """Return a maker of kernels whose distances are the difference of the patterns of two floats,
    converted from 32-bit integers.
    """

    def build() -> Module:
        b = KernelBuilder(8)
        number = b.special(SpecialRegister.TID_X if lanes else SpecialRegister.NTID_X)
        patterns = []
        for addend in (1, 2):
            total, pattern, wide = b.register(32), b.register(type_.bits), b.register(64)
            b.op(Op.ADD, D.U32, total, number, Literal(addend))
            b.op(Op.CVT, type_, pattern, total, source_type=D.U32, rounding=Rounding.RN)
            b.op(Op.MOV, D[f"B{type_.bits}"], wide, pattern)
            patterns.append(wide)
        distance, address = b.register(64), b.register(64)
        b.op(Op.SUB, D.U64, distance, patterns[1], patterns[0])
        b.op(Op.ADD, D.U64, address, distance, b.parameter(0))
        # It is not a power of two: else a wild pointer might wrap around to memory that it may
        # access.
        b.store(D.B32, address, Literal(7), 0x34_5678)
        return b.module()

    return build


_PLANS = (jit.Plan(16, 2), jit.Plan(1, 1))
_KERNELS = {
    "gather": _gather,
    "loaded": _loaded_pointer,
    "walking": _walking_pointer,
    "far": _far_displacement,
    "two exits": _two_exits,
    "narrow sum": _narrow_sum,
    "f64 patterns": _float_patterns(D.F64, lanes=False),
    "f64 patterns of lanes": _float_patterns(D.F64, lanes=True),
    "f32 patterns": _float_patterns(D.F32, lanes=False),
}


@pytest.mark.parametrize("plan", _PLANS, ids=str)
@pytest.mark.parametrize("name", _KERNELS)
def test_a_wild_pointer_accesses_no_other_memory(name: str, plan: jit.Plan) -> None:
    world = _World()
    compiler_ = jit.Compiler()
    module = _KERNELS[name]()
    loaded = compiler_.load(compiler_.compile(module, module.functions[0], _BLOCK, plan))
    live = range(world.live.address - 1024, world.live.address + 4096)

    def launches() -> None:
        for pointer in world.wild():
            near = pointer in live or pointer + (1 << 31) - 4 in live or pointer - (1 << 31) in live
            near |= pointer in range(world.good.address - 1024, world.good.address + 4096)
            if near:  # a legal address: an allocation that the kernel may write
                continue
            world.survives(loaded, struct.pack("<Q", pointer))
            assert world.intact(), hex(pointer)

    native_launch.in_child(launches)
    world.aperture.close()


@pytest.mark.parametrize("name", _KERNELS)
def test_the_interpreter_refuses_wild_pointers(name: str) -> None:
    module = _KERNELS[name]()
    memory = interp.BufferMemory(0x2000_0000_0000, bytearray(4096))
    for pointer in (0, 4096, 0x1FFF_FFFF_F000, 0x2000_0000_1000, _M64 - 4095, 1 << 62):
        parameters = struct.pack("<Q", pointer)
        with pytest.raises(AddressFault):
            interp.run(module, module.functions[0], (2, 1, 1), _BLOCK, parameters, memory)


@pytest.mark.parametrize("plan", _PLANS, ids=str)
@pytest.mark.parametrize("which", range(3))
def test_wild_vecadd_parameter(which: int, plan: jit.Plan) -> None:
    world = _World()
    compiler_ = jit.Compiler()
    module = _vecadd()
    function = module.functions[0]
    loaded = compiler_.load(compiler_.compile(module, function, _BLOCK, plan))

    def launches() -> None:
        for pointer in world.wild():
            if pointer in range(world.live.address - 1024, world.live.address + 8192):
                continue
            values = [world.good.address] * 3 + [128]
            values[which] = pointer
            parameters = native_launch.pack(function.parameters, function.parameter_bytes, values)
            world.survives(loaded, parameters)
            assert world.intact(), hex(pointer)

    native_launch.in_child(launches)
    world.aperture.close()


def test_the_oracle_detects_an_escape() -> None:
    """A context with all of memory as limit allows the host's canary to be overwritten."""
    world = _World()
    compiler_ = jit.Compiler()
    module = _loaded_pointer()
    loaded = compiler_.load(compiler_.compile(module, module.functions[0], _BLOCK, jit.Plan(16, 1)))
    launch = bytes(
        abi.LaunchContext(
            aperture_limit=_M64, grid=(2, 1, 1), block=_BLOCK, multiprocessors=1, cluster=(1, 1, 1)
        )
    )
    parameters = struct.pack("<Q", world.host_address)

    def escapes() -> None:
        assert native_launch.fault_address(loaded, launch, parameters, [(0, 2)]) is None
        intact = world.host[:] == bytes([_CANARY]) * len(world.host)
        assert intact, "overwritten"

    with pytest.raises(AssertionError, match="overwritten"):
        native_launch.in_child(escapes)
    world.aperture.close()


def test_a_launch_that_ends_its_process_is_noticed() -> None:
    with pytest.raises(AssertionError, match="-9"):
        native_launch.in_child(lambda: os.kill(os.getpid(), signal.SIGKILL))
