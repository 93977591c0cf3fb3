"""Figures of the performance model without an accuracy band: transcribed twice, or derived."""

from dataclasses import fields, replace

import pytest

from vgpu_sim import compiler
from vgpu_sim.perf.boards import BOARDS
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.gemm import library
from vgpu_sim.perf.kernels import unrolling
from vgpu_sim.perf.kernels.chip import Latencies, chip_of
from vgpu_sim.perf.kernels.counts import Counts
from vgpu_sim.perf.kernels.model import traffic_of
from vgpu_sim.perf.kernels.occupancy import occupancy_of
from vgpu_sim.perf.kernels.scoreboard import CHAIN, Scoreboard, chain_growth, execution_cost
from vgpu_sim.perf.models import ARCHITECTURES, Layout, Serving, predict_serving
from vgpu_sim.perf.models.graph import Step
from vgpu_sim.perf.topology import PRESETS, max_min
from vgpu_sim.perf.topology.texts import connection, matrix

# GT/s per lane by compute capability: PCIe 4.0 for Ampere and Ada, 5.0 for Hopper and Blackwell.
GT_PER_S = {(8, 0): 16, (8, 9): 16, (9, 0): 32, (10, 0): 32, (12, 0): 32}
# NVLinks per GPU, and GB/s per link in one direction, by the data sheets; 0: PCIe alone.
NVLINKS = {
    "a30": (0, 0),
    "a100-40gb": (12, 25),
    "a100-80gb": (12, 25),
    "h100-80gb": (18, 25),
    "h100-nvl": (12, 25),
    "h200": (18, 25),
    "b200": (18, 50),
    "gb200": (18, 50),
    "l40s": (0, 0),
    "rtx-pro-6000": (0, 0),
}
# Thermal design power, W, by the data sheets.
POWER = {
    "a30": 165,
    "a100-40gb": 400,
    "a100-80gb": 400,
    "h100-80gb": 700,
    "h100-nvl": 400,
    "h200": 700,
    "b200": 1000,
    "gb200": 1200,
    "l40s": 350,
    "rtx-pro-6000": 600,
}
# From published `nvidia-smi topo -m` listings, without the NVLinks: the level between each GPU and
# other GPUs and adapters. Each pair of a DGX A100 is below one port of a switch.
PAIR, NODE_OF_4 = "PXB", 4


def level_of(name: str, one: int, other: int, same_kind: bool) -> str:
    if same_kind and one == other:
        return " X "
    if name == "dgx-a100":
        # Each of the eight NUMA nodes has at most one pair.
        return PAIR if one // 2 == other // 2 else "SYS"
    if one == other:
        return PAIR
    node = 2 if name == "hgx-4" else NODE_OF_4
    return "NODE" if one // node == other // node else "SYS"


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_links_follow_from_lanes_and_rates(board) -> None:
    assert board.pcie_gb_per_s.value == 16 * GT_PER_S[board.compute_capability] / 8
    links, rate = NVLINKS[board.name]
    assert board.link_gb_per_s.value == (links * rate or board.pcie_gb_per_s.value)
    assert board.has_nvlink is bool(links)
    assert board.power_w.value == POWER[board.name]


@pytest.mark.parametrize("name", ["dgx-a100", "dgx-h100", "dgx-b200", "hgx-4"])
def test_every_cell_of_a_named_topology_is_its_listings(name: str) -> None:
    topology, board = PRESETS[name], BOARDS["a30"]  # NVLinks would hide PCIe's levels
    places = [*enumerate(topology.gpus)], [*enumerate(topology.hcas)]
    for mine in places:
        for theirs in places:
            for i, one in mine:
                for j, other in theirs:
                    cell = connection(topology, board, one, other)
                    assert cell == level_of(name, i, j, mine is theirs), (i, j)
    numa = {
        "dgx-a100": [3, 3, 1, 1, 7, 7, 5, 5],
        "hgx-4": [0, 0, 1, 1],
    }.get(name, [0, 0, 0, 0, 1, 1, 1, 1])
    gpus = range(len(topology.gpus))
    rows = list(matrix(topology, board, gpus, len(numa)))
    assert [row.split("\t")[-1] for row in rows[1 : 1 + 2 * len(numa)]] == [*map(str, numa * 2)]


@pytest.mark.parametrize(
    ("name", "architecture", "links", "between"),
    [
        ("dgx-a100", "Ampere", 12, 12),
        ("dgx-h100", "Hopper", 18, 18),
        ("dgx-h100", "Blackwell", 18, 18),
        ("dgx-b200", "Hopper", 18, 18),
        ("dgx-b200", "Blackwell", 18, 18),
        ("hgx-4", "Ampere", 12, 4),
        ("hgx-4", "Hopper", 18, 6),
        ("hgx-4", "Blackwell", 18, 6),
        ("flat", "Hopper", 0, 0),
        ("pcie-2-socket", "Hopper", 0, 0),
    ],
)
def test_gpus_reach_each_other_over_switches_or_over_a_part_of_their_links(
    name: str, architecture: str, links: int, between: int
) -> None:
    topology = PRESETS[name]
    assert topology.links_of(architecture) == links
    assert topology.links_between(architecture) == between


@pytest.mark.parametrize("capacity", [1e-3, 0.5, 1.0, 2.0])
def test_any_capacity_above_none_is_a_link(capacity: float) -> None:
    assert max_min([["link"]], {"link": capacity}) == [capacity]
    assert max_min([["link"], ["link"]], {"link": capacity}) == [capacity / 2] * 2


@pytest.mark.parametrize("capacity", [0.0, -1.0])
def test_a_link_without_capacity_is_none(capacity: float) -> None:
    with pytest.raises(BadShape, match="unknown link: link"):
        max_min([["link"]], {"link": capacity})


DENSE, EXPERTS = ARCHITECTURES["llama-3-8b"], ARCHITECTURES["deepseek-v3"]


@pytest.mark.parametrize(
    ("model", "layout", "problem"),
    [
        (DENSE, Layout(8), ""),
        (DENSE, Layout(2, pp=4), ""),
        (DENSE, Layout(1, dp=2), "has no experts: dp must be 1, not 2"),
        (DENSE, Layout(2, ep=2), "has no experts: ep must be 1, not 2"),
        (DENSE, Layout(3), "tp must be one of 1, 2, 4, 8, not 3"),
        (EXPERTS, Layout(1, dp=2), ""),
        (EXPERTS, Layout(4, dp=2, ep=8), ""),
        (EXPERTS, Layout(8, ep=8), ""),
        (EXPERTS, Layout(2, ep=4), "ep 4 must divide tp x dp, which is 2"),
        (EXPERTS, Layout(8, pp=2), "tp x pp x dp is 16: collectives among more than the 8 GPUs"),
        (EXPERTS, Layout(8, dp=2), "tp x pp x dp is 16: collectives among more than the 8 GPUs"),
        (ARCHITECTURES["llama-2-13b"], Layout(8), ""),  # 40 heads
        (replace(DENSE, heads=36), Layout(8), "36 heads: tp 8 does not divide 36"),
        (replace(DENSE, heads=36), Layout(4), ""),
    ],
)
def test_a_layout_that_fits_and_the_next_that_does_not(model, layout, problem: str) -> None:
    if not problem:
        layout.check(model)
        return
    with pytest.raises(BadShape) as refused:
        layout.check(model)
    assert problem in str(refused.value)


@pytest.mark.parametrize(("given", "made"), [(100, 1), (100, 2), (100, 3), (100, 64)])
def test_a_step_of_decode_reads_the_prompt_and_half_of_the_output(given: int, made: int) -> None:
    report = predict_serving(Serving("llama-3-8b", "h100-80gb", 1, 4, given, made))
    assert report.prefill.step == Step(4, given, given)
    assert report.decode.step == Step(4, 1, given + max(1, made // 2))


def test_bytes_of_a_launch_that_each_round_reads_again() -> None:
    """A cache that keeps a round's 0.5 MB but not the launch's 2 MB: 8 rounds read 4 MB."""
    chip = replace(chip_of("h100-80gb"), l2_bytes=1e6, l2_sharpness=100.0)
    one = dict.fromkeys((field.name for field in fields(Counts)), 0.0)
    one |= {"block_threads": 1024.0, "registers": 16.0, "unique_load_bytes": 2e6}
    blocks = 8 * chip.sms * occupancy_of(chip, 1024, 16, 0).blocks
    sectors = 10e6 / (blocks * 32)  # ten megabytes of loads in all
    one |= {"blocks": float(blocks), "l1_missed_sectors": sectors, "wave_load_bytes": 0.5e6}
    found = traffic_of(chip, Counts(**one))
    assert (found.l2, found.dram_read) == (pytest.approx(10e6), pytest.approx(4e6))
    # A cache that keeps the whole launch reads each byte once. One that keeps no round reads all
    # ten.
    for l2_bytes, read in ((1e7, 2e6), (1e5, 10e6)):
        kept = replace(chip, l2_bytes=l2_bytes)
        assert traffic_of(kept, Counts(**one)).dram_read == pytest.approx(read)


@pytest.mark.parametrize("space", ["shared", "global"])
def test_one_more_pass_over_a_wait_takes_the_latency_of_its_first_level(space: str) -> None:
    """Each pass takes both instructions' issues, the fixed waits, and the uncovered latency."""
    place = {"shared": "tile", "global": "%rd1"}[space]
    source = (
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
        ".reg .u32 %r<4>;\n.reg .u64 %rd<2>;\n.shared .align 16 .b8 tile[16];\n"
        f"ld.param.u64 %rd1, [p];\nld.{space}.u32 %r1, [{place}];\nadd.u32 %r2, %r1, 1;\n"
        "st.global.u32 [%rd1], %r2;\nret;\n}\n"
    )
    (function,) = compiler.compile_ptx(source, capability=(9, 0)).functions
    kind = {"shared": "short_waits", "global": "long_waits"}[space]
    load = [i for i, one in enumerate(function.code) if chain_growth(one)[CHAIN.index(kind)] == 1][
        -1
    ]
    use = next(
        i
        for i, one in enumerate(function.code)
        if i > load and {*function.code[load].dsts} & {*one.srcs}
    )
    board, latencies = Scoreboard(function.code), Latencies()
    for at in (load, use):
        board.step(at)
    assert getattr(board, kind) == pytest.approx(1)
    left = {
        "shared": latencies.shared,
        "global": latencies.l1 - board.long_covered,
    }[space]
    assert left > 0
    cycles, issues = execution_cost(
        function.code, (load, use), unrolling.issue_shares(function.code)
    )
    assert issues == board.warp_issued
    assert cycles == pytest.approx(issues + board.fixed_cycles + left)


LIBRARIES = {**library._CUBLAS, **{(*key, "fp8"): one for key, one in library._SGLANG_FP8.items()}}


@pytest.mark.parametrize("found", LIBRARIES.values(), ids=map(str, LIBRARIES))
def test_tiles_of_a_library_are_rows_and_columns_of_matrix_instructions(found) -> None:
    """Each side of a tile is a multiple of an instruction's; the largest tile is an existing
    one.
    """
    vectors = {library.VECTOR, *range(8, 257, 8)}
    assert set(found.tokens) <= vectors
    assert {side % 64 for side in found.features} == {0}
    sizes = {m * n for m in found.tokens for n in found.features}
    assert found.largest in sizes or found.largest == 256 * 256
    if found.dispatch is None:
        assert list(found.tokens) == sorted(set(found.tokens))
        return
    *limits, last = [tile.tokens for tile in found.dispatch]
    assert last == float("inf")
    assert limits == sorted(limits)
    assert set(limits) <= {64, 128, 256}
    assert all(tile.bm * tile.bn <= found.largest for tile in found.dispatch)
