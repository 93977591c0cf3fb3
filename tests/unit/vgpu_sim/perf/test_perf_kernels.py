"""Predictions of users' kernels: counts, physical bounds, and the order that textbooks state."""

from pathlib import Path

import numpy as np
import pytest

from support.kernels.sampled_kernels import predict
from support.kernels.textbook_kernels import (
    COUNT,
    PAIRS,
    Variant,
    banks,
    copy,
    histogram,
    transpose,
)
from vgpu_sim import compiler
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.kernels import Estimate, chip_of, estimate, footprint, reuse, unrolling
from vgpu_sim.perf.kernels.occupancy import occupancy_of
from vgpu_sim.perf.kernels.predict import bound_us

_EXAMPLES = Path(__file__).parents[4] / "examples"
H100 = chip_of("h100-80gb")
_LOADS = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"


def estimate_of(variant: Variant) -> Estimate:
    return predict(
        H100,
        variant.source,
        variant.buffers,
        variant.numbers,
        grid=variant.grid,
        block=variant.block,
    )


def test_variants_rank_as_the_textbook_says_and_no_time_is_below_a_bound() -> None:
    sampled = {name: [estimate_of(one) for one in pair] for name, pair in PAIRS.items()}
    for board in ("h100-80gb", "a100-80gb", "b200", "rtx-pro-6000"):
        chip, wrong = chip_of(board), []
        for name, pair in sampled.items():
            better, worse = (estimate(chip, one.counts) for one in pair)
            for one in (better, worse):
                assert one.us >= bound_us(chip, one.counts) > 0, (board, name)
            if not better.us * 1.005 < worse.us:  # smaller differences are not significant
                wrong.append(name)
        assert len(wrong) <= len(PAIRS) // 10, (board, wrong)


def test_a_tiled_product_of_the_examples_is_faster_than_one_without_tiles() -> None:
    n = 128
    square, numbers = [4 * n * n] * 3, {"tiled_sgemm": [n], "sgemm": [n, n, n]}
    found = {}
    for name, block in (("tiled_sgemm", 16), ("sgemm", 32)):
        source = (_EXAMPLES / f"{name}.ptx").read_text()
        threads = (block, 256 // block, 1)
        grid = (n // threads[0], n // threads[1], 1)
        found[name] = predict(H100, source, square, numbers[name], grid=grid, block=threads)
    for board in ("h100-80gb", "a100-80gb", "b200", "rtx-pro-6000"):
        times = {n: estimate(chip_of(board), one.counts).us for n, one in found.items()}
        assert times["tiled_sgemm"] * 1.1 < times["sgemm"], board


@pytest.mark.parametrize(
    ("loop", "shares"),
    [
        # A constant count: the counting is eliminated, and four adjacent loads are combined.
        ("ld.shared.f32 %f0, [%r1];\nadd.u32 %r1, %r1, 4;\n", [1 / 4, 1 / 16]),
        # Loads that are not adjacent, and a volatile access, which others can observe.
        ("ld.shared.f32 %f0, [%r1];\nadd.u32 %r1, %r1, 64;\n", [1, 1 / 16]),
        ("ld.volatile.shared.f32 %f0, [%r1];\nadd.u32 %r1, %r1, 4;\n", [1, 1 / 16]),
        # The register is also used as a value in each iteration.
        ("ld.shared.f32 %f0, [%r1];\nadd.u32 %r1, %r1, 4;\nxor.b32 %r3, %r3, %r1;\n", [1, 1, 1]),
    ],
)
def test_what_the_hardwares_compiler_leaves_of_a_short_loop(loop: str, shares: list[float]) -> None:
    def code(bound: str) -> list[float]:
        source = (
            ".version 8.5\n.target sm_80\n.address_size 64\n"
            ".visible .entry k(.param .u32 n)\n{\n.shared .align 16 .b8 tile[2048];\n"
            ".reg .b32 %r<9>;\n.reg .f32 %f<3>;\n.reg .pred %p<2>;\n"
            "ld.param.u32 %r4, [n];\nmov.u32 %r1, tile;\nmov.u32 %r3, 0;\nmov.u32 %r2, 0;\n"
            f"LOOP:\n{loop}add.u32 %r2, %r2, 1;\n"
            f"setp.lt.u32 %p1, %r2, {bound};\n@%p1 bra LOOP;\nst.shared.f32 [tile], %f0;\n"
            "st.shared.u32 [tile+4], %r3;\nret;\n}\n"
        )
        (function,) = compiler.compile_ptx(source, capability=(8, 0)).functions
        end = next(i for i, word in enumerate(function.code) if word.target is not None)
        begin = function.code[end].target
        assert begin is not None
        return unrolling.issue_shares(function.code)[begin : end + 1]

    assert code("16") == pytest.approx([*shares, 1 / 16, 1 / 16, 1 / 16])
    # A longer loop is unrolled four times, and one whose count is not a constant is not.
    partly = [1 / 4 if share == 1 / 16 else share for share in shares]
    assert code("64") == pytest.approx([*partly, 1 / 4, 1 / 4, 1 / 4])
    assert set(code("%r4")) == {1}


def test_sectors_of_a_request_are_counted() -> None:
    assert estimate_of(copy()).metrics()[_LOADS] == 4
    assert estimate_of(copy(stride=2)).metrics()[_LOADS] == 8
    assert estimate_of(copy(stride=32)).metrics()[_LOADS] == 32
    assert estimate_of(copy(width=4)).metrics()[_LOADS] == 16
    assert estimate_of(copy(offset=1)).metrics()[_LOADS] == 5


def test_bytes_of_a_copy_are_its_buffers() -> None:
    found = estimate_of(copy()).metrics()
    assert found["dram__bytes_read.sum"] == pytest.approx(4 * COUNT, rel=0.01)
    assert found["dram__bytes_write.sum"] == pytest.approx(4 * COUNT, rel=0.01)


@pytest.mark.parametrize(("stride", "ways"), [(1, 1), (2, 2), (8, 8), (32, 32), (33, 1)])
def test_bank_conflicts_are_counted(stride: int, ways: int) -> None:
    variant = banks(stride)
    requests = 32 * 8 * variant.grid[0]
    # 256 threads wrap after 4096 words: the last warps of a wide stride use the first words again.
    assert estimate_of(variant).metrics()[_CONFLICTS] == pytest.approx(
        requests * (ways - 1), rel=0.01
    )


def test_a_tile_with_padding_has_no_conflicts() -> None:
    assert estimate_of(transpose(33)).metrics()[_CONFLICTS] == 0
    assert estimate_of(transpose(32)).metrics()[_CONFLICTS] > 0


def test_updates_of_one_address_wait_for_each_other() -> None:
    found = estimate_of(histogram(False))
    assert found.counts.hot_updates == 2048 * 8 * 16  # a warp's lanes are one update
    assert found.bound_by == "one address"


def test_causes_add_to_the_time() -> None:
    for variant in (copy(), banks(8), histogram(False)):
        found = estimate_of(variant)
        assert sum(found.stack.values()) == pytest.approx(found.us)


def test_stalls_name_the_reason_of_the_wait() -> None:
    stall = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    memory, conflicts = estimate_of(copy()).metrics(), estimate_of(banks(32)).metrics()
    assert memory[stall.format("long_scoreboard")] > memory[stall.format("wait")]
    assert conflicts[stall.format("mio_throttle")] > conflicts[stall.format("long_scoreboard")]


def test_a_slice_takes_its_share_of_everything() -> None:
    eighth = chip_of("h100-80gb", 16, (1, 8))
    variant = copy()
    small = predict(eighth, variant.source, variant.buffers, grid=variant.grid, block=variant.block)
    whole = estimate_of(variant)
    body = whole.us - whole.times.launch
    assert (small.us - small.times.launch) / body == pytest.approx(8, rel=0.1)
    with pytest.raises(BadShape, match="133 of 132 multiprocessors"):
        chip_of("h100-80gb", 133)


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks", "limiter"),
    [  # NVIDIA's occupancy calculator, compute capability 9.0
        (256, 32, 0, 8, "registers"),
        (256, 64, 0, 4, "registers"),
        (1024, 32, 0, 2, "registers"),
        (128, 255, 0, 2, "registers"),
        (64, 16, 0, 32, "warps"),
        (256, 16, 48 << 10, 4, "shared memory"),
        (32, 16, 0, 32, "blocks"),
    ],
)
def test_occupancy(threads: int, registers: int, shared: int, blocks: int, limiter: str) -> None:
    found = occupancy_of(H100, threads, registers, shared)
    assert (found.blocks, found.limiter) == (blocks, limiter)


def test_a_block_that_does_not_fit_is_refused() -> None:
    with pytest.raises(BadShape, match="no block of 256 threads"):
        occupancy_of(H100, 256, 16, 300 << 10)


def test_a_cache_that_holds_a_loop_misses_once_and_a_smaller_one_always() -> None:
    loop = np.tile(np.arange(1000, dtype=np.int64), 20)
    assert reuse.misses(loop, 1200) == 1000
    assert reuse.misses(loop, 800) == len(loop)
    assert reuse.misses(loop[:0], 10) == 0


def test_shared_bytes_of_blocks_count_once() -> None:
    everywhere = {1: 1.0, 4: 1.0, 16: 1.0}
    nowhere = {1: 0.0, 4: 0.0, 16: 0.0}
    rows = footprint.bytes_touched(100, (64, 32, 1), [everywhere, nowhere, {}])
    assert rows == pytest.approx(100 * 32, rel=0.02)
    assert footprint.bytes_touched(100, (64, 32, 1), [everywhere, everywhere, {}]) == pytest.approx(
        100
    )
    assert footprint.bytes_touched(100, (64, 1, 1), [nowhere, {}, {}]) == pytest.approx(6400)
    halo = footprint.bytes_touched(100, (64, 1, 1), [{1: 0.1, 2: 0.0, 4: 0.0}, {}, {}])
    assert halo == pytest.approx(100 + 63 * 90, rel=0.01)


def test_probes_are_inside_the_grid() -> None:
    for grid in ((1, 1, 1), (7, 3, 2), (1 << 20, 1, 1)):
        found = footprint.blocks_to_sample(grid, 16)
        assert len(set(found)) == len(found)
        assert all(0 <= at < size for place in found for at, size in zip(place, grid, strict=True))


def test_a_loop_that_waits_for_ever_ends_the_sample_and_says_so() -> None:
    source = """.version 8.5
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {
.reg .b64 %rd<3>;
.reg .b32 %r<3>;
.reg .pred %p<2>;
ld.param.u64 %rd1, [p];
WAIT:
ld.volatile.global.u32 %r1, [%rd1];
setp.eq.u32 %p1, %r1, 0;
@%p1 bra WAIT;
ret;
}
"""
    found = predict(H100, source, [4096], grid=(2, 1, 1), block=(32, 1, 1), most_words=1000)
    assert any("at least" in note for note in found.notes)
