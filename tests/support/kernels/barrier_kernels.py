"""Kernels of the instruction set with barriers, as text; parameters are addresses, then numbers.

Threads are counted in linear order; r1 to r3 are tid, r4 the linear thread, r5 the linear block,
r6 the threads of a block. Numbers are small integers, so that float sums are exact in any order.
"""

from vgpu_sim.isa import Module
from vgpu_sim.isa.asm import assemble

_PRELUDE = """
    S2R.U32 r1, TID_X
    S2R.U32 r2, TID_Y
    S2R.U32 r3, TID_Z
    S2R.U32 r7, NTID_X
    S2R.U32 r8, NTID_Y
    S2R.U32 r9, NTID_Z
    S2R.U32 r5, CTAID_X
    MAD.LO.U32 r4, r3, r8, r2
    MAD.LO.U32 r4, r4, r7, r1
    MUL.LO.U32 r6, r7, r8
    MUL.LO.U32 r6, r6, r9
"""


def kernel(body: str, addresses: int, numbers: int = 0, shared: int = 0) -> Module:
    """Return a module of one kernel; d0 to d7 have 64 bits, r0 to r31 have 32."""
    lines = [".isa 1", ".function k"]
    offset = 0
    for index, size in enumerate((8,) * addresses + (4,) * numbers):
        lines.append(f".parameter p{index} offset {offset} size {size} align {size}")
        offset += size
    lines += [f".parameter_bytes {offset}", f".shared {shared}"]
    lines += [".registers r0-r31 32", ".registers r32-r39 64", ".predicates 6", "{"]
    text = "\n".join([*lines, _PRELUDE, body, "    RET", "}", ""])
    for index in range(8):
        text = text.replace(f"d{index}", f"r{32 + index}")
    return assemble(text)


def reduction() -> Module:
    """out[block] = sum of in[block * threads ...]: a tree in dynamic shared memory."""
    return kernel(
        """
    LD.PARAM.U64 d0, [0]
    LD.PARAM.U64 d1, [8]
    MAD.LO.U32 r10, r5, r6, r4
    MAD.WIDE.U32 d2, r10, 4, d1
    LD.GLOBAL.F32 r11, [d2]
    SHL.B32 r12, r4, 2
    ST.SHARED.F32 [r12], r11
    MOV.B32 r13, r6
again:
    BAR_SYNC 0, 0
    SETP.LE.U32 p0, r13, 1
@p0 BRA done
    ADD.U32 r14, r13, 1
    SHR.U32 r14, r14, 1
    ADD.U32 r15, r4, r14
    SETP.GE.U32 p1, r15, r13
@p1 BRA skip
    SHL.B32 r16, r15, 2
    LD.SHARED.F32 r17, [r16]
    LD.SHARED.F32 r18, [r12]
    FADD.RN.F32 r18, r18, r17
    ST.SHARED.F32 [r12], r18
skip:
    MOV.B32 r13, r14
    BRA again
done:
    SETP.NE.U32 p0, r4, 0
@p0 BRA end
    LD.SHARED.F32 r18, [r12]
    MAD.WIDE.U32 d2, r5, 4, d0
    ST.GLOBAL.F32 [d2], r18
end:
""",
        2,
    )


def tiled_sgemm(tile: int) -> Module:
    """c = a * b, n by n floats, in tiles of shared memory; blocks of (tile, tile), n in tiles.

    Between the barriers, odd threads compute the same product on another path.
    """
    size = 4 * tile * tile
    steps = "\n".join(
        f"""
    LD.SHARED.F32 r20, [r16+{4 * k}]
    LD.SHARED.F32 r21, [r17+{size + 4 * tile * k}]
    FMA.RN.F32 r22, r20, r21, r22
"""
        for k in range(tile)
    )
    return kernel(
        f"""
    LD.PARAM.U64 d0, [0]
    LD.PARAM.U64 d1, [8]
    LD.PARAM.U64 d2, [16]
    LD.PARAM.U32 r10, [24]
    S2R.U32 r11, CTAID_Y
    MAD.LO.U32 r12, r11, {tile}, r2
    MAD.LO.U32 r13, r5, {tile}, r1
    MAD.LO.U32 r14, r12, r10, r1
    MAD.WIDE.U32 d3, r14, 4, d1
    MAD.LO.U32 r14, r2, r10, r13
    MAD.WIDE.U32 d4, r14, 4, d2
    MUL.WIDE.U32 d5, r10, {4 * tile}
    MUL.LO.U32 r16, r2, {4 * tile}
    SHL.B32 r17, r1, 2
    ADD.U32 r18, r16, r17
    MOV.B32 r22, 0
    MOV.B32 r23, 0
loop:
    LD.GLOBAL.F32 r24, [d3]
    LD.GLOBAL.F32 r25, [d4]
    ST.SHARED.F32 [r18], r24
    AND.B32 r26, r1, 1
    SETP.EQ.U32 p0, r26, 0
@p0 BRA even
    FADD.RN.F32 r25, r25, r25
    FMUL.RN.F32 r25, r25, 0x3f000000
even:
    ST.SHARED.F32 [r18+{size}], r25
    BAR_SYNC 0, 0
    {steps}
    BAR_SYNC 0, 0
    ADD.U64 d3, d3, {4 * tile}
    ADD.U64 d4, d4, d5
    ADD.U32 r23, r23, {tile}
    SETP.LT.U32 p1, r23, r10
@p1 BRA loop
    MAD.LO.U32 r14, r12, r10, r13
    MAD.WIDE.U32 d6, r14, 4, d0
    ST.GLOBAL.F32 [d6], r22
""",
        3,
        1,
        2 * size,
    )


def relay() -> Module:
    """Threads end one after another, in different iterations of a loop with barriers.

    Thread t ends in iteration t % 5; out[block * threads + t] is the sum of the values that
    it has read from its neighbour by then.
    """
    return kernel(
        """
    LD.PARAM.U64 d0, [0]
    MAD.LO.U32 r10, r5, r6, r4
    MAD.WIDE.U32 d1, r10, 4, d0
    SHL.B32 r11, r4, 2
    REM.U32 r12, r4, 5
    MOV.B32 r13, 0
    MOV.B32 r14, 0
turn:
    ADD.U32 r15, r13, r4
    ST.SHARED.U32 [r11], r15
    BAR_SYNC 3, 0
    ADD.U32 r16, r4, 1
    REM.U32 r16, r16, r6
    SHL.B32 r16, r16, 2
    LD.SHARED.U32 r17, [r16]
    ADD.U32 r14, r14, r17
    BAR_SYNC 3, 0
    SETP.GE.U32 p0, r13, r12
@p0 ST.GLOBAL.U32 [d1], r14
@p0 RET
    ADD.U32 r13, r13, 1
    BRA turn
""",
        1,
        shared=4096,
    )


def diverging_kernel() -> Module:
    """The two threads of each pair wait at different barrier instructions, then under a guard that
    is true for all.
    """
    return kernel(
        """
    LD.PARAM.U64 d0, [0]
    MAD.LO.U32 r10, r5, r6, r4
    MAD.WIDE.U32 d1, r10, 4, d0
    SHL.B32 r11, r4, 2
    AND.B32 r12, r4, 1
    SETP.EQ.U32 p0, r12, 0
@p0 BRA even
    ST.SHARED.U32 [r11], r10
    BAR_SYNC 0, 0
    LD.SHARED.U32 r13, [r11-4]
    ADD.U32 r13, r13, 100
    BRA join
even:
    ADD.U32 r14, r10, 7
    ST.SHARED.U32 [r11], r14
    BAR_SYNC 0, 0
    LD.SHARED.U32 r13, [r11]
join:
    ADD.U32 r15, r13, 1
    ST.SHARED.U32 [r11+4096], r15
    SETP.LT.U32 p1, r4, 1024
@p1 BAR_SYNC 0, 0
    XOR.B32 r16, r11, 8
    LD.SHARED.U32 r17, [r16+4096]
    ADD.U32 r17, r17, r13
    ST.GLOBAL.U32 [d1], r17
""",
        1,
        shared=8192,
    )


def guarded_kernel() -> Module:
    """Threads beyond n end at once; the others exchange values through two barriers."""
    return kernel(
        """
    LD.PARAM.U64 d0, [0]
    LD.PARAM.U32 r10, [8]
    MAD.LO.U32 r11, r5, r6, r4
    SETP.GE.U32 p0, r11, r10
@p0 RET
    MAD.WIDE.U32 d1, r11, 4, d0
    SHL.B32 r12, r4, 2
    ST.SHARED.U32 [r12], r11
    BAR_SYNC 0, 0
    XOR.B32 r13, r12, 4
    LD.SHARED.U32 r14, [r13]
    MUL.LO.U32 r15, r14, 3
    BAR_SYNC 0, 0
    ST.SHARED.U32 [r12], r15
    BAR_SYNC 0, 0
    XOR.B32 r13, r12, 64
    LD.SHARED.U32 r16, [r13]
    ADD.U32 r16, r16, r14
    ST.GLOBAL.U32 [d1], r16
""",
        1,
        1,
        8192,
    )


def pipeline() -> Module:
    """The first half of the warps fills two buffers in turn, the other half empties them.

    Each buffer has two barriers: 1 + i signals that it is full, 3 + i that it is empty; threads
    that need not wait only arrive. Blocks have 32 to 512 threads in each half; out[block * half
    + t] = the sum.
    """
    return kernel(
        """
    LD.PARAM.U64 d0, [0]
    SHR.U32 r10, r6, 1
    MOV.B32 r11, 0
    MOV.B32 r12, 0
    SETP.GE.U32 p0, r4, r10
@p0 BRA empty
    SHL.B32 r13, r4, 2
fill:
    AND.B32 r14, r11, 1
    SETP.LT.U32 p1, r11, 2
    ADD.U32 r15, r14, 3
@p1 BRA free
    BAR_SYNC r15, r6
free:
    MAD.LO.U32 r16, r11, 1000, r4
    MAD.LO.U32 r17, r14, 2048, r13
    ST.SHARED.U32 [r17], r16
    ADD.U32 r15, r14, 1
    BAR_ARRIVE r15, r6
    ADD.U32 r11, r11, 1
    SETP.LT.U32 p1, r11, 6
@p1 BRA fill
    RET
empty:
    SUB.U32 r20, r4, r10
    MAD.LO.U32 r21, r5, r10, r20
    MAD.WIDE.U32 d1, r21, 4, d0
    XOR.B32 r22, r20, 1
    SHL.B32 r22, r22, 2
next:
    AND.B32 r14, r11, 1
    ADD.U32 r15, r14, 1
    BAR_SYNC r15, r6
    MAD.LO.U32 r17, r14, 2048, r22
    LD.SHARED.U32 r18, [r17]
    ADD.U32 r12, r12, r18
    SETP.GE.U32 p1, r11, 4
    ADD.U32 r15, r14, 3
@p1 BRA last
    BAR_ARRIVE r15, r6
last:
    ADD.U32 r11, r11, 1
    SETP.LT.U32 p1, r11, 6
@p1 BRA next
    ST.GLOBAL.U32 [d1], r12
""",
        1,
        shared=4096,
    )


def two_barriers() -> Module:
    """All threads wait at barriers 0 and 1 alternately; every third ends in between."""
    return kernel(
        """
    LD.PARAM.U64 d0, [0]
    MAD.LO.U32 r10, r5, r6, r4
    MAD.WIDE.U32 d1, r10, 4, d0
    SHL.B32 r11, r4, 2
    ADD.U32 r12, r10, 5
    ST.SHARED.U32 [r11], r12
    BAR_SYNC 0, 0
    REM.U32 r13, r4, 3
    SETP.EQ.U32 p0, r13, 2
@p0 RET
    ADD.U32 r14, r4, 1
    REM.U32 r14, r14, r6
    SHL.B32 r14, r14, 2
    LD.SHARED.U32 r15, [r14]
    BAR_SYNC 1, 0
    ST.SHARED.U32 [r11], r15
    BAR_SYNC 0, 0
    LD.SHARED.U32 r16, [r14]
    ADD.U32 r16, r16, r15
    ST.GLOBAL.U32 [d1], r16
""",
        1,
        shared=4096,
    )


def never() -> Module:
    """Return a deadlock: the first warp waits at barrier 0 for all threads, the others at barrier
    1.
    """
    return kernel(
        """
    LD.PARAM.U64 d0, [0]
    SHR.U32 r10, r4, 5
    MIN.U32 r10, r10, 1
    BAR_SYNC r10, 0
    ST.GLOBAL.U32 [d0], r10
""",
        1,
    )


def miscounting_kernel(count: int) -> Module:
    """Threads arrive at a barrier that expects ``count`` of them."""
    return kernel(f"    LD.PARAM.U64 d0, [0]\n    BAR_SYNC 2, {count}\n", 1)
