"""Kernels whose threads wait for each other: interpreter, JIT under its plans, and numpy agree."""

import numpy as np
import pytest

from support.execution.both_backends import Bench, compare, compiler
from support.execution.interpreted_ptx import compile_verified, kernel
from support.kernels import barrier_kernels
from vgpu_sim.exec import jit
from vgpu_sim.exec.errors import BarrierFault
from vgpu_sim.hal.compute import limits
from vgpu_sim.isa import Module

Shape = tuple[int, int, int]

SHAPES: list[Shape] = [
    (64, 1, 1),
    (256, 1, 1),
    (1, 1, 1),
    (33, 1, 1),
    (7, 3, 1),
    (24, 8, 1),
    (12, 16, 1),
    (16, 16, 1),
    (5, 3, 2),
    (100, 1, 1),
    (8, 4, 8),
]


def plans(module: Module, block: Shape, count: int = 5) -> list[jit.Plan | None]:
    """Return the default plan, the lane-by-lane one, and some of the others."""
    legal = compiler().legal_plans(module, block)
    step = max(1, len(legal) // count)
    return [None, jit.Plan(1, 1), *legal[step // 2 :: step]]


def words(count: int) -> bytes:
    return bytes(4 * count)


@pytest.mark.parametrize("block", SHAPES)
def test_a_tree_of_sums_in_shared_memory(block: Shape) -> None:
    threads, grid = block[0] * block[1] * block[2], 5
    numbers = np.random.default_rng(1).integers(-50, 50, grid * threads).astype("<f4")
    module = barrier_kernels.reduction()
    buffers = [words(grid), numbers.tobytes()]
    found = compare(module, buffers, (grid, 1, 1), block, plans(module, block), dynamic=4 * threads)
    want = numbers.reshape(grid, threads).sum(axis=1)
    assert (np.frombuffer(found[0], "<f4") == want).all()


@pytest.mark.parametrize("tile", [4, 5, 8, 16])
def test_a_tiled_product_with_barriers_in_its_loop(tile: int) -> None:
    n, block = 3 * tile, (tile, tile, 1)
    a, b = np.random.default_rng(2).integers(-9, 9, (2, n, n)).astype("<f4")
    module = barrier_kernels.tiled_sgemm(tile)
    buffers = [words(n * n), a.tobytes(), b.tobytes()]
    found = compare(module, buffers, (3, 3, 1), block, plans(module, block, 4), [n])
    assert (np.frombuffer(found[0], "<f4").reshape(n, n) == a @ b).all()


@pytest.mark.parametrize("block", SHAPES)
def test_threads_that_end_while_others_use_barriers(block: Shape) -> None:
    threads, grid = block[0] * block[1] * block[2], 3
    module = barrier_kernels.relay()
    compare(module, [words(grid * threads)], (grid, 1, 1), block, plans(module, block))


@pytest.mark.parametrize("block", [(64, 1, 1), (16, 16, 1), (32, 2, 2)])
def test_threads_at_different_barrier_instructions(block: Shape) -> None:
    threads, grid = block[0] * block[1] * block[2], 3
    module = barrier_kernels.diverging_kernel()
    assert {(p.width, p.vectors) for p in compiler().legal_plans(module, block)} == {(1, 1)}
    found = compare(module, [words(grid * threads)], (grid, 1, 1), block, plans(module, block))
    t = np.arange(grid * threads)
    middle = np.where(t % 2 == 0, t + 7, t + 6 + 100)
    assert (np.frombuffer(found[0], "<u4") == middle + (middle + 1)[t ^ 2]).all()


@pytest.mark.parametrize("block", SHAPES)
@pytest.mark.parametrize("missing", [0, 1, 17, 70])
def test_padding_threads_take_no_part(block: Shape, missing: int) -> None:
    threads, grid = block[0] * block[1] * block[2], 4
    module = barrier_kernels.guarded_kernel()
    n = max(0, grid * threads - missing)
    compare(module, [words(grid * threads)], (grid, 1, 1), block, plans(module, block, 3), [n])


@pytest.mark.parametrize("block", [(64, 1, 1), (128, 1, 1), (16, 16, 1), (8, 8, 4), (1024, 1, 1)])
def test_warps_that_pass_buffers_to_each_other(block: Shape) -> None:
    threads, grid = block[0] * block[1] * block[2], 3
    half, module = threads // 2, barrier_kernels.pipeline()
    found = compare(module, [words(grid * half)], (grid, 1, 1), block, plans(module, block, 3))
    t = np.tile(np.arange(half) ^ 1, grid)
    assert (np.frombuffer(found[0], "<u4") == 15_000 + 6 * t).all()


@pytest.mark.parametrize("block", SHAPES)
def test_several_barriers_for_all(block: Shape) -> None:
    threads, grid = block[0] * block[1] * block[2], 3
    module = barrier_kernels.two_barriers()
    compare(module, [words(grid * threads)], (grid, 1, 1), block, plans(module, block, 3))


@pytest.mark.parametrize(
    ("module", "block"),
    [
        (barrier_kernels.never(), (64, 1, 1)),
        (barrier_kernels.never(), (96, 2, 1)),
        (barrier_kernels.miscounting_kernel(64), (32, 1, 1)),
        (barrier_kernels.miscounting_kernel(33), (64, 1, 1)),
        (barrier_kernels.miscounting_kernel(64), (96, 1, 1)),
    ],
)
def test_a_deadlocked_block_ends(module: Module, block: Shape) -> None:
    bench = Bench(words(16))
    try:
        parameters = bench.addresses()[0].to_bytes(8, "little")
        with pytest.raises(BarrierFault):
            bench.interpret(module, (2, 1, 1), block, parameters)
        for plan in plans(module, block):
            with pytest.raises(AssertionError, match="status=719"):
                bench.execute(module, (2, 1, 1), block, parameters, plan)
    finally:
        bench.close()


def test_a_block_may_opt_in_to_most_of_a_multiprocessor_s_shared_memory() -> None:
    """Each thread stores at a place of its own, across all of it, and loads its neighbour's
    value.
    """
    bytes_, threads = limits.MAX_SHARED_BYTES_OPTIN, 128
    step = bytes_ // threads // 16 * 16
    text = kernel(
        f"""
        ld.param.u64 %o, [po]; mov.u32 %t, %tid.x; mov.u32 %s, all;
        sub.u32 %k, {threads - 1}, %t; mul.lo.u32 %k, %k, {step};
        sub.u32 %k, {bytes_ - 16}, %k; add.u32 %s, %s, %k;
        mov.u32 %c, %ctaid.x; mad.lo.u32 %x, %t, 7, %c; st.shared.u32 [%s+12], %x;
        bar.sync 0;
        setp.eq.u32 %p, %t, 0; selp.u32 %k, 0, {step}, %p; sub.u32 %s, %s, %k;
        ld.shared.u32 %x, [%s+12];
        mad.lo.u32 %t, %c, {threads}, %t; mad.wide.u32 %o, %t, 4, %o; st.global.u32 [%o], %x;
        """,
        ".param .u64 po",
        registers=".reg .b64 %o; .reg .b32 %t, %s, %k, %x, %c; .reg .pred %p;",
        header=".extern .shared .align 16 .b8 all[];",
    )
    module = compile_verified(text)
    chosen = (None, jit.Plan(16, 1), jit.Plan(1, 1))
    blocks = [bytes(4 * 3 * threads)]
    (found,) = compare(module, blocks, (3, 1, 1), (threads, 1, 1), chosen, dynamic=bytes_)
    wanted = [[max(t - 1, 0) * 7 + b for t in range(threads)] for b in range(3)]
    assert np.frombuffer(found, "<u4").reshape(3, threads).tolist() == wanted


@pytest.mark.parametrize("block", [(16, 1, 1), (256, 1, 1), (16, 16, 1)])
@pytest.mark.parametrize("base", [0, (1 << 31) - 9])
def test_an_index_that_wraps_around_after_a_barrier(block: Shape, base: int) -> None:
    """A group that is a whole block starts over after it has written to shared memory."""
    body = """
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [base];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %tid.y;
    mov.u32 %r4, %ntid.x;
    mad.lo.u32 %r5, %r3, %r4, %r2;
    shl.b32 %r6, %r5, 2;
    mov.u32 %r7, s;
    add.u32 %r7, %r7, %r6;
    st.shared.u32 [%r7], %r5;
    bar.sync 0;
    xor.b32 %r8, %r6, 4;
    mov.u32 %r9, s;
    add.u32 %r8, %r8, %r9;
    ld.shared.u32 %r10, [%r8];
    add.s32 %r11, %r1, %r2;
    cvt.s64.s32 %rd2, %r11;
    cvt.u64.u32 %rd3, %r10;
    add.s64 %rd2, %rd2, %rd3;
    mul.wide.u32 %rd4, %r5, 8;
    add.s64 %rd4, %rd1, %rd4;
    st.global.u64 [%rd4], %rd2;
    """
    registers = ".reg .b32 %r<12>;\n.reg .b64 %rd<5>;\n.shared .align 4 .b8 s[1024];"
    module = compile_verified(
        kernel(body, ".param .u64 out, .param .u32 base", registers=registers)
    )
    threads = block[0] * block[1]
    some = plans(module, block)
    (found,) = compare(module, [bytes(8 * threads)], (3, 1, 1), block, some, extra=[base])
    rank = np.arange(threads)
    index = (base + rank % block[0] + (1 << 31)) % (1 << 32) - (1 << 31)
    assert (np.frombuffer(found, "<i8") == index + (rank ^ 1)).all()


@pytest.mark.parametrize("meets", ["bar.sync 0;", ""])
@pytest.mark.parametrize("dynamic", [0, 256])
def test_a_block_that_starts_over_has_its_initial_shared_memory(meets: str, dynamic: int) -> None:
    """Each lane adds to its word; then an index loaded from memory wraps around."""
    place = "far" if dynamic else "tile"
    body = f"""
        ld.param.u64 %x, [x]; ld.param.u32 %n, [n]; mov.u32 %t, %tid.x;
        shl.b32 %s, %t, 2; mov.u32 %a, {place}; add.u32 %a, %a, %s;
        ld.shared.u32 %v, [%a]; add.u32 %v, %v, 5; st.shared.u32 [%a], %v;
        st.shared.u32 [last], %n;
        {meets}
        ld.shared.u32 %w, [%a]; ld.shared.u32 %n, [last];
        add.u32 %i, %t, %n; cvt.s64.s32 %d, %i; mul.lo.s64 %d, %d, 4; and.b64 %d, %d, 255;
        add.s64 %q, %x, %d; st.global.u32 [%q], %w;
    """
    registers = """.reg .b64 %x, %d, %q; .reg .b32 %n, %t, %s, %a, %v, %w, %i;
        .shared .align 4 .b32 tile[64]; .shared .align 4 .b32 last;"""
    text = kernel(
        body,
        ".param .u64 x, .param .u32 n",
        registers=registers,
        header=".extern .shared .align 4 .b32 far[];",
    )
    module = compile_verified(text)
    legal = [p for p in compiler().legal_plans(module, (64, 1, 1)) if p.width == 16]
    chosen, extra = (None, jit.Plan(16, 4), *legal[:1]), (0x7FFFFFE0,)
    (found,) = compare(
        module, [bytes(256)], (3, 1, 1), (64, 1, 1), chosen, extra=extra, dynamic=dynamic
    )
    assert (np.frombuffer(found, "<u4") == 5).all()
