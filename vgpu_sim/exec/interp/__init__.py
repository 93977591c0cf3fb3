"""The interpreter: the specification of every instruction, over explicit state. No cycles.

One file per opcode family (``control`` ... ``memory``) maps opcodes to semantics.
"""

from vgpu_sim.exec.interp.address_space import BufferMemory, Memory
from vgpu_sim.exec.interp.engine import SEMANTICS, run, step
from vgpu_sim.exec.interp.state import InterpretedLaunch, StackEntry, StepRecord, Warp, refusals

__all__ = [
    "SEMANTICS",
    "BufferMemory",
    "InterpretedLaunch",
    "Memory",
    "StackEntry",
    "StepRecord",
    "Warp",
    "refusals",
    "run",
    "step",
]
