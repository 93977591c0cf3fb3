"""The interpreter: the executable specification of every instruction, on explicit state.

It does not count clock cycles. One module per opcode family (``control`` ... ``memory``) maps
opcodes to semantics.
"""

from vgpu_sim.exec.interp.address_space import BufferMemory, Memory
from vgpu_sim.exec.interp.engine import run, step
from vgpu_sim.exec.interp.launch import InterpretedLaunch, Surroundings, refusals
from vgpu_sim.exec.interp.semantics import SEMANTICS
from vgpu_sim.exec.interp.state import StackEntry, StepRecord, Warp

__all__ = [
    "SEMANTICS",
    "BufferMemory",
    "InterpretedLaunch",
    "Memory",
    "StackEntry",
    "StepRecord",
    "Surroundings",
    "Warp",
    "refusals",
    "run",
    "step",
]
