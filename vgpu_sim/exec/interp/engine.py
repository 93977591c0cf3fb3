"""Execution of launches: in wide warps if threads do not interact, else block by block."""

from collections.abc import Callable

import numpy as np

from vgpu_sim.exec.errors import Block, KernelError
from vgpu_sim.exec.interp.address_space import Memory
from vgpu_sim.exec.interp.cta import ResidentBlocks
from vgpu_sim.exec.interp.families import control
from vgpu_sim.exec.interp.launch import InterpretedLaunch, Surroundings
from vgpu_sim.exec.interp.numbers.bits import WARP_LANES
from vgpu_sim.exec.interp.semantics import SEMANTICS
from vgpu_sim.exec.interp.state import StepRecord, Warp
from vgpu_sim.isa import EFFECTS, Function, Instruction, Module, Op, polls

# Wide enough to amortise numpy's call overhead, small enough that a kernel with a thousand
# registers stays within some tens of megabytes.
_RUN_LANES = 16384
_RUN_REGISTER_CELLS = 1 << 22

# If no block has ended for this many rounds, another set of blocks becomes resident: the present
# ones may wait for a later block.
_PATIENCE_ROUNDS = 20_000
_MAX_REGISTER_CELLS = 1 << 25
_MAX_SHARED_BYTES = 1 << 26
_RUN_LOCAL_BYTES = 1 << 26
_SLOTS_OF_CANCELLERS = 4


def step(warp: Warp) -> StepRecord:
    """Execute one instruction for the lanes of the top entry of the warp's reconvergence stack.

    Raises:
        AddressFault, Trap: as ``run``; registers and pc are unchanged.
        ValueError: the warp is done, or is at an instruction at which lanes wait for others.
    """
    if warp.done:
        raise ValueError("the warp has ended and cannot execute anything")
    top = warp.stack[-1]
    word = top.pc
    instruction = warp.launch.function.code[word]
    on_stack, semantics = control.ON_STACK.get(instruction.op), SEMANTICS.get(instruction.op)
    mask = top.mask
    if instruction.guard is not None:
        allowed = warp.predicates[instruction.guard.predicate.index]
        mask = mask & ~allowed if instruction.guard.negated else mask & allowed
    warp.word = word
    top.pc = word + 1
    addresses = None
    try:
        if semantics is not None:
            with np.errstate(all="ignore"):
                addresses = semantics(warp, instruction, mask)
        elif on_stack is not None:
            on_stack(warp, instruction, mask)
        else:
            raise ValueError("one warp alone cannot wait for other warps: run the whole launch")
    except (KernelError, ValueError):
        top.pc = word
        raise
    warp.reconverge()
    return StepRecord(word, mask, addresses)


def run(
    module: Module,
    function: Function,
    grid: Block,
    block: Block,
    parameters: bytes,
    memory: Memory,
    segment_base: int = 0,
    dynamic_shared_bytes: int = 0,
    surroundings: Surroundings | None = None,
    pause: Callable[[], None] = lambda: None,
    cluster: Block | None = None,
) -> None:
    """Run a kernel to its end.

    ``pause`` is called repeatedly between instructions: it may run other launches.

    ``cluster`` is the number of a cluster's blocks in x, y and z; without it, the kernel's
    directive states it, or each block is a cluster.

    Blocks start in the order of their index (x fastest), those of a cluster together. Only barriers
    order the memory accesses of threads. ``segment_base`` is the address of the module's variables.

    Raises:
        AddressFault: a lane accessed memory that does not exist; earlier stores have happened.
        BarrierFault: threads misused a barrier, or all wait at barriers that cannot complete.
        Trap: a lane executed TRAP.
        UnsupportedError, ValueError: see ``InterpretedLaunch``; nothing was executed.
    """
    launch = InterpretedLaunch(
        module,
        function,
        grid,
        block,
        parameters,
        memory,
        segment_base,
        dynamic_shared_bytes,
        surroundings or Surroundings(),
        cluster,
    )
    launch.place_parameters()
    lanes = min(
        _RUN_LANES,
        _RUN_REGISTER_CELLS // max(1, len(function.register_bits)),
        _RUN_LOCAL_BYTES // max(1, launch.local_bytes),
    )
    if _meets(launch):
        _run_blocks(launch, max(1, lanes // (launch.warps_per_block * WARP_LANES)), pause)
        return
    count = max(1, lanes // WARP_LANES)
    for first in range(0, launch.warp_count, count):
        warp = Warp(launch, first, min(count, launch.warp_count - first))
        while not warp.done:
            step(warp)
            pause()


def _meets(launch: InterpretedLaunch) -> bool:
    """Return whether threads may wait for each other, or have shared memory."""
    return launch.mapped_bytes > 0 or any(map(_waits, launch.function.code))


def _waits(instruction: Instruction) -> bool:
    effects = EFFECTS[instruction.op]
    waits = effects.stops or effects.rests or effects.collective
    return waits or instruction.volatile or polls(instruction)


def _run_blocks(launch: InterpretedLaunch, slots: int, pause: Callable[[], None]) -> None:
    blocks, together = launch.block_order, launch.cluster_blocks
    slots = min(slots, launch.block_count)
    slots = max(1, min(slots, _MAX_SHARED_BYTES // max(1, launch.mapped_bytes)))
    if any(instruction.op is Op.CANCEL for instruction in launch.function.code):
        slots = min(slots, _SLOTS_OF_CANCELLERS)  # so that there is something to cancel
    slots = max(together, slots - slots % together)
    cells = slots * launch.warps_per_block * WARP_LANES * len(launch.function.register_bits)
    group_limit = min(
        _MAX_REGISTER_CELLS // max(1, cells),
        _MAX_SHARED_BYTES // max(1, slots * launch.mapped_bytes),
        4
        * _RUN_LOCAL_BYTES
        // max(1, slots * launch.warps_per_block * WARP_LANES)
        // max(1, launch.local_bytes),
    )
    resident = [ResidentBlocks(launch, blocks, slots)]
    patience = _PATIENCE_ROUNDS
    with np.errstate(all="ignore"):
        while resident:
            ended = sum(blocks_group.run_round() for blocks_group in resident)
            resident = [blocks_group for blocks_group in resident if not blocks_group.done]
            pause()
            patience = _PATIENCE_ROUNDS if ended else patience - 1
            if patience == 0 and len(resident) < group_limit:
                resident.append(ResidentBlocks(launch, blocks, slots))
                patience = _PATIENCE_ROUNDS
