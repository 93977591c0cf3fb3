"""The JIT: kernels of the instruction set as native SIMT code.

::

    isa.Function -> ssa -> analysis (shapes, divergence) -> choose (a Plan)
                 -> assemble: versions -> regions -> nodes -> families -> LLVM text
                 -> llvm (short pass list, object code) -> cache, load

The code-generation unit is a strip of ``Plan.width`` neighbouring threads; ``Plan.strips`` of them
are interleaved in one function. ``analysis`` keeps every value as simple as it is over the lanes
(``shapes``); control flow becomes masks (``regions``). All results are bit-equal for every legal
plan and equal to the interpreter's.

The entry point has the C type ``void entry(const struct launch_context *, const uint8_t *params,
uint64_t block_begin, uint64_t block_end, struct thread_state *)``; ``launch`` has the offsets that
generated code reads. Blocks are linear indices, x fastest. Of a kernel whose threads wait for each
other (``stops``) it is ``void entry(const struct launch_context *, const uint8_t *params, uint64_t
group, struct thread_state *)``, called for each group of lanes on a stack of its own.

Importing this package imports neither LLVM nor numpy.
"""

from vgpu_sim.exec.errors import (
    CodeGenerationError,
    ExecutionError,
    PlanError,
    UnsupportedError,
)
from vgpu_sim.exec.jit.ir.support import refusals
from vgpu_sim.exec.jit.objects.compiler import Compiler, Loaded
from vgpu_sim.exec.jit.objects.native_code import NativeCode
from vgpu_sim.exec.jit.planning.choose import legal_plans
from vgpu_sim.exec.jit.planning.explain import explain
from vgpu_sim.exec.jit.planning.plan import Plan

__all__ = [
    "CodeGenerationError",
    "Compiler",
    "ExecutionError",
    "Loaded",
    "NativeCode",
    "Plan",
    "PlanError",
    "UnsupportedError",
    "explain",
    "legal_plans",
    "refusals",
]
