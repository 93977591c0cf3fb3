"""Barriers, at which threads of a block wait for each other."""

from typing import Final

from vgpu_sim.isa.effects import Effects
from vgpu_sim.isa.layout import choice, flag
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import OpSpec, Role
from vgpu_sim.isa.types import DataType, Reduction

BARRIERS: Final = 16
"""The number of barriers of a block; they are numbered from 0."""
WARPGROUP_BARRIER: Final = BARRIERS
"""The number by which BAR_SYNC names the barrier of the executing warp's warpgroup."""
WARPGROUP_WARPS: Final = 4
CLUSTER_OPS: Final = (Op.CLUSTER_ARRIVE, Op.CLUSTER_WAIT)

_STOP = Effects(orders=True, stops=True)
_ALIGNED = flag("uniform", "UNI", 24)

ROWS: Final = (
    OpSpec(
        Op.BAR_SYNC,
        "arrive at a barrier and wait for it",
        "The lanes arrive at barrier a of their block and wait until it completes. First the lanes"
        " of a warp that have not ended wait for each other: when all of them have arrived, the"
        " warp has arrived, and counts as 32 threads however many lanes it has. With b = 0 the"
        " barrier completes when every warp of the block has arrived or ended (so lanes and warps"
        " that end count as arrived); with another b, when b threads have arrived, and threads that"
        " ended do not count. A barrier that completes is reset. All stores of the threads before"
        " they arrived are visible to all of them after it completes. a is below 16, b a multiple"
        " of 32, both the same in all lanes of a warp, and b the same in all warps at the barrier;"
        " a = 16 with b = 0 is the barrier of the warp's warpgroup: it completes when each of the"
        " block's warps 4g to 4g + 3, of which it is one, has arrived or ended (the last warpgroup"
        " may have fewer warps);"
        " otherwise the context ends with CUDA_ERROR_LAUNCH_FAILED (719). The same happens when"
        " every thread of a block waits at barriers that no thread can complete any more, where"
        " hardware would hang. `UNI` is the source's assertion (`.aligned`) that the lanes of a"
        " warp execute the barrier together; it has no effect.",
        "bar.sync, barrier.sync",
        srcs=(Role.COUNT, Role.COUNT),
        modifiers=(_ALIGNED,),
        effects=_STOP,
    ),
    OpSpec(
        Op.BAR_ARRIVE,
        "arrive at a barrier",
        "As BAR_SYNC, but the lanes wait only for the lanes of their own warp and continue when the"
        " warp has arrived. b is not 0.",
        "bar.arrive, barrier.arrive",
        srcs=(Role.COUNT, Role.COUNT),
        modifiers=(_ALIGNED,),
        effects=_STOP,
    ),
    OpSpec(
        Op.BAR_RED,
        "reduce over the threads at a barrier",
        "As BAR_SYNC; when the barrier completes, each thread that waited for it gets the reduction"
        " of c over all threads that executed BAR_RED there: how many are true (POPC), whether all"
        " are (AND), whether one is (OR). Threads that ended, or only arrived, do not contribute."
        " All threads at the barrier use the same reduction; otherwise the context ends with"
        " CUDA_ERROR_LAUNCH_FAILED (719).",
        "bar.red, barrier.red",
        (DataType.U32, DataType.PRED),
        (Role.VALUE,),
        (Role.COUNT, Role.COUNT, Role.PREDICATE),
        (
            choice(
                "reduction",
                Reduction,
                25,
                3,
                {
                    Reduction.POPC: (DataType.U32,),
                    Reduction.AND: (DataType.PRED,),
                    Reduction.OR: (DataType.PRED,),
                },
            ),
            _ALIGNED,
        ),
        effects=_STOP,
    ),
    OpSpec(
        Op.CLUSTER_ARRIVE,
        "arrive at the cluster's barrier",
        "The lane arrives at the barrier of its cluster and continues. The barrier completes when"
        " every lane of the cluster that has not ended has arrived; it is then reset. A lane that"
        " arrives again before it has waited ends the context with CUDA_ERROR_LAUNCH_FAILED (719)."
        " `UNI` is as for BAR_SYNC.",
        "barrier.cluster.arrive",
        modifiers=(_ALIGNED,),
        effects=_STOP,
    ),
    OpSpec(
        Op.CLUSTER_WAIT,
        "wait for the cluster's barrier",
        "The lane waits until the barrier at which it has arrived completes. All stores of the"
        " cluster's lanes before they arrived are then visible to it. A lane that has not arrived"
        " since it last waited ends the context with CUDA_ERROR_LAUNCH_FAILED (719), and so does a"
        " cluster whose lanes all wait at barriers that no lane can complete any more. `UNI` is as"
        " for BAR_SYNC.",
        "barrier.cluster.wait",
        modifiers=(_ALIGNED,),
        effects=_STOP,
    ),
    OpSpec(
        Op.CANCEL,
        "cancel the launch of a cluster that has not started",
        "d = 1 + the index in the grid, x fastest, of the first block of a cluster of this launch"
        " that has not started, and that never starts then; 0 if all have started. A block without"
        " a cluster is one of its own. Lanes that execute the instruction together do so one after"
        " the other. Lanes may pause as at NANOSLEEP.",
        "clusterlaunchcontrol.try_cancel",
        (DataType.U64,),
        (Role.VALUE,),
        effects=Effects(orders=True, rests=True),
    ),
)
"""PTX ISA 9.7.15.1, "Parallel Synchronization and Communication Instructions: bar, barrier": from
sm_70 on a barrier is for threads, waits for "all non-exited threads" of the warp, and counts whole
warps."""
