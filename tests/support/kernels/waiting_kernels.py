"""PTX kernels whose threads poll memory for other threads' stores.

Parameters begin with addresses. ``%r0`` is the thread index in its block, ``%r1`` the block index,
``%r2`` the threads of a block, ``%r3`` the thread index in the grid, ``%r4`` the number of blocks.
"""

from support.execution.interpreted_ptx import compile_verified
from vgpu_sim.isa import Module

_PRELUDE = """
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mad.lo.u32 %r3, %r1, %r2, %r0;
    mov.u32 %r4, %nctaid.x;
"""


def kernel(body: str, addresses: int) -> Module:
    """Compile a kernel ``k``; d1 to dn are its addresses."""
    parameters = ", ".join(f".param .u64 a{n}" for n in range(1, addresses + 1))
    loads = "\n".join(f"    ld.param.u64 %d{n}, [a{n}];" for n in range(1, addresses + 1))
    return compile_verified(
        ".version 8.5\n.target sm_90\n.address_size 64\n"
        f".visible .entry k({parameters})\n{{\n    .reg .pred %p<16>;\n    .reg .b32 %r<64>;\n"
        f"    .reg .b64 %d<32>;\n    .shared .align 8 .b8 tile[4096];\n"
        f"{_PRELUDE}{loads}\n{body}\n    ret;\n}}\n"
    )


def lanes() -> Module:
    """Even threads wait for a flag that an odd thread of their own warp sets."""
    return kernel(
        """
    and.b32 %r5, %r0, 1;
    setp.ne.u32 %p0, %r5, 0;
    mul.wide.u32 %d3, %r1, 4;
    add.u64 %d3, %d1, %d3;
    @%p0 bra SET;
WAIT:
    ld.volatile.global.u32 %r6, [%d3];
    setp.eq.u32 %p1, %r6, 0;
    @%p1 bra WAIT;
    bra DONE;
SET:
    mov.u32 %r6, 5;
    st.volatile.global.u32 [%d3], %r6;
DONE:
    mul.wide.u32 %d4, %r3, 4;
    add.u64 %d4, %d2, %d4;
    st.global.u32 [%d4], %r6;
""",
        2,
    )


LOCK = """
TRY:
    atom.cas.acquire.gpu.global.b32 %r6, [%d1], 0, 1;
    setp.ne.u32 %p1, %r6, 0;
    @%p1 bra TRY;
    atom.exch.release.gpu.global.b32 %r6, [%d1], 0;
"""
HALVES = """
    and.b32 %r6, %r0, 1;
    setp.ne.u32 %p1, %r6, 0;
    @%p1 bra ODD;
    shfl.sync.bfly.b32 %r9, %r0, 2, 31, 0x55555555;
    bra BOTH;
ODD:
    shfl.sync.bfly.b32 %r9, %r0, 4, 31, 0xaaaaaaaa;
BOTH:
"""


def meeting_kernel(before: str, until: int) -> Module:
    """Threads below ``until`` diverge, meet in their warp, and store the mask of active lanes."""
    return kernel(
        f"""
    setp.ge.u32 %p0, %r0, {until};
    @%p0 bra END;
    {before}
    bar.warp.sync 0xffffffff;
    add.u32 %r7, %r3, 1;
    activemask.b32 %r5;
    mul.wide.u32 %d4, %r3, 4;
    add.u64 %d4, %d2, %d4;
    st.global.u32 [%d4], %r5;
END:
""",
        2,
    )


def strides(until: int, step: int) -> Module:
    """Threads store, for each of their numbers below ``until``, the lanes that are active and the
    sum of those lanes' numbers, by shuffles among them.
    """
    adds = "".join(
        f"""
    shfl.sync.up.b32 %r6|%p1, %r7, {distance}, 0, %r5;
    @%p1 add.u32 %r7, %r7, %r6;"""
        for distance in (1, 2, 4, 8, 16)
    )
    return kernel(
        f"""
    mov.u32 %r8, %r3;
NEXT:
    setp.ge.u32 %p0, %r8, {until};
    @%p0 bra END;
    activemask.b32 %r5;
    mov.u32 %r7, %r8;
    {adds}
    bar.sync 0;
    mul.wide.u32 %d4, %r8, 8;
    add.u64 %d4, %d2, %d4;
    st.global.v2.u32 [%d4], {{%r5, %r7}};
    add.u32 %r8, %r8, {step};
    bra NEXT;
END:
""",
        2,
    )


def met_elsewhere() -> Module:
    """Even and odd threads meet at two barrier instructions; then odd ones await an even store."""
    return kernel(
        """
    and.b32 %r6, %r0, 1;
    setp.ne.u32 %p1, %r6, 0;
    @%p1 bra ODD;
    bar.warp.sync -1;
    activemask.b32 %r5;
    st.volatile.global.u32 [%d1], 7;
    bra END;
ODD:
    bar.warp.sync -1;
WAIT:
    ld.volatile.global.u32 %r5, [%d1];
    setp.eq.u32 %p2, %r5, 0;
    @%p2 bra WAIT;
END:
    mov.u32 %r7, %lanemask_eq;
    and.b32 %r7, %r7, %r5;
    mul.wide.u32 %d4, %r3, 4;
    add.u64 %d4, %d2, %d4;
    st.global.u32 [%d4], %r7;
""",
        2,
    )


AWAITED = (
    "st.volatile.global.u32 [%d1], 7;",
    """
WAIT:
    ld.volatile.global.u32 %r6, [%d1];
    setp.eq.u32 %p2, %r6, 0;
    @%p2 bra WAIT;
""",
)
BARRIERS = "bar.sync 0;", "bar.sync 0;"


def waits_elsewhere(wait: tuple[str, str]) -> Module:
    """Lanes below 7 read ACTIVEMASK, and then do what the others, which end there, wait for."""
    after, others = wait
    return kernel(
        f"""
    setp.lt.u32 %p0, %r0, 7;
    @%p0 bra READ;
    bra OTHERS;
READ:
    activemask.b32 %r5;
    bar.warp.sync %r5;
    mov.u32 %r7, %lanemask_eq;
    and.b32 %r7, %r7, %r5;
    mul.wide.u32 %d4, %r3, 4;
    add.u64 %d4, %d2, %d4;
    st.global.u32 [%d4], %r7;
    {after}
    bra END;
OTHERS:
    {others}
END:
""",
        2,
    )


def company(behind: str, until: int) -> Module:
    """Threads below ``until`` read ACTIVEMASK, then again one by one while they hold a lock.

    Each stores the first mask, and whether the second one contains the thread itself.
    """
    return kernel(
        f"""
    setp.ge.u32 %p0, %r0, {until};
    @%p0 bra END;
    {behind}
    activemask.b32 %r5;
TRY:
    atom.cas.acquire.gpu.global.b32 %r6, [%d1], 0, 1;
    setp.ne.u32 %p1, %r6, 0;
    @%p1 bra TRY;
    activemask.b32 %r7;
    atom.exch.release.gpu.global.b32 %r6, [%d1], 0;
    mov.u32 %r8, %lanemask_eq;
    and.b32 %r7, %r7, %r8;
    setp.eq.u32 %p2, %r7, %r8;
    selp.u32 %r7, 1, 0, %p2;
    mul.wide.u32 %d4, %r3, 8;
    add.u64 %d4, %d2, %d4;
    st.global.v2.u32 [%d4], {{%r5, %r7}};
END:
""",
        2,
    )


def chain(backward: bool = False) -> Module:
    """out[i] = in[0] + ... + in[i]: each thread waits for the previous one in the whole grid.

    ``backward``: for the next one, so that all others need the last block. a1: flags, a2: sums,
    a3: numbers.
    """
    first = "setp.eq.u32 %p0, %r3, 0; sub.u32 %r8, %r3, 1;"
    if backward:
        first = (
            "mul.lo.u32 %r9, %r4, %r2; sub.u32 %r9, %r9, 1; setp.eq.u32 %p0, %r3, %r9;"
            " add.u32 %r8, %r3, 1;"
        )
    return kernel(
        f"""
    {first}
    mul.wide.u32 %d4, %r3, 4;
    add.u64 %d5, %d1, %d4;
    add.u64 %d6, %d2, %d4;
    add.u64 %d7, %d3, %d4;
    ld.global.u32 %r5, [%d7];
    @%p0 bra OWN;
    mul.wide.u32 %d8, %r8, 4;
    add.u64 %d9, %d1, %d8;
    add.u64 %d10, %d2, %d8;
WAIT:
    ld.volatile.global.u32 %r6, [%d9];
    setp.eq.u32 %p1, %r6, 0;
    @%p1 bra WAIT;
    ld.volatile.global.u32 %r7, [%d10];
    add.u32 %r5, %r5, %r7;
OWN:
    st.volatile.global.u32 [%d6], %r5;
    mov.u32 %r6, 1;
    st.volatile.global.u32 [%d5], %r6;
""",
        3,
    )


def look_back() -> Module:
    """Decoupled look-back: a block sums its numbers, then thread 0 searches for the preceding sum.

    a1: a status of 4 words per block (1: its own sum, 2: the prefix sum; the two sums), a2:
    prefix sums of each block, a3: numbers. Blocks are claimed in the order of their index.
    """
    return kernel(
        """
    mul.wide.u32 %d4, %r3, 4;
    add.u64 %d4, %d3, %d4;
    ld.global.u32 %r5, [%d4];
    mov.u32 %r6, tile;
    shl.b32 %r7, %r0, 2;
    add.u32 %r7, %r7, %r6;
    st.shared.u32 [%r7], %r5;
    bar.sync 0;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra JOIN;
    mov.u32 %r8, 0;
    mov.u32 %r9, 0;
ADD:
    shl.b32 %r10, %r9, 2;
    add.u32 %r10, %r10, %r6;
    ld.shared.u32 %r11, [%r10];
    add.u32 %r8, %r8, %r11;
    add.u32 %r9, %r9, 1;
    setp.lt.u32 %p1, %r9, %r2;
    @%p1 bra ADD;
    mul.wide.u32 %d5, %r1, 16;
    add.u64 %d5, %d1, %d5;
    st.volatile.global.u32 [%d5+4], %r8;
    mov.u32 %r12, 1;
    st.volatile.global.u32 [%d5], %r12;
    mov.u32 %r13, %r8;
    mov.u32 %r14, %r1;
BACK:
    setp.eq.u32 %p2, %r14, 0;
    @%p2 bra FOUND;
    sub.u32 %r14, %r14, 1;
    mul.wide.u32 %d6, %r14, 16;
    add.u64 %d6, %d1, %d6;
LOOK:
    ld.volatile.global.u32 %r15, [%d6];
    setp.eq.u32 %p3, %r15, 0;
    @%p3 bra LOOK;
    setp.eq.u32 %p4, %r15, 2;
    @%p4 bra WHOLE;
    ld.volatile.global.u32 %r16, [%d6+4];
    add.u32 %r13, %r13, %r16;
    bra BACK;
WHOLE:
    ld.volatile.global.u32 %r16, [%d6+8];
    add.u32 %r13, %r13, %r16;
FOUND:
    st.volatile.global.u32 [%d5+8], %r13;
    mov.u32 %r12, 2;
    st.volatile.global.u32 [%d5], %r12;
    st.shared.u32 [tile], %r13;
JOIN:
    bar.sync 0;
    ld.shared.u32 %r17, [tile];
    add.u32 %r17, %r17, %r0;
    mul.wide.u32 %d7, %r3, 4;
    add.u64 %d7, %d2, %d7;
    st.global.u32 [%d7], %r17;
""",
        3,
    )


def grid_barrier(phases: int) -> Module:
    """Each phase adds the values that the next thread of the grid had in the previous phase.

    Blocks synchronize in memory: thread 0 of each signals its arrival; that of block 0 waits for
    all and opens the next phase. a1: arrivals of blocks, a2: the open phase, a3: values, one
    array per phase.
    """
    return kernel(
        f"""
    mul.lo.u32 %r5, %r4, %r2;
    mul.wide.u32 %d4, %r5, 4;
    mul.wide.u32 %d5, %r3, 4;
    add.u64 %d5, %d3, %d5;
    add.u32 %r6, %r3, 1;
    rem.u32 %r6, %r6, %r5;
    mul.wide.u32 %d6, %r6, 4;
    add.u64 %d6, %d3, %d6;
    mul.wide.u32 %d7, %r1, 4;
    add.u64 %d7, %d1, %d7;
    st.volatile.global.u32 [%d5], %r3;
    mov.u32 %r7, %r3;
    mov.u32 %r8, 1;
PHASE:
    bar.sync 0;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra MET;
    st.volatile.global.u32 [%d7], %r8;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra OPEN;
    mov.u32 %r9, 0;
ALL:
    mul.wide.u32 %d8, %r9, 4;
    add.u64 %d8, %d1, %d8;
COME:
    ld.volatile.global.u32 %r10, [%d8];
    setp.lt.u32 %p2, %r10, %r8;
    @%p2 bra COME;
    add.u32 %r9, %r9, 1;
    setp.lt.u32 %p3, %r9, %r4;
    @%p3 bra ALL;
    st.volatile.global.u32 [%d2], %r8;
OPEN:
    ld.volatile.global.u32 %r11, [%d2];
    setp.lt.u32 %p4, %r11, %r8;
    @%p4 bra OPEN;
MET:
    bar.sync 0;
    ld.volatile.global.u32 %r12, [%d6];
    add.u32 %r7, %r7, %r12;
    add.u64 %d5, %d5, %d4;
    add.u64 %d6, %d6, %d4;
    st.volatile.global.u32 [%d5], %r7;
    add.u32 %r8, %r8, 1;
    setp.le.u32 %p5, %r8, {phases};
    @%p5 bra PHASE;
""",
        3,
    )


def queue(items: int) -> Module:
    """Block 0 writes numbers to a ring of 4 places, block 1 reads them; both by thread 0.

    a1: head, tail and the ring (6 words), a2: the numbers read.
    """
    return kernel(
        f"""
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra END;
    mov.u32 %r5, 0;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra TAKE;
PUT:
    ld.volatile.global.u32 %r6, [%d1+4];
    sub.u32 %r7, %r5, %r6;
    setp.ge.u32 %p2, %r7, 4;
    @%p2 bra PUT;
    and.b32 %r8, %r5, 3;
    mul.wide.u32 %d3, %r8, 4;
    add.u64 %d3, %d1, %d3;
    mad.lo.u32 %r9, %r5, 3, 7;
    st.volatile.global.u32 [%d3+8], %r9;
    add.u32 %r5, %r5, 1;
    st.volatile.global.u32 [%d1], %r5;
    setp.lt.u32 %p3, %r5, {items};
    @%p3 bra PUT;
    bra END;
TAKE:
    ld.volatile.global.u32 %r6, [%d1];
    setp.eq.u32 %p2, %r6, %r5;
    @%p2 bra TAKE;
    and.b32 %r8, %r5, 3;
    mul.wide.u32 %d3, %r8, 4;
    add.u64 %d3, %d1, %d3;
    ld.volatile.global.u32 %r9, [%d3+8];
    mul.wide.u32 %d4, %r5, 4;
    add.u64 %d4, %d2, %d4;
    st.global.u32 [%d4], %r9;
    add.u32 %r5, %r5, 1;
    st.volatile.global.u32 [%d1+4], %r5;
    setp.lt.u32 %p3, %r5, {items};
    @%p3 bra TAKE;
END:
""",
        2,
    )


def warps() -> Module:
    """Warps pass a token through shared memory while the first warp waits at a barrier.

    a1: one word per thread, the previous owner of the token.
    """
    return kernel(
        """
    shr.u32 %r5, %r0, 5;
    setp.eq.u32 %p0, %r5, 0;
    @%p0 bra MEET;
    mov.u32 %r6, tile;
    shl.b32 %r7, %r5, 2;
    add.u32 %r6, %r6, %r7;
    setp.eq.u32 %p1, %r5, 1;
    @%p1 bra MINE;
WAIT:
    ld.volatile.shared.u32 %r8, [%r6+-4];
    setp.eq.u32 %p2, %r8, 0;
    @%p2 bra WAIT;
MINE:
    add.u32 %r9, %r5, 100;
    st.volatile.shared.u32 [%r6], %r9;
MEET:
    bar.sync 0;
    mov.u32 %r6, tile;
    shl.b32 %r7, %r5, 2;
    add.u32 %r6, %r6, %r7;
    ld.shared.u32 %r10, [%r6];
    mul.wide.u32 %d3, %r3, 4;
    add.u64 %d3, %d1, %d3;
    st.global.u32 [%d3], %r10;
""",
        1,
    )


def lock(ticket: bool = False, who: str = "all") -> Module:
    """Threads add their number, one after another, to a sum that a lock guards.

    ``who``: all threads, or the first one of each warp or block. ``ticket``: in the order of their
    arrival. a1: the lock (two words, apart), a2: the sum and the number of threads that held the lock.
    """
    chosen = {
        "all": "mov.u32 %r20, 0;",
        "warp": "and.b32 %r20, %r0, 31;",
        "block": "mov.u32 %r20, %r0;",
    }
    acquire = """
TRY:
    atom.cas.acquire.gpu.global.b32 %r5, [%d1], 0, 1;
    setp.ne.u32 %p1, %r5, 0;
    @%p1 bra TRY;
"""
    release = "atom.exch.release.gpu.global.b32 %r6, [%d1], 0;"
    if ticket:
        acquire = """
    atom.add.relaxed.gpu.global.u32 %r5, [%d1], 1;
TRY:
    ld.volatile.global.u32 %r6, [%d1+4];
    setp.ne.u32 %p1, %r5, %r6;
    @%p1 bra TRY;
"""
        release = "add.u32 %r5, %r5, 1; st.volatile.global.u32 [%d1+4], %r5;"
    return kernel(
        f"""
    {chosen[who]}
    setp.ne.u32 %p0, %r20, 0;
    @%p0 bra END;
    {acquire}
    ld.global.u32 %r7, [%d2];
    add.u32 %r7, %r7, %r3;
    st.global.u32 [%d2], %r7;
    ld.global.u32 %r8, [%d2+4];
    add.u32 %r8, %r8, 1;
    st.global.u32 [%d2+4], %r8;
    {release}
END:
""",
        2,
    )


def lock_within() -> Module:
    """As ``lock``, but a thread that has acquired the lock releases it in the same iteration."""
    return kernel(
        """
    mov.u32 %r9, 0;
TRY:
    atom.cas.b32 %r5, [%d1], 0, 1;
    setp.ne.u32 %p1, %r5, 0;
    @%p1 bra AGAIN;
    ld.volatile.global.u32 %r7, [%d2];
    add.u32 %r7, %r7, %r3;
    st.volatile.global.u32 [%d2], %r7;
    ld.volatile.global.u32 %r8, [%d2+4];
    add.u32 %r8, %r8, 1;
    st.volatile.global.u32 [%d2+4], %r8;
    fence.acq_rel.gpu;
    st.volatile.global.u32 [%d1], 0;
    mov.u32 %r9, 1;
AGAIN:
    setp.eq.u32 %p2, %r9, 0;
    @%p2 bra TRY;
""",
        2,
    )


def swaps() -> Module:
    """Threads add to a sum by compare and swap, as compilers write updates that hardware lacks.

    a1: the sum, a2: the value that each thread found.
    """
    return kernel(
        """
    ld.global.u32 %r5, [%d1];
AGAIN:
    mad.lo.u32 %r6, %r3, 2, %r5;
    atom.cas.b32 %r7, [%d1], %r5, %r6;
    setp.ne.u32 %p1, %r7, %r5;
    mov.u32 %r5, %r7;
    @%p1 bra AGAIN;
    mul.wide.u32 %d3, %r3, 4;
    add.u64 %d3, %d2, %d3;
    st.global.u32 [%d3], %r7;
""",
        2,
    )


def persistent(items: int) -> Module:
    """A few blocks take items from a common counter until none are left; the last block to end
    stores the total. Items wait for the previous item.

    a1: counter, ended blocks, total; a2: results, each 1 more than that of the previous item.
    """
    return kernel(
        f"""
    .shared .u32 mine;
NEXT:
    bar.sync 0;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra TAKEN;
    atom.add.global.u32 %r5, [%d1], 1;
    st.shared.u32 [mine], %r5;
TAKEN:
    bar.sync 0;
    ld.shared.u32 %r5, [mine];
    setp.ge.u32 %p1, %r5, {items};
    @%p1 bra DONE;
    setp.ne.u32 %p2, %r0, 0;
    @%p2 bra NEXT;
    mov.u32 %r6, 0;
    mul.wide.u32 %d3, %r5, 4;
    add.u64 %d3, %d2, %d3;
    setp.eq.u32 %p3, %r5, 0;
    @%p3 bra FIRST;
WAIT:
    ld.volatile.global.u32 %r6, [%d3+-4];
    setp.eq.u32 %p4, %r6, 0;
    @%p4 bra WAIT;
FIRST:
    add.u32 %r6, %r6, 1;
    st.volatile.global.u32 [%d3], %r6;
    bra NEXT;
DONE:
    @%p0 bra END;
    atom.add.global.u32 %r7, [%d1+4], 1;
    add.u32 %r7, %r7, 1;
    setp.ne.u32 %p5, %r7, %r4;
    @%p5 bra END;
    ld.volatile.global.u32 %r8, [%d2+{4 * items - 4}];
    st.global.u32 [%d1+8], %r8;
END:
""",
        2,
    )


def grid_sync(phases: int, *, workspace: bool = False) -> Module:
    """Return ``grid_barrier`` in nvcc's form of cooperative groups' grid.sync().

    One word's highest bit flips when the last block has arrived. a1: that word (``workspace``:
    it is in the grid's workspace instead), a2: values, one array per phase.
    """
    where = "mov.u64 %d7, %d1;"
    if workspace:
        where = """
    mov.u32 %r40, %envreg2;
    mov.u32 %r41, %envreg1;
    mov.b64 %d7, {%r40, %r41};
    add.s64 %d7, %d7, 4;
"""
    return kernel(
        f"""
    {where}
    mul.lo.u32 %r5, %r4, %r2;
    mul.wide.u32 %d4, %r5, 4;
    mul.wide.u32 %d5, %r3, 4;
    add.u64 %d5, %d2, %d5;
    add.u32 %r6, %r3, 1;
    rem.u32 %r6, %r6, %r5;
    mul.wide.u32 %d6, %r6, 4;
    add.u64 %d6, %d2, %d6;
    st.global.u32 [%d5], %r3;
    mov.u32 %r7, %r3;
    mov.u32 %r8, 1;
PHASE:
    barrier.sync 0;
    mov.u32 %r20, %tid.y;
    add.u32 %r21, %r0, %r20;
    mov.u32 %r22, %tid.z;
    neg.s32 %r23, %r22;
    setp.ne.s32 %p0, %r21, %r23;
    @%p0 bra MET;
    mov.u32 %r24, %ctaid.y;
    add.s32 %r26, %r1, %r24;
    mov.u32 %r25, %ctaid.z;
    neg.s32 %r27, %r25;
    setp.eq.s32 %p1, %r26, %r27;
    sub.u32 %r28, 0x80000001, %r4;
    selp.b32 %r29, %r28, 1, %p1;
    fence.acq_rel.gpu;
    atom.add.release.gpu.global.u32 %r30, [%d7], %r29;
SPIN:
    ld.volatile.u32 %r31, [%d7];
    xor.b32 %r32, %r31, %r30;
    setp.gt.s32 %p2, %r32, -1;
    @%p2 bra SPIN;
    fence.acq_rel.gpu;
MET:
    barrier.sync 0;
    ld.global.u32 %r12, [%d6];
    add.u32 %r7, %r7, %r12;
    add.u64 %d5, %d5, %d4;
    add.u64 %d6, %d6, %d4;
    st.global.u32 [%d5], %r7;
    add.u32 %r8, %r8, 1;
    setp.le.u32 %p5, %r8, {phases};
    @%p5 bra PHASE;
""",
        2,
    )


def sleepers() -> Module:
    """``chain`` with sleeps of different lengths in each iteration, some of them under a guard."""
    return kernel(
        """
    mul.wide.u32 %d4, %r3, 4;
    add.u64 %d5, %d1, %d4;
    add.u64 %d6, %d2, %d4;
    nanosleep.u32 0;
    setp.eq.u32 %p0, %r3, 0;
    mov.u32 %r5, 0;
    @%p0 bra OWN;
    and.b32 %r9, %r0, 7;
    mul.lo.u32 %r9, %r9, 100;
WAIT:
    nanosleep.u32 %r9;
    ld.volatile.global.u32 %r6, [%d5+-4];
    setp.eq.u32 %p1, %r6, 0;
    @%p1 nanosleep.u32 20;
    @%p1 bra WAIT;
    ld.volatile.global.u32 %r5, [%d6+-4];
OWN:
    add.u32 %r5, %r5, %r0;
    st.volatile.global.u32 [%d6], %r5;
    mov.u32 %r6, 1;
    st.volatile.global.u32 [%d5], %r6;
""",
        2,
    )


def naps(nanoseconds: int) -> Module:
    """Threads sleep once, every eighth one twice, first for half as long. a1: the threads'
    numbers.
    """
    return kernel(
        f"""
    mul.wide.u32 %d2, %r3, 4;
    add.u64 %d2, %d1, %d2;
    and.b32 %r5, %r0, 7;
    setp.eq.u32 %p0, %r5, 3;
    selp.u32 %r6, {nanoseconds // 2}, {nanoseconds}, %p0;
    nanosleep.u32 %r6;
    @%p0 nanosleep.u32 {nanoseconds};
    st.global.u32 [%d2], %r3;
""",
        1,
    )


def mbarriers(rounds: int) -> Module:
    """The first warp fills two buffers in turn, the others empty them; all wait at mbarriers.

    Templates of matrix products work like this: full barriers count the first warp, empty ones
    the others. a1: the sum of the values that each thread of the other warps has read.
    """
    wait = """
{label}:
    mbarrier.try_wait.parity.shared.b64 %p5, [{where}], {parity};
    @%p5 bra {label}_DONE;
    bra {label};
{label}_DONE:
"""
    return kernel(
        f"""
    .shared .align 8 .b64 full[2];
    .shared .align 8 .b64 empty[2];
    sub.u32 %r5, %r2, 32;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra READY;
    mbarrier.init.shared.b64 [full], 32;
    mbarrier.init.shared.b64 [full+8], 32;
    mbarrier.init.shared.b64 [empty], %r5;
    mbarrier.init.shared.b64 [empty+8], %r5;
READY:
    bar.sync 0;
    mov.u32 %r6, 0;
    mov.u32 %r7, 0;
    setp.lt.u32 %p1, %r0, 32;
NEXT:
    and.b32 %r8, %r6, 1;
    shr.u32 %r9, %r6, 1;
    and.b32 %r9, %r9, 1;
    mov.u32 %r10, full;
    mad.lo.u32 %r10, %r8, 8, %r10;
    mov.u32 %r11, empty;
    mad.lo.u32 %r11, %r8, 8, %r11;
    mov.u32 %r12, tile;
    mad.lo.u32 %r12, %r8, 128, %r12;
    @!%p1 bra TAKE;
    xor.b32 %r13, %r9, 1;
    {wait.format(label="EMPTY", where="%r11", parity="%r13")}
    mad.lo.u32 %r14, %r0, 4, %r12;
    mad.lo.u32 %r15, %r6, 100, %r0;
    st.shared.u32 [%r14], %r15;
    mbarrier.arrive.shared.b64 %d5, [%r10];
    bra ROUND;
TAKE:
    {wait.format(label="FULL", where="%r10", parity="%r9")}
    add.u32 %r16, %r0, %r6;
    and.b32 %r16, %r16, 31;
    mad.lo.u32 %r14, %r16, 4, %r12;
    ld.shared.u32 %r15, [%r14];
    add.u32 %r7, %r7, %r15;
    mbarrier.arrive.shared.b64 %d5, [%r11];
ROUND:
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p2, %r6, {rounds};
    @%p2 bra NEXT;
    @%p1 bra END;
    mul.wide.u32 %d6, %r3, 4;
    add.u64 %d6, %d1, %d6;
    st.global.u32 [%d6], %r7;
END:
""",
        1,
    )


def meet_and_poll(turn: str) -> Module:
    """Return a kernel whose blocks wait for a flag that the last block sets.

    In each ``turn`` one lane reads the flag, and informs the others of its block or of its warp.
    """
    turns = {
        "barrier": "@!%p0 st.shared.u32 [tile], %r6; bar.sync 0; ld.shared.u32 %r6, [tile];"
        " bar.sync 0;",
        "reduced": "setp.ne.u32 %p2, %r6, 0; barrier.cta.red.or.pred %p2, 1, %p2;"
        " selp.u32 %r6, 1, 0, %p2;",
        "warp": "@!%p0 st.shared.u32 [%r8], %r6; bar.warp.sync -1; ld.shared.u32 %r6, [%r8];"
        " bar.warp.sync -1;",
        "shuffle": "shfl.sync.idx.b32 %r6, %r6, 0, 31, -1;",
    }
    mask = 31 if turn in ("warp", "shuffle") else 1023
    return kernel(
        f"""
    sub.u32 %r5, %r4, 1;
    shr.u32 %r8, %r0, 5;
    shl.b32 %r8, %r8, 2;
    mov.u32 %r9, tile;
    add.u32 %r8, %r8, %r9;
    and.b32 %r7, %r0, {mask};
    setp.ne.u32 %p0, %r7, 0;
    setp.ne.u32 %p1, %r1, %r5;
    @%p1 bra WAIT;
    st.release.gpu.u32 [%d1], 1;
WAIT:
    mov.u32 %r6, 0;
    @%p0 bra MEET;
    ld.volatile.global.u32 %r6, [%d1];
MEET:
    {turns[turn]}
    setp.eq.u32 %p3, %r6, 0;
    @%p3 bra WAIT;
    mad.wide.u32 %d3, %r3, 4, %d2;
    st.global.u32 [%d3], 7;
""",
        2,
    )
