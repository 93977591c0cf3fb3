"""Control flow: which instruction a lane executes next, if any."""

from collections.abc import Iterator
from typing import Final

from vgpu_sim.isa.effects import Effects
from vgpu_sim.isa.instruction import Instruction
from vgpu_sim.isa.layout import choice, flag, number
from vgpu_sim.isa.module import Function
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import OpSpec, Role
from vgpu_sim.isa.types import TrapCause

MAX_REST_NS: Final = 1_000_000  # PTX ISA, "nanosleep"


def _branch_errors(instruction: Instruction, function: Function) -> Iterator[str]:
    target = instruction.target
    if target is None or not 0 <= target < len(function.code):
        yield f"target {target} is outside of {len(function.code)} words"


ROWS: Final = (
    OpSpec(Op.NOP, "no operation", "Nothing.", ""),
    OpSpec(
        Op.BRA,
        "branch",
        "Lanes in the guard continue at `target`, the others at the next instruction. If both sets"
        " are non-empty the warp diverges: the sets run alternately, and reconverge at the"
        " branch's immediate post-dominator. `UNI` is the source's assertion that the lanes"
        " agree; it has no effect.",
        "bra",
        modifiers=(flag("uniform", "UNI", 24), number("target", 96, 32, signed=False)),
        effects=Effects(jumps=True),
        check=_branch_errors,
    ),
    OpSpec(
        Op.RET, "return", "The lanes in the guard end.", "ret, exit", effects=Effects(ends=True)
    ),
    OpSpec(
        Op.TRAP,
        "trap",
        "If a lane is in the guard, the context ends with CUDA_ERROR_LAUNCH_FAILED (719); for"
        " cause STACK with CUDA_ERROR_HARDWARE_STACK_ERROR (714), for cause FUNCTION with"
        " CUDA_ERROR_INVALID_PC (718), for cause ASSERTION with CUDA_ERROR_ASSERT (710).",
        "trap, brkpt",
        modifiers=(choice("cause", TrapCause, 24, 8),),
        effects=Effects(ends=True, traps=True),
    ),
    OpSpec(
        Op.NANOSLEEP,
        "sleep",
        "The lanes in the guard sleep for a time between 0 and 2 a nanoseconds, at most 2 ms,"
        " and all"
        " other lanes that can run do so before they continue. The executor chooses the time: the"
        " interpreter gives all other warps a time slice; native code sleeps for the shortest time"
        " that a lane of the group requests.",
        "nanosleep",
        srcs=(Role.COUNT,),
        effects=Effects(rests=True),
    ),
)
