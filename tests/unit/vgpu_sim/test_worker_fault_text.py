"""How a fault is told: what was done, where, and how far from the nearest memory."""

import pytest

from vgpu_sim.isa import Instruction
from vgpu_sim.isa.asm import assemble
from vgpu_sim.worker import fault_text

MAPPED = ((0x1000, 0x100), (0x3000, 0x10))


def instruction(text: str) -> Instruction:
    registers = ".registers r0-r1 32\n.registers r2-r3 64\n"
    module = assemble(f".isa 1\n.function f\n{registers}.predicates 1\n{{\n{text}\nRET\n}}\n")
    return module.functions[0].code[0]


@pytest.mark.parametrize(
    ("address", "place"),
    [
        (0x1000, ""),
        (0x10FF, ""),
        (0x300F, ""),
        (0xFFF, ", 1 byte before the nearest allocation's memory"),
        (0xFFE, ", 2 bytes before the nearest allocation's memory"),
        (0x1100, ", 1 byte past the nearest allocation's memory"),
        (0x2000, ", 3841 bytes past the nearest allocation's memory"),
        (0x2FF0, ", 16 bytes before the nearest allocation's memory"),
        (0x300F + (1 << 40) - 1, f", {(1 << 40) - 1} bytes past the nearest allocation's memory"),
        (0x300F + (1 << 40), ", outside of the device's memory"),
    ],
)
def test_an_address_is_told_from_the_nearest_memory(address: int, place: str) -> None:
    store = instruction("ST.GLOBAL.B32 [r3], r0")
    told = fault_text.access("illegal address", store, address, MAPPED)
    assert told == f"illegal address: ST.GLOBAL.B32 [r3], r0 at {address:#x}{place}"


def test_without_memory_or_without_an_address_that_is_said() -> None:
    load = instruction("LD.GLOBAL.B32 r0, [r3]")
    told = fault_text.access("misaligned address", load, 3, ())
    assert told == "misaligned address: LD.GLOBAL.B32 r0, [r3] at 0x3, with no memory allocated"
    told = fault_text.access("illegal address", load, None, MAPPED)
    assert told == "illegal address: LD.GLOBAL.B32 r0, [r3], outside of the device's memory"


def test_a_trap_is_told_with_its_instruction() -> None:
    assert fault_text.trap(instruction("TRAP")) == "the kernel executed a trap: TRAP"
