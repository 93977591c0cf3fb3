"""The text of a fault: the access, its address, and its distance outside of shared memory."""

import pytest

from vgpu_sim.isa import Instruction
from vgpu_sim.isa.asm import assemble
from vgpu_sim.worker.faults import fault_text


def instruction(text: str) -> Instruction:
    registers = ".registers r0-r1 32\n.registers r2-r3 64\n"
    module = assemble(f".isa 1\n.function f\n{registers}.predicates 1\n{{\n{text}\nRET\n}}\n")
    return module.functions[0].code[0]


@pytest.mark.parametrize(
    ("address", "place"),
    [
        (0xFF, ""),
        (0x100, ", 1 byte past the end of the block's 256 bytes of shared memory"),
        (0x101, ", 2 bytes past the end of the block's 256 bytes of shared memory"),
    ],
)
def test_an_address_of_shared_memory_is_named_by_its_distance(address: int, place: str) -> None:
    store = instruction("ST.SHARED.B32 [r0], r1")
    reported = fault_text.describe_access("illegal address", store, address, 0x100)
    assert reported == f"illegal address: ST.SHARED.B32 [r0], r1 at {address:#x}{place}"


@pytest.mark.parametrize(
    ("address", "place"),
    [
        (0x101, ", 2 bytes past the end of the block's 256 bytes of shared memory"),
        (0x3000180, ", offset 0x180 in the 256 bytes of shared memory of rank 1"),
        (0x4000010, ", offset 0x10 in rank 2; the cluster has 2 blocks"),
    ],
)
def test_an_address_of_a_peer_is_named_by_its_rank_and_offset(address: int, place: str) -> None:
    store = instruction("ST.SHARED.B32 [r0], r1")
    reported = fault_text.describe_access("illegal address", store, address, 0x100, 2)
    assert reported == f"illegal address: ST.SHARED.B32 [r0], r1 at {address:#x}{place}"


def test_an_address_of_global_memory_is_left_to_the_client_which_knows_allocations() -> None:
    load = instruction("LD.GLOBAL.B32 r0, [r3]")
    reported = fault_text.describe_access("misaligned address", load, 3)
    assert reported == "misaligned address: LD.GLOBAL.B32 r0, [r3] at 0x3"
    reported = fault_text.describe_access("illegal address", load, None)
    assert reported == "illegal address: LD.GLOBAL.B32 r0, [r3], outside of the device's memory"


def test_a_trap_is_reported_with_its_instruction() -> None:
    assert fault_text.describe_trap(instruction("TRAP")) == "the kernel executed a trap: TRAP"
