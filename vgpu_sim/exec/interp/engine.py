"""The loop that fetches a word, applies its guard and hands it to its family."""

import numpy as np

from vgpu_sim.exec.errors import Block, KernelError
from vgpu_sim.exec.interp import (
    compare,
    control,
    convert,
    float as float_family,
    integer,
    memory,
    move,
)
from vgpu_sim.exec.interp.address_space import Memory
from vgpu_sim.exec.interp.state import InterpretedLaunch, StepRecord, Warp
from vgpu_sim.isa import Function, Module

SEMANTICS = {
    **control.SEMANTICS,
    **move.SEMANTICS,
    **integer.SEMANTICS,
    **float_family.SEMANTICS,
    **compare.SEMANTICS,
    **convert.SEMANTICS,
    **memory.SEMANTICS,
}

# Wide enough that numpy's call overhead vanishes, small enough that a kernel with a thousand
# registers stays within some tens of megabytes.
_RUN_LANES = 16384
_RUN_REGISTER_CELLS = 1 << 22


def step(warp: Warp) -> StepRecord:
    """Execute one word for the lanes on top of the stack.

    Raises:
        AddressFault, Trap: as ``run``; registers and pc are then as they were before the word.
        ValueError: when the warp is done.
    """
    if warp.done:
        raise ValueError("the warp is done")
    top = warp.stack[-1]
    word = top.pc
    instruction = warp.launch.function.code[word]
    mask = top.mask
    if instruction.guard is not None:
        allowed = warp.predicates[instruction.guard.predicate.index]
        mask = mask & ~allowed if instruction.guard.negated else mask & allowed
    top.pc = word + 1
    try:
        with np.errstate(all="ignore"):
            addresses = SEMANTICS[instruction.op](warp, instruction, mask)
    except KernelError:
        top.pc = word
        raise
    warp.settle()
    return StepRecord(word, mask, addresses)


def run(
    module: Module,
    function: Function,
    grid: Block,
    block: Block,
    parameters: bytes,
    memory: Memory,
    segment_base: int = 0,
) -> None:
    """Run a kernel to its end.

    Warps start in order of their block's index (x fastest); nothing is promised about the order of
    their accesses. ``segment_base`` is the address of the module's variables.

    Raises:
        AddressFault: a lane touched memory that is not there; earlier stores have happened.
        Trap: a lane executed TRAP.
        UnsupportedError, ValueError: see ``InterpretedLaunch``; nothing was executed.
    """
    launch = InterpretedLaunch(module, function, grid, block, parameters, memory, segment_base)
    lanes = min(_RUN_LANES, _RUN_REGISTER_CELLS // max(1, len(function.register_bits)))
    for warp in launch.warps(max(1, lanes // 32)):
        while not warp.done:
            step(warp)
