"""One instruction, evaluated by the interpreter over the lanes of one warp."""

from collections.abc import Sequence

import numpy as np

from vgpu_sim import isa
from vgpu_sim.exec import interp
from vgpu_sim.hal.compute import address_map
from vgpu_sim.isa.asm import assemble

LANES = 32
GPU = address_map.APERTURE_BASES[0]  # where the window of the GPU begins on which golden code runs
REGISTER_BITS = (32, 32, 32, 64, 64, 64, 16, 16, 16)
DESTINATION = {16: 6, 32: 0, 64: 3}


def evaluate(
    mnemonic: str, operands: Sequence[Sequence[int]], source_bits: int, result_bits: int
) -> list[int]:
    """Return the patterns of ``mnemonic d, a, b...`` for up to 32 values of each operand.

    A result is read from a register of ``result_bits`` (at least the result's own width).
    """
    wide = source_bits if source_bits > 8 else 16
    first = {16: 6, 32: 0, 64: 3}[wide]
    registers = [f"r{first + place}" for place in range(len(operands))]
    text = f"{mnemonic} r{DESTINATION[result_bits]}, {', '.join(registers)}"
    warp = prepare(text)
    for place, values in enumerate(operands):
        padded = list(values) + [0] * (LANES - len(values))
        warp.registers[first + place][:] = np.array(padded, dtype=np.uint64).astype(f"u{wide // 8}")
    interp.step(warp)
    return [int(v) for v in warp.registers[DESTINATION[result_bits]][: len(operands[0])]]


def prepare(*lines: str) -> interp.Warp:
    """Return a warp at the start of ``lines``, with the register widths of ``REGISTER_BITS``."""
    registers = "\n".join(f".registers r{i}-r{i} {bits}" for i, bits in enumerate(REGISTER_BITS))
    body = "\n".join(lines)
    text = f".isa 1\n.function f\n{registers}\n.predicates 4\n{{\n{body}\nRET\n}}\n"
    module = assemble(text)
    memory = interp.BufferMemory(0x1000, bytearray(256))
    launch = interp.InterpretedLaunch(
        module, module.functions[0], (1, 1, 1), (LANES, 1, 1), b"", memory
    )
    return interp.Warp(launch, 0)


def launch_golden(
    text: str, out_bytes: int, block: tuple[int, int, int], grid: tuple[int, int, int] = (1, 1, 1)
) -> tuple[isa.Module, bytearray]:
    """Run a module's only kernel, whose only parameter is a pointer to ``out_bytes`` bytes."""
    module = assemble(text)
    base = GPU + address_map.MODULE_OFFSET
    data = bytearray(out_bytes + module.segment_bytes)
    for variable in module.variables:
        begin = out_bytes + variable.offset
        data[begin : begin + len(variable.initial)] = variable.initial
    interp.run(
        module,
        module.functions[0],
        grid,
        block,
        base.to_bytes(8, "little"),
        interp.BufferMemory(base, data),
        segment_base=base + out_bytes,
    )
    return module, data
