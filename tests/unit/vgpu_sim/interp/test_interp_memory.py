"""Accesses: widths, extension, vectors, constants, faults, and inactive lanes."""

from pathlib import Path

import numpy as np
import pytest

from support.execution.isa_lanes import launch_golden, prepare
from vgpu_sim.exec import interp
from vgpu_sim.exec.errors import AddressFault, BadAddress
from vgpu_sim.isa import Space
from vgpu_sim.isa.asm import assemble

GOLDEN = Path(__file__).parents[3] / "golden" / "isa"
BASE = 0x1000


def _load(mnemonic: str, register: int, data: bytes) -> int:
    warp = prepare(f"{mnemonic} r{register}, [{BASE}]")
    warp.launch.memory.store(
        np.arange(BASE, BASE + len(data), dtype=np.uint64),
        np.frombuffer(data, np.uint8).astype(np.uint64),
        1,
    )
    warp.registers[register][:] = np.iinfo(warp.registers[register].dtype).max
    interp.step(warp)
    values = set(warp.registers[register].tolist())
    assert len(values) == 1
    return int(values.pop())


@pytest.mark.parametrize(
    ("mnemonic", "register", "expected"),
    [
        ("LD.GLOBAL.U8", 0, 0x80),
        ("LD.GLOBAL.S8", 0, 0xFFFF_FF80),
        ("LD.GLOBAL.B8", 6, 0x80),
        ("LD.GLOBAL.S8", 3, 0xFFFF_FFFF_FFFF_FF80),
        ("LD.GLOBAL.S16", 0, 0xFFFF_8180),
        ("LD.GLOBAL.F16", 0, 0x8180),
        ("LD.S32", 3, 0xFFFF_FFFF_8382_8180),
        ("LD.CONST.U32", 3, 0x8382_8180),
        ("LD.GLOBAL.B64", 3, 0x8786_8584_8382_8180),
    ],
)
def test_loads_extend_by_their_type(mnemonic: str, register: int, expected: int) -> None:
    assert _load(mnemonic, register, bytes(range(0x80, 0x88))) == expected


def test_vectors_move_any_registers_in_order() -> None:
    _, data = launch_golden((GOLDEN / "vector_copy.isa").read_text(), 16 * 3, (3, 1, 1))
    rows = np.frombuffer(data[:48], np.uint32).reshape(3, 4).tolist()
    assert rows == [[2, 0, 99, 3], [3, 1, 99, 4], [2, 0, 99, 3]]


def test_a_vector_load_may_overwrite_its_own_address() -> None:
    warp = prepare("LD.GLOBAL.V2.B64 {r3, r4}, [r3]")
    warp.launch.memory.store(
        np.array([BASE, BASE + 8], np.uint64), np.array([11, 22], np.uint64), 8
    )
    warp.registers[3][:] = BASE
    interp.step(warp)
    assert set(warp.registers[3].tolist()) == {11}
    assert set(warp.registers[4].tolist()) == {22}


def test_lanes_with_a_false_guard_neither_access_memory_nor_fault() -> None:
    warp = prepare("@p0 ST.GLOBAL.B32 [r3-4], 7", "@!p0 LD.GLOBAL.B32 r0, [r3-4]")
    inside = np.arange(32) < 4
    warp.predicates[0][:] = inside
    warp.registers[3][:] = np.where(inside, BASE + 4 + 4 * np.arange(32), 8)
    record = interp.step(warp)
    assert (record.mask == inside).all()
    assert record.addresses is not None
    assert record.addresses.tolist() == [BASE, BASE + 4, BASE + 8, BASE + 12]
    words = warp.launch.memory.load(np.arange(BASE, BASE + 20, 4, dtype=np.uint64), 4)
    assert words.tolist() == [7, 7, 7, 7, 0]
    with pytest.raises(AddressFault) as caught:
        interp.step(warp)
    assert caught.value.address == 4
    assert (caught.value.word, warp.pc) == (1, 1)  # a debugger sees the warp at the access
    assert not warp.registers[0].any()


def test_an_access_without_lanes_does_nothing() -> None:
    warp = prepare("@p0 LD.GLOBAL.V4.B32 {r0, r1, r2, _}, [r3]")
    record = interp.step(warp)
    assert record.addresses is not None
    assert not record.mask.any()
    assert len(record.addresses) == 0


_STORE = """.isa 1
.function f
    .parameter_bytes 16
    .registers r0-r2 32
    .registers r3-r4 64
{
    S2R.B32 r0, CTAID_X
    S2R.B32 r1, TID_X
    MAD.LO.U32 r1, r0, 64, r1
    LD.PARAM.U64 r3, [0]
    MUL.WIDE.U32 r4, r1, 4
    ADD.U64 r3, r3, r4
    ST.B32 [r3], r1
    RET
}
"""


@pytest.mark.parametrize("room", [0, 4 * 63, 4 * 64 * 2 - 1, 4 * 300])
def test_a_fault_names_address_instruction_block_and_space(room: int) -> None:
    module = assemble(_STORE)
    base = 0x5000_0000
    parameters = base.to_bytes(16, "little")
    memory = interp.BufferMemory(base, bytearray(room))
    with pytest.raises(AddressFault) as caught:
        interp.run(module, module.functions[0], (6, 1, 1), (64, 1, 1), parameters, memory)
    first = room // 4
    fault = caught.value
    assert (fault.address, fault.word) == (base + 4 * first, 6)
    assert (fault.block, fault.space) == ((first // 64, 0, 0), Space.GENERIC)


@pytest.mark.parametrize("address", [0, 0xFFF, BASE + 253, BASE + 2**32, 2**64 - 1, 2**63 + BASE])
def test_addresses_around_the_buffer_are_bad(address: int) -> None:
    memory = interp.BufferMemory(BASE, bytearray(256))
    with pytest.raises(BadAddress) as caught:
        memory.load(np.array([BASE, address], dtype=np.uint64), 4)
    assert caught.value.address == address
    with pytest.raises(BadAddress):
        memory.store(np.array([address], np.uint64), np.zeros(1, np.uint64), 4)


def test_unaligned_accesses_are_performed() -> None:
    memory = interp.BufferMemory(BASE, bytearray(range(16)))
    loaded = memory.load(np.array([BASE + 3], np.uint64), 8)
    assert loaded.tolist() == [int.from_bytes(range(3, 11), "little")]


def test_symbols_are_offsets_from_the_segment() -> None:
    text = """.isa 1
.variable a space GLOBAL align 4 size 4 offset 0
.variable b space GLOBAL align 4 size 8 offset 16
.function f
    .registers r0-r0 64
{
    MOV.U64 r0, &(b+4)
    ST.GLOBAL.B64 [&(a+8)], r0
    ST.GLOBAL.B32 [&b+4], 9
    RET
}
"""
    module = assemble(text)
    data = bytearray(24)
    memory = interp.BufferMemory(0x9000, data)
    run = interp.run
    run(module, module.functions[0], (1, 1, 1), (1, 1, 1), b"", memory, segment_base=0x9000)
    assert int.from_bytes(data[8:16], "little") == 0x9000 + 16 + 4
    assert int.from_bytes(data[20:24], "little") == 9


def test_parameters_are_read_at_their_offset() -> None:
    text = """.isa 1
.function f
    .parameter_bytes 24
    .registers r0-r3 64
    .predicates 1
{
@p0 LD.PARAM.S64 r3, [0]
    LD.PARAM.V2.S32 {r0, r1}, [8]
    LD.PARAM.U8 r2, [23]
    RET
}
"""
    module = assemble(text)
    memory = interp.BufferMemory(0, bytearray())
    parameters = bytes(range(0x80, 0x98))
    launch = interp.InterpretedLaunch(
        module, module.functions[0], (1, 1, 1), (32, 1, 1), parameters, memory
    )
    warp = interp.Warp(launch, 0)
    assert [interp.step(warp).addresses for _ in range(3)] == [None, None, None]
    assert [set(register.tolist()) for register in warp.registers] == [
        {0xFFFF_FFFF_8B8A_8988},
        {0xFFFF_FFFF_8F8E_8D8C},
        {0x97},
        {0},
    ]
