"""The JIT: kernels of the instruction set as native SIMT code.

::

    isa.Function -> ir, planning (loops written out) -> analysis -> planning.choose (a Plan)
                 -> control.assemble: versions -> regions -> nodes -> families -> LLVM text
                 -> target.llvm (short pass list, object code) -> objects: cache, load

Rooms, each of which imports only from those below it (docs/adr/0113-the-jit-has-rooms.md)::

    objects                 compile a kernel; keep, check and load its object
    control                 the loop over blocks; regions, loops and nodes under masks
    families                one module a family: LLVM text of its instructions
    emission                what families write with
    memory                  loads, stores and updates by the shape of their address
    values                  how an SSA value is held; what the launch provides
    planning, arithmetic    the choice of a plan; operations as LLVM text
    progress                which lane groups may wait as one
    analysis                a shape for every value, the lanes that are read of it
    numbers                 folding, known numbers, trips
    shapes                  strips and groups, the lattice of shapes
    ir, text, target        SSA form; LLVM text; LLVM and the processor

The code-generation unit is a strip of ``Plan.width`` neighbouring threads; ``Plan.strips`` of them
are interleaved in one function. ``analysis`` keeps every value as simple as it is over the lanes
(``shapes``); control flow becomes masks (``regions``). All results are bit-equal for every legal
plan and equal to the interpreter's.

The entry point has the C type ``void entry(const struct launch_context *, const uint8_t *params,
uint64_t block_begin, uint64_t block_end, struct thread_state *)``; ``values.launch`` has the
offsets that generated code reads. Blocks are linear indices, x fastest. Of a kernel whose threads
wait for each other (``stops``) it is ``void entry(const struct launch_context *, const uint8_t
*params, uint64_t group, struct thread_state *)``, called for each group of lanes on a stack of its
own.

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
