"""The JIT: kernels of the instruction set as native SIMT code.

::

    isa.Function -> ir, planning (unrolled loops) -> analysis -> planning.choose (a Plan)
                 -> control.assemble: versions -> regions -> nodes -> families -> LLVM text
                 -> target.llvm (short pass list, object code) -> objects: cache, load

Packages, each of which imports only from those below it (ADR 113)::

    objects                 compile a kernel; cache, check and load its object
    control                 the loop over blocks; regions, loops and nodes under masks
    families                one module per family: the lowering of its instructions to LLVM
    emission                the emitter that families use
    memory                  loads, stores and updates by the shape of their address
    values                  the LLVM values that hold an SSA value; launch constants
    planning, arithmetic    the choice of a plan; operations as LLVM text
    progress                the lane groups that may wait as one
    analysis                the shape of every value, and its demanded lanes
    numbers                 constant folding, known bits, trip counts
    shapes                  vectors and groups, the lattice of shapes
    ir, text, target        SSA form; LLVM text; LLVM and the processor

The unit of code generation is a vector of ``Plan.width`` consecutive threads, its lanes;
``Plan.vectors`` of them form a group and are interleaved in one function, as LLVM's loop vectorizer
interleaves iterations (a variable ``part`` is the number of a vector in its group). ``analysis``
assigns each value the simplest shape over the lanes (``shapes``); control flow becomes masks
(``regions``). All results are bit-equal for every legal plan and equal to the interpreter's.

The entry point has the C type ``void entry(const struct launch_context *, const uint8_t *params,
uint64_t block_begin, uint64_t block_end, struct thread_state *)``; ``values.launch`` has the
offsets that generated code reads. Blocks are linear indices, x fastest. For a kernel whose threads
wait for each other (``wait_points``) it is ``void entry(const struct launch_context *, const
uint8_t *params, uint64_t group, struct thread_state *)``, called for each group of lanes on a stack
of its own.

Importing this package imports neither LLVM nor numpy.
"""

from vgpu_sim.exec.errors import (
    CodeGenerationError,
    ExecutionError,
    PlanError,
    UnsupportedError,
)
from vgpu_sim.exec.jit.control.assemble import ENTRY
from vgpu_sim.exec.jit.ir.support import refusals
from vgpu_sim.exec.jit.objects.compiler import SIMPLEST, Compiler, Loaded, content_key, key_of
from vgpu_sim.exec.jit.objects.native_code import NativeCode
from vgpu_sim.exec.jit.planning.choose import legal_plans
from vgpu_sim.exec.jit.planning.explain import explain
from vgpu_sim.exec.jit.planning.plan import Plan

__all__ = [
    "ENTRY",
    "SIMPLEST",
    "CodeGenerationError",
    "Compiler",
    "ExecutionError",
    "Loaded",
    "NativeCode",
    "Plan",
    "PlanError",
    "UnsupportedError",
    "content_key",
    "explain",
    "key_of",
    "legal_plans",
    "refusals",
]
