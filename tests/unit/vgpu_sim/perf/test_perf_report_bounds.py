"""Predictions of kernels that wait for copies, end early, hash, or share a queue: every number of a
report is finite, not negative, and within what the launch and its buffers allow.
"""

import json
import math
import random

import pytest

from support.kernels import work_kernels
from support.kernels.launched_kernel import LaunchedKernel
from vgpu_sim.hal.observe.modelled_report import ModelledLaunches, parse_part
from vgpu_sim.perf.kernels import Estimate, chip_of, estimate
from vgpu_sim.perf.kernels.predict import bound_us
from vgpu_sim.worker.modelling import costs
from vgpu_sim.worker.modelling.costs import Cost

H100 = chip_of("h100-80gb")
_READ = "dram__bytes_read.sum"
_WRITTEN = "dram__bytes_write.sum"
_LOADED = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
_STORED = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"


def check(cost: Cost, *sizes: int) -> Estimate:
    """Assert what holds for every launch; return its prediction."""
    counts = cost.counts
    assert counts is not None, cost.note
    prediction = estimate(H100, counts)
    numbers = {**counts.as_dict(), **prediction.metrics(), **prediction.stack, "us": cost.us}
    wrong = {name: value for name, value in numbers.items() if not 0 <= value < math.inf}
    assert not wrong
    row = ModelledLaunches("k", (1, 1, 1), (32, 1, 1), 1, cost.us, counts.as_dict(), cost.note)
    assert parse_part({"launches": json.loads(json.dumps(row.to_json()))}) == row
    assert counts.unique_load_bytes <= sum(sizes)
    assert counts.unique_store_bytes <= sum(sizes)
    assert counts.unique_load_bytes + counts.unique_store_bytes <= 2 * sum(sizes)
    assert prediction.us >= bound_us(H100, counts)
    assert math.isclose(sum(prediction.stack.values()), prediction.us, rel_tol=1e-6)
    return prediction


@pytest.mark.parametrize(
    ("blocks", "pieces", "size"), [(4, 3, 1024), (12, 5, 512), (2, 2, 4096), (40, 1, 128)]
)
def test_a_kernel_that_waits_for_bulk_copies_reads_what_they_copy(
    blocks: int, pieces: int, size: int
) -> None:
    moved = blocks * pieces * size
    sizes = (moved, 4 * 64 * blocks)
    prediction = check(
        LaunchedKernel(H100, work_kernels.make_copy_kernel(), *sizes).launch(
            blocks, 64, pieces, size
        ),
        *sizes,
    )
    assert not prediction.is_bound
    assert prediction.counts.bulk_bytes * blocks == pytest.approx(moved)
    assert prediction.metrics()[_READ] == pytest.approx(moved, rel=0.05)
    latencies = H100.latencies  # each copy comes from DRAM, after the one before it
    assert prediction.us > H100.us(pieces * latencies.l2)
    assert prediction.counts.long_waits == pytest.approx(pieces, rel=0.05)


def test_more_copies_take_longer_also_where_the_sample_ends_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(costs, "MOST_WORDS", 2500)
    few, many = (
        check(
            LaunchedKernel(H100, work_kernels.make_copy_kernel(), 2 * n * 512, 512).launch(
                2, 64, n, 512
            ),
            2 * n * 512,
            512,
        )
        for n in (8, 64)
    )
    assert many.metrics()[_READ] == pytest.approx(2 * 64 * 512, rel=0.05)
    body = few.us - few.times.launch
    assert many.us - many.times.launch == pytest.approx(64 / 8 * body, rel=0.1)


@pytest.mark.parametrize(
    ("every", "first", "last"),
    [
        (1, 0, 512),
        (1, 0, 300),
        (1, 0, 100),
        (1, 0, 16),
        (1, 0, 1),
        (2, 0, 512),
        (2, 1, 512),
        (3, 1, 512),
        (8, 5, 512),
        (64, 1, 512),
        (256, 3, 512),
    ],
)
def test_blocks_that_end_early_move_no_bytes_and_the_others_all_of_theirs(
    every: int, first: int, last: int
) -> None:
    sizes = (512 * 128,) * 2
    kernel = LaunchedKernel(H100, work_kernels.make_early_exit_kernel(first), *sizes)
    prediction = check(kernel.launch(512, 32, every, last), *sizes)
    metrics = prediction.metrics()
    moved = 128 * len(range(first, last, every))
    assert metrics[_READ] == pytest.approx(moved, rel=0.05)
    assert metrics[_WRITTEN] == pytest.approx(moved, rel=0.05)
    assert metrics[_READ] == pytest.approx(32 * metrics[_LOADED], rel=0.05)
    assert metrics[_WRITTEN] == pytest.approx(32 * metrics[_STORED], rel=0.05)


@pytest.mark.parametrize("last", [512, 60, 8])
def test_data_that_the_blocks_of_a_part_share_is_read_once(last: int) -> None:
    text = work_kernels.make_early_exit_kernel().replace(
        "mad.lo.u32 %r4, %r1, %r2, %r0;", "mov.u32 %r4, %r0;"
    )
    kernel = LaunchedKernel(H100, text, 4096, 4096)
    assert check(kernel.launch(512, 32, 1, last), 4096).metrics()[_READ] == pytest.approx(128)


@pytest.mark.parametrize("pages", [1, 3, 16, 64])
def test_pages_that_a_hash_chooses_are_never_more_than_the_buffer(pages: int) -> None:
    sizes = (1024 * pages, 1024 * 600)
    prediction = check(
        LaunchedKernel(H100, work_kernels.make_hash_kernel(), *sizes).launch(600, 256, pages),
        *sizes,
    )
    assert prediction.counts.unique_load_bytes <= 1024 * pages
    assert prediction.metrics()[_READ] <= 1024 * pages


@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize("blocks", [6, 24])
def test_work_from_a_queue_takes_the_same_time_however_blocks_are_scheduled(
    blocks: int, space: str
) -> None:
    items = 48
    sizes = (1024 * items, 1024 * items, 256)
    orders: list[list[int] | None] = [None, [*range(blocks)], [*range(blocks)]]
    random.Random(1).shuffle(orders[2] or [])
    kernel = LaunchedKernel(H100, work_kernels.make_queue_kernel(space), *sizes)
    times = []
    for order in orders:
        kernel.clear(2)
        cost = kernel.launch(blocks, 256, items, order=order)
        prediction = check(cost, *sizes)
        assert not prediction.is_bound
        assert "divided evenly" in cost.note
        times.append(prediction.us)
    assert max(times) < 1.02 * min(times)
    each = items / blocks  # an item is fetched, and then loaded
    latencies = H100.latencies
    least = H100.us(each * 2 * latencies.l2)
    assert least < times[0] < H100.launch_us + H100.us((each + 1) * 4 * latencies.dram)
