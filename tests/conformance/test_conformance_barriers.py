"""Kernels whose threads meet: interpreter, JIT under its plans, and plain arithmetic agree."""

import barrier_kernels
import numpy as np
import pytest
from both_backends import Bench, compare

from vgpu_sim.exec import jit
from vgpu_sim.exec.errors import BarrierFault
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
    """The default plan, the one lane by lane, and some of the others."""
    legal = list(jit.legal_plans(module.functions[0], block))
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
def test_a_tiled_product_that_meets_in_its_loop(tile: int) -> None:
    n, block = 3 * tile, (tile, tile, 1)
    a, b = np.random.default_rng(2).integers(-9, 9, (2, n, n)).astype("<f4")
    module = barrier_kernels.tiled_sgemm(tile)
    buffers = [words(n * n), a.tobytes(), b.tobytes()]
    found = compare(module, buffers, (3, 3, 1), block, plans(module, block, 4), [n])
    assert (np.frombuffer(found[0], "<f4").reshape(n, n) == a @ b).all()


@pytest.mark.parametrize("block", SHAPES)
def test_threads_that_end_while_others_go_on_meeting(block: Shape) -> None:
    threads, grid = block[0] * block[1] * block[2], 3
    module = barrier_kernels.relay()
    compare(module, [words(grid * threads)], (grid, 1, 1), block, plans(module, block))


@pytest.mark.parametrize("block", [(64, 1, 1), (16, 16, 1), (32, 2, 2)])
def test_threads_that_meet_at_different_instructions(block: Shape) -> None:
    threads, grid = block[0] * block[1] * block[2], 3
    module = barrier_kernels.parted()
    assert {(p.width, p.strips) for p in jit.legal_plans(module.functions[0], block)} == {(1, 1)}
    found = compare(module, [words(grid * threads)], (grid, 1, 1), block, plans(module, block))
    t = np.arange(grid * threads)
    middle = np.where(t % 2 == 0, t + 7, t + 6 + 100)
    assert (np.frombuffer(found[0], "<u4") == middle + (middle + 1)[t ^ 2]).all()


@pytest.mark.parametrize("block", SHAPES)
@pytest.mark.parametrize("missing", [0, 1, 17, 70])
def test_threads_behind_the_end_take_no_part(block: Shape, missing: int) -> None:
    threads, grid = block[0] * block[1] * block[2], 4
    module = barrier_kernels.guarded()
    n = max(0, grid * threads - missing)
    compare(module, [words(grid * threads)], (grid, 1, 1), block, plans(module, block, 3), [n])


@pytest.mark.parametrize("block", [(64, 1, 1), (128, 1, 1), (16, 16, 1), (8, 8, 4), (1024, 1, 1)])
def test_warps_that_hand_buffers_to_each_other(block: Shape) -> None:
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
        (barrier_kernels.miscounted(64), (32, 1, 1)),
        (barrier_kernels.miscounted(33), (64, 1, 1)),
        (barrier_kernels.miscounted(64), (96, 1, 1)),
    ],
)
def test_a_block_that_waits_for_ever_ends(module: Module, block: Shape) -> None:
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
