"""A litmus test as a PTX kernel that performs it many times, each time on locations of its own.

The threads meet by a counter before every few runs, and wait for a random number of steps before
each. Threads of the scope ``cta`` are in different warps of a block, those of ``cluster`` in blocks
of a cluster, and others in blocks of a grid.
"""

from benchmarks.litmus.shapes import ACQUIRE, FENCE, FENCE_SC, WEAK, Access, Shape, Store

CELL_BYTES, Y_OFFSET = 256, 128  # of a run; x and y are in lines of their own
RESULT_BYTES = 16
_MOST_STEPS = 31  # a mask
_TOGETHER = 2  # runs between two meetings
# A CPU thread that runs a block which waits starts another one. Until the first block has made
# these steps it does not wait, and another CPU thread has time to start the next.
_FIRST_STEPS = 1 << 20


def launch_shape(shape: Shape, scope: str) -> tuple[int, int]:
    """Return the blocks, and the threads of each."""
    threads = len(shape.threads)
    return (1, 32 * threads) if scope == "cta" else (threads, 1)


def source(shape: Shape, strength: str, scope: str) -> str:
    """Return PTX with the kernel ``k``: cells, results, the counter, the runs, a seed."""
    threads = len(shape.threads)
    cluster = f".explicitcluster .reqnctapercluster {threads}, 1, 1" if scope == "cluster" else ""
    role = (
        "mov.u32 %t, %tid.x; and.b32 %w, %t, 31; setp.ne.u32 %p, %w, 0; @%p ret;"
        "shr.u32 %role, %t, 5;"
        if scope == "cta"
        else "mov.u32 %role, %ctaid.x;"
    )
    parts = "".join(
        f"setp.ne.u32 %p, %role, {n}; @%p bra AFTER{n};\n{_thread(accesses, strength, scope)}"
        f"AFTER{n}:\n"
        for n, accesses in enumerate(shape.threads)
    )
    return f""".version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 pc, .param .u64 pr, .param .u64 ps, .param .u32 pn, .param .u32 pseed)
{cluster}
{{
  .reg .b32 %role, %t, %w, %n, %i, %h, %goal, %v<4>;
  .reg .b64 %cell, %result, %sync;
  .reg .pred %p;
  {role}
  ld.param.u64 %cell, [pc]; ld.param.u64 %result, [pr]; ld.param.u64 %sync, [ps];
  ld.param.u32 %n, [pn]; ld.param.u32 %h, [pseed];
  mad.lo.u32 %h, %role, 0x9e3779b9, %h; or.b32 %h, %h, 1;
  mov.u32 %i, 0; mov.u32 %goal, 0; mov.u32 %w, {_FIRST_STEPS};
BEGIN:
  ld.volatile.global.u32 %t, [%sync+128];
  sub.u32 %w, %w, 1; setp.ne.u32 %p, %w, 0; @%p bra BEGIN;
RUN:
  and.b32 %t, %i, {_TOGETHER - 1}; setp.ne.u32 %p, %t, 0; @%p bra APART;
  add.u32 %goal, %goal, {threads};
  red.relaxed.gpu.global.add.u32 [%sync], 1;
MEET:
  ld.relaxed.gpu.global.u32 %t, [%sync];
  setp.lt.u32 %p, %t, %goal; @%p bra MEET;
APART:
  shl.b32 %t, %h, 13; xor.b32 %h, %h, %t; shr.u32 %t, %h, 17; xor.b32 %h, %h, %t;
  shl.b32 %t, %h, 5; xor.b32 %h, %h, %t;
  and.b32 %w, %h, {_MOST_STEPS};
STEP:
  setp.eq.u32 %p, %w, 0; @%p bra GO;
  ld.volatile.global.u32 %t, [%sync+128];
  sub.u32 %w, %w, 1; bra STEP;
GO:
{parts}
  add.u64 %cell, %cell, {CELL_BYTES}; add.u64 %result, %result, {RESULT_BYTES};
  add.u32 %i, %i, 1;
  setp.lt.u32 %p, %i, %n; @%p bra RUN;
  ret;
}}
"""


def _thread(accesses: tuple[Access, ...], strength: str, scope: str) -> str:
    between = f"  {strength}.{scope};\n" if strength in (FENCE, FENCE_SC) else ""
    # Results are stored after all accesses, which therefore stay next to each other.
    stores = "".join(
        f"  st.global.u32 [%result+{4 * access.result}], %v{access.result};\n"
        for access in accesses
        if not isinstance(access, Store)
    )
    return between.join(_access(access, strength, scope) for access in accesses) + stores


def _access(access: Access, strength: str, scope: str) -> str:
    place = f"[%cell+{Y_OFFSET if access.location == 'y' else 0}]"
    if isinstance(access, Store):
        kind = ("release" if strength == ACQUIRE else "relaxed") + f".{scope}"
        word = "st.global.u32" if strength == WEAK else f"st.{kind}.global.u32"
        return f"  {word} {place}, {access.value};\n"
    kind = ("acquire" if strength == ACQUIRE else "relaxed") + f".{scope}"
    word = "ld.global.u32" if strength == WEAK else f"ld.{kind}.global.u32"
    return f"  {word} %v{access.result}, {place};\n"
