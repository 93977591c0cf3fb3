"""The JIT: kernels of the instruction set as native SIMT code.

::

    isa.Function -> ssa -> analysis (elements, divergence) -> choose (a Plan)
                 -> assemble: versions -> regions -> nodes, memory, lower_* -> LLVM text
                 -> llvm (short pass list, object code) -> cache, load

The code-generation unit is a chunk of ``Plan.width`` neighbouring threads; ``Plan.chunks`` of them
are interleaved in one function. ``analysis`` keeps every value as simple as it is over the lanes
(``elements``); control flow becomes masks (``regions``). All results are bit-equal for every legal
plan and equal to the interpreter's.

The entry point has the C type ``void entry(const struct launch_context *, const uint8_t *params,
uint64_t block_begin, uint64_t block_end, struct thread_state *)``; ``launch`` has the offsets that
generated code reads. Blocks are linear indices, x fastest.

Where later waves go: barriers end a region (``regions``) with the group's live values in the frame
whose address ``thread_state`` holds, and make ``assemble``'s group loop a resumable one; shuffles
are one more lowering over all chunks of a warp and restrict ``plan.legal_plans``; calls are
internal functions as the versions are; shared and local memory are two more bases in ``memory``.

Importing this package imports neither LLVM nor numpy.
"""

from vgpu_sim.exec.jit.compiler import Compiler, Loaded
from vgpu_sim.exec.jit.errors import (
    CodeGenerationError,
    JitError,
    PlanError,
    UnsupportedError,
)
from vgpu_sim.exec.jit.native_code import NativeCode
from vgpu_sim.exec.jit.plan import Plan, legal_plans
from vgpu_sim.exec.jit.support import refusals

__all__ = [
    "CodeGenerationError",
    "Compiler",
    "JitError",
    "Loaded",
    "NativeCode",
    "Plan",
    "PlanError",
    "UnsupportedError",
    "legal_plans",
    "refusals",
]
