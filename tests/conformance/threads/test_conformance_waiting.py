"""Kernels whose threads poll memory terminate, on both backends, with the same results under all
plans.
"""

import faulthandler
import time
from collections.abc import Iterator

import numpy as np
import pytest

from support.execution.both_backends import compare, compiler
from support.kernels import waiting_kernels
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.progress import polling_loops
from vgpu_sim.isa import Module

# A deadlocked test would hang: this ends the whole run and reports the stack.
_LIMIT_S = 120

Shape = tuple[int, int, int]


@pytest.fixture(autouse=True)
def time_limit() -> Iterator[None]:
    faulthandler.dump_traceback_later(_LIMIT_S, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def plans(module: Module, block: Shape) -> list[jit.Plan | None]:
    """Return the default plan, the lane-by-lane one, and some of the others."""
    legal = compiler().legal_plans(module, block)
    return [None, jit.Plan(1, 1), *legal[:: max(1, len(legal) // 4)]]


def words(count: int) -> bytes:
    return bytes(4 * count)


def spans(module: Module, block: Shape) -> set[int]:
    """Return the group sizes, in lanes, of the legal plans."""
    return {p.width * p.vectors for p in compiler().legal_plans(module, block)}


@pytest.mark.parametrize("block", [(2, 1, 1), (32, 1, 1), (64, 1, 1)])
def test_lanes_of_a_warp_wait_for_each_other(block: Shape) -> None:
    module = waiting_kernels.lanes()
    assert spans(module, block) == {1}
    buffers = [words(3), words(3 * block[0])]
    found = compare(module, buffers, (3, 1, 1), block, plans(module, block))
    assert (np.frombuffer(found[1], "<u4") == 5).all()


@pytest.mark.parametrize("behind", ["", "bar.sync 0;", "bar.warp.sync -1;"])
@pytest.mark.parametrize(("block", "until"), [(64, 64), (40, 40), (5, 5), (1, 1), (64, 40)])
def test_activemask_before_lanes_wait_for_each_other(behind: str, block: int, until: int) -> None:
    module, shape = waiting_kernels.company("" if until < block else behind, until), (block, 1, 1)
    assert spans(module, shape) == {1}
    found = compare(module, [words(1), words(4 * block)], (2, 1, 1), shape, plans(module, shape))
    answers = np.frombuffer(found[1], "<u4").reshape(2, block, 2)
    there = np.arange(block) < until
    warps = [sum(1 << n for n in range(min(32, until - w))) for w in range(0, until, 32)]
    assert (answers[:, there, 0] == np.repeat(warps, 32)[:until]).all()
    assert (answers[:, there, 1] == 1).all()


_ONE_BY_ONE = {
    "a lock": waiting_kernels.LOCK,
    "halves": waiting_kernels.HALVES,
    "a lock and halves": waiting_kernels.LOCK + waiting_kernels.HALVES,
    "barriers in a line": waiting_kernels.LOCK
    + "bar.warp.sync -1; mov.u32 %r8, -1; bar.warp.sync %r8;",
}


@pytest.mark.parametrize("before", _ONE_BY_ONE)
@pytest.mark.parametrize(("block", "until"), [(64, 64), (40, 40), (5, 5), (64, 40)])
def test_activemask_after_lanes_have_met(before: str, block: int, until: int) -> None:
    """After a barrier of the whole warp every lane is present, whatever happened before."""
    module, shape = waiting_kernels.meeting_kernel(_ONE_BY_ONE[before], until), (block, 1, 1)
    chosen = [None, jit.Plan(1, 1)]
    found = compare(module, [words(1), words(2 * block)], (2, 1, 1), shape, chosen)
    answers = np.frombuffer(found[1], "<u4").reshape(2, block)
    warps = [sum(1 << n for n in range(min(32, until - w))) for w in range(0, until, 32)]
    assert (answers[:, :until] == np.repeat(warps, 32)[:until]).all()


@pytest.mark.parametrize("until", [129, 160, 168])
def test_lanes_are_active_together_in_each_round_of_a_loop(until: int) -> None:
    """Programs pass ACTIVEMASK on as the mask of a collective, and rely on what GPUs do here."""
    module, shape = waiting_kernels.strides(until, 64), (64, 1, 1)
    assert spans(module, shape) == ({1} if until % 32 else {32})
    found = compare(module, [words(1), words(2 * until)], (1, 1, 1), shape, [None, jit.Plan(1, 1)])
    answers = np.frombuffer(found[1], "<u4").reshape(until, 2)
    numbers = np.arange(until, dtype="<u4")
    for first in range(0, until, 32):
        lanes = min(32, until - first)
        assert (answers[first : first + lanes, 0] == (1 << lanes) - 1).all()
        assert (
            answers[first : first + lanes, 1] == np.cumsum(numbers[first : first + lanes])
        ).all()


def test_lanes_that_met_at_different_barriers_do_not_wait_again() -> None:
    """Otherwise some would wait at ACTIVEMASK for lanes that wait for them."""
    module, shape = waiting_kernels.met_elsewhere(), (32, 1, 1)
    found = compare(module, [words(1), words(32)], (1, 1, 1), shape, [None, jit.Plan(1, 1)])
    even = np.frombuffer(found[1], "<u4")[::2]
    assert (even == 1 << np.arange(0, 32, 2, dtype=np.uint32)).all()


@pytest.mark.parametrize("wait", [waiting_kernels.AWAITED, waiting_kernels.BARRIERS])
def test_lanes_do_not_wait_at_activemask_for_lanes_that_never_come(wait: tuple[str, str]) -> None:
    """Those wait for code after the ACTIVEMASK, and then end."""
    module, shape = waiting_kernels.waits_elsewhere(wait), (32, 1, 1)
    found = compare(module, [words(1), words(32)], (1, 1, 1), shape, [None, jit.Plan(1, 1)])
    assert (np.frombuffer(found[1], "<u4")[:7] == 1 << np.arange(7)).all()


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(("grid", "block"), [(1, 32), (4, 64), (40, 16), (9, 96)])
def test_threads_of_the_grid_proceed_one_after_another(
    backward: bool, grid: int, block: int
) -> None:
    module, shape = waiting_kernels.chain(backward), (block, 1, 1)
    assert spans(module, shape) == {1}
    numbers = np.random.default_rng(4).integers(0, 100, grid * block).astype("<u4")
    buffers = [words(grid * block), words(grid * block), numbers.tobytes()]
    found = compare(module, buffers, (grid, 1, 1), shape, plans(module, shape))
    ordered = numbers[::-1] if backward else numbers
    want = np.cumsum(ordered)[::-1] if backward else np.cumsum(ordered)
    assert (np.frombuffer(found[1], "<u4") == want).all()


@pytest.mark.parametrize(("grid", "block"), [(1, 32), (50, 64), (7, 128)])
def test_blocks_look_back(grid: int, block: int) -> None:
    module, shape = waiting_kernels.look_back(), (block, 1, 1)
    assert max(spans(module, shape)) == 32
    numbers = np.random.default_rng(5).integers(0, 100, grid * block).astype("<u4")
    buffers = [words(4 * grid), words(grid * block), numbers.tobytes()]
    compiled = plans(module, shape)
    # How far a block looks back depends on the order of execution: only the sums are the same.
    found = compare(module, buffers, (grid, 1, 1), shape, compiled, agreed=(1,))
    want = np.cumsum(numbers.reshape(grid, block).sum(axis=1))
    have = np.frombuffer(found[1], "<u4").reshape(grid, block)
    assert (have == want[:, None] + np.arange(block)).all()


@pytest.mark.parametrize(("grid", "block"), [(1, 32), (2, 64), (33, 32), (6, 100)])
def test_all_blocks_of_a_grid_synchronise(grid: int, block: int) -> None:
    phases, threads = 5, grid * block
    module, shape = waiting_kernels.grid_barrier(phases), (block, 1, 1)
    buffers = [words(grid), words(1), words((phases + 1) * threads)]
    found = compare(module, buffers, (grid, 1, 1), shape, plans(module, shape))
    values = np.arange(threads, dtype="<u4")
    for have in np.frombuffer(found[2], "<u4").reshape(phases + 1, threads):
        assert (have == values).all()
        values = values + np.roll(values, -1)


@pytest.mark.parametrize("block", [1, 33, 64])
@pytest.mark.parametrize("turn", ["barrier", "reduced", "warp", "shuffle"])
def test_blocks_with_barriers_in_each_iteration_wait_for_one_that_has_not_begun(
    turn: str, block: int
) -> None:
    grid = 9
    module, shape = waiting_kernels.meet_and_poll(turn), (block, 1, 1)
    buffers = [words(1), words(grid * block)]
    found = compare(module, buffers, (grid, 1, 1), shape, plans(module, shape))
    assert (np.frombuffer(found[1], "<u4") == 7).all()


@pytest.mark.parametrize("block", [1, 32])
def test_one_block_feeds_another(block: int) -> None:
    items = 100
    module, shape = waiting_kernels.queue(items), (block, 1, 1)
    found = compare(module, [words(6), words(items)], (2, 1, 1), shape, plans(module, shape))
    assert (np.frombuffer(found[1], "<u4") == 3 * np.arange(items) + 7).all()


@pytest.mark.parametrize("block", [32, 64, 256])
def test_warps_pass_a_token_while_others_wait_at_a_barrier(block: int) -> None:
    module, shape = waiting_kernels.warps(), (block, 1, 1)
    assert max(spans(module, shape)) == 32
    found = compare(module, [words(3 * block)], (3, 1, 1), shape, plans(module, shape))
    warp = np.tile(np.arange(block) // 32, 3)
    assert (np.frombuffer(found[0], "<u4") == np.where(warp > 0, warp + 100, 0)).all()


@pytest.mark.parametrize("ticket", [False, True])
@pytest.mark.parametrize(("who", "step"), [("all", 1), ("warp", 32), ("block", 64)])
@pytest.mark.parametrize(("grid", "block"), [(1, 32), (3, 64)])
def test_a_lock_admits_one_thread_at_a_time(
    who: str, step: int, ticket: bool, grid: int, block: int
) -> None:
    module, shape = waiting_kernels.lock(ticket, who), (block, 1, 1)
    # In a group of one lane no lane waits for it.
    assert (max(spans(module, shape)) > 1) == (who != "all")
    step, threads = min(step, block), grid * block
    found = compare(
        module, [words(2), words(2)], (grid, 1, 1), shape, plans(module, shape), agreed=(1,)
    )
    inside = np.arange(0, threads, step)
    assert np.frombuffer(found[1], "<u4").tolist() == [inside.sum(), len(inside)]


@pytest.mark.parametrize(("grid", "block"), [(1, 32), (3, 64)])
def test_a_lock_released_in_the_same_iteration(grid: int, block: int) -> None:
    module, shape, threads = waiting_kernels.lock_within(), (block, 1, 1), grid * block
    found = compare(module, [words(1), words(2)], (grid, 1, 1), shape, plans(module, shape))
    assert np.frombuffer(found[1], "<u4").tolist() == [threads * (threads - 1) // 2, threads]


@pytest.mark.parametrize(("grid", "block"), [(1, 32), (4, 64)])
def test_updates_by_compare_and_swap_stay_in_wide_groups(grid: int, block: int) -> None:
    module, shape, threads = waiting_kernels.swaps(), (block, 1, 1), grid * block
    assert polling_loops.polling_headers(ssa.build(module.functions[0])) == frozenset()
    assert max(spans(module, shape)) == block
    buffers = [words(1), words(threads)]
    found = compare(module, buffers, (grid, 1, 1), shape, plans(module, shape), agreed=(0,))
    assert np.frombuffer(found[0], "<u4").tolist() == [threads * (threads - 1)]


@pytest.mark.parametrize(("grid", "block"), [(1, 32), (3, 64), (40, 32)])
def test_persistent_blocks_take_items_in_turn(grid: int, block: int) -> None:
    items = 50
    module, shape = waiting_kernels.persistent(items), (block, 1, 1)
    assert max(spans(module, shape)) == 32
    found = compare(module, [words(3), words(items)], (grid, 1, 1), shape, plans(module, shape))
    assert np.frombuffer(found[0], "<u4").tolist() == [items + grid, grid, items]
    assert (np.frombuffer(found[1], "<u4") == 1 + np.arange(items)).all()


@pytest.mark.parametrize("workspace", [False, True])
@pytest.mark.parametrize(("grid", "block"), [(2, 64), (33, 32), (6, 100)])
def test_a_grid_barrier_as_compilers_emit_it(grid: int, block: int, workspace: bool) -> None:
    phases, threads = 5, grid * block
    module, shape = waiting_kernels.grid_sync(phases, workspace=workspace), (block, 1, 1)
    assert max(spans(module, shape)) == 32
    buffers = [words(2), words((phases + 1) * threads)]
    found = compare(module, buffers, (grid, 1, 1), shape, plans(module, shape), symbols=0)
    assert np.frombuffer(found[0], "<u4")[int(workspace)] == 0x8000_0000
    values = np.arange(threads, dtype="<u4")
    for have in np.frombuffer(found[1], "<u4").reshape(phases + 1, threads):
        assert (have == values).all()
        values = values + np.roll(values, -1)


def test_a_sleeping_thread_lets_others_run() -> None:
    module, shape, grid = waiting_kernels.sleepers(), (64, 1, 1), 2
    buffers = [words(grid * 64), words(grid * 64)]
    found = compare(module, buffers, (grid, 1, 1), shape, plans(module, shape))
    assert (np.frombuffer(found[1], "<u4") == np.cumsum(np.tile(np.arange(64), grid))).all()


@pytest.mark.parametrize("nanoseconds", [0, 1000, 1_000_000])
def test_a_sleep_does_not_split_groups(nanoseconds: int) -> None:
    module, shape = waiting_kernels.naps(nanoseconds), (64, 1, 1)
    assert max(spans(module, shape)) == 64
    for plan in plans(module, shape):
        begin = time.monotonic_ns()
        found = compare(module, [words(128)], (2, 1, 1), shape, [plan])
        assert (np.frombuffer(found[0], "<u4") == np.arange(128)).all()
        assert time.monotonic_ns() - begin >= nanoseconds


@pytest.mark.parametrize("block", [64, 160])
def test_warps_feed_each_other_through_mbarriers(block: int) -> None:
    rounds, grid = 7, 2
    module, shape = waiting_kernels.mbarriers(rounds), (block, 1, 1)
    found = compare(module, [words(grid * block)], (grid, 1, 1), shape, plans(module, shape))
    thread = np.arange(block)
    want = sum(100 * turn + (thread + turn) % 32 for turn in range(rounds))
    want = np.where(thread < 32, 0, want)
    assert (np.frombuffer(found[0], "<u4").reshape(grid, block) == want).all()
    assert max(spans(module, shape)) == 32
