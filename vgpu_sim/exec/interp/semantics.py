"""The semantics of every opcode, one module per family."""

from collections.abc import Callable

from vgpu_sim.exec.interp.address_space import Words
from vgpu_sim.exec.interp.families import (
    atomic,
    bitwise,
    compare,
    control,
    convert,
    copy,
    float as float_family,
    integer,
    memory,
    move,
    stack,
    sync,
    tensor,
    video,
    warp,
)
from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers.bits import Mask
from vgpu_sim.isa import Instruction, Op

Semantics = Callable[[Lanes, Instruction, Mask], Words | None]

SEMANTICS: dict[Op, Semantics] = {
    **control.SEMANTICS,
    **move.SEMANTICS,
    **integer.SEMANTICS,
    **float_family.SEMANTICS,
    **compare.SEMANTICS,
    **convert.SEMANTICS,
    **memory.SEMANTICS,
    **bitwise.SEMANTICS,
    **warp.SEMANTICS,
    **atomic.SEMANTICS,
    **video.SEMANTICS,
    **copy.SEMANTICS,
    **stack.SEMANTICS,
    **tensor.SEMANTICS,
    **sync.SEMANTICS,
}
"""The function that executes each opcode, for all lanes of a mask.

Branches and ends are missing, which change the control flow (``control``, ``paths``), and so are
the opcodes at which lanes wait (``sync``, ``warp``). A function returns the addresses of an
access: see ``StepRecord``.
"""
