"""Counts of the performance model by hand: small inputs whose results a reader can verify."""

import numpy as np
import pytest

from vgpu_sim import compiler
from vgpu_sim.perf.kernels import reuse, unrolling
from vgpu_sim.perf.kernels.chip import Latencies
from vgpu_sim.perf.kernels.scoreboard import Scoreboard
from vgpu_sim.perf.kernels.timeline import Timeline
from vgpu_sim.perf.models import ARCHITECTURES, Layout
from vgpu_sim.perf.models.graph import Shard
from vgpu_sim.perf.models.memory import memory

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"


def test_overlapping_requests_cover_their_time_once() -> None:
    """Launches at 2..102 and 4..54 overlap; the host issues the third at 304, so 202 are idle."""
    line = Timeline()
    first = line.launch(1, 1, (), 100.0, 0.25)
    second = line.launch(2, 1, (), 50.0, 0.25)
    assert (first.start, first.end, second.start, second.end) == (2, 102, 4, 54)
    assert (line.span_us, line.gaps_us) == (100, 0)
    line.copy(3, 1, (), 298.0, "HtoD", host_waits=True)  # 5..303
    assert line.gaps_us == 0
    line.launch(1, 2, (), 10.0, 0.25)
    assert (line.span_us, line.gaps_us) == (313, 2)


@pytest.mark.parametrize("count", [1, 2, 5, 100])
def test_a_cyclic_walk_hits_where_all_of_it_fits_and_never_else(count: int) -> None:
    """LRU evicts each of ``capacity`` + 1 sectors just before its next access."""
    walk = np.tile(np.arange(count), 8)
    assert reuse.misses(walk, count) == count
    if count > 1:
        assert reuse.misses(walk, count - 1) == len(walk)


@pytest.mark.parametrize(
    ("relation", "bound", "rounds"),
    [("lt", 15, 15), ("le", 15, 16), ("ne", 15, 15), ("lt", 16, 16), ("le", 31, 32)],
)
def test_rounds_follow_the_comparison(relation: str, bound: int, rounds: int) -> None:
    """A counter from 0 in steps of 1: the loop's own instructions are issued once in ``rounds``."""
    source = (
        f"{HEAD}.visible .entry k()\n{{\n.reg .u32 %r<4>;\n.reg .pred %p<2>;\n"
        ".shared .align 16 .b8 tile[16];\nmov.u32 %r3, 1;\nmov.u32 %r2, 0;\n"
        "LOOP:\nmul.lo.u32 %r3, %r3, 3;\nadd.u32 %r2, %r2, 1;\n"
        f"setp.{relation}.u32 %p1, %r2, {bound};\n@%p1 bra LOOP;\n"
        "st.shared.u32 [tile], %r3;\nret;\n}\n"
    )
    (function,) = compiler.compile_ptx(source, capability=(9, 0)).functions
    end = next(i for i, one in enumerate(function.code) if one.target is not None)
    assert unrolling.issue_shares(function.code)[end] == pytest.approx(1 / rounds)


def test_a_wait_for_two_loads_is_covered_since_the_second() -> None:
    """Between the second load and the sum are two instructions of one issue each."""
    source = (
        f"{HEAD}.visible .entry k(.param .u64 p)\n{{\n.reg .u32 %r<6>;\n.reg .u64 %rd<2>;\n"
        "ld.param.u64 %rd1, [p];\nld.global.u32 %r1, [%rd1];\nmov.u32 %r3, 1;\nmov.u32 %r4, 2;\n"
        "mov.u32 %r5, 3;\nld.global.u32 %r2, [%rd1+4];\nadd.u32 %r3, %r3, 1;\nadd.u32 %r4, %r4, 1;\n"
        "add.u32 %r1, %r1, %r2;\nst.global.v4.u32 [%rd1], {%r1, %r3, %r4, %r5};\nret;\n}\n"
    )
    (function,) = compiler.compile_ptx(source, capability=(9, 0)).functions
    names = [one.op.name for one in function.code]
    loads = [i for i, one in enumerate(function.code) if one.op.name == "LD"]
    first, second = loads[-2:]
    use = next(
        i
        for i, one in enumerate(function.code)
        if i > second and {*function.code[first].dsts, *function.code[second].dsts} <= {*one.srcs}
    )
    board = Scoreboard(function.code)
    for at in range(use):
        board.step(at)
    assert board.long_waits == 0, names
    issued = board.warp_issued
    upto_second = Scoreboard(function.code)
    for at in range(second + 1):
        upto_second.step(at)
    board.step(use)
    assert board.long_waits == 1
    assert board.fixed_cycles == 0
    assert board.long_covered == issued - upto_second.warp_issued
    assert issued - upto_second.warp_issued < Latencies().l2


def test_a_rank_holds_its_experts_and_its_part_of_what_all_tokens_share() -> None:
    """DeepSeek-V3 on 4 x 2 ranks: routed experts over 8 of them, the shared one and attention over
    4.

    Sizes are those of the published configuration: 61 layers of width 7168, 3 of them dense
    (18432), 58 with 256 experts of 2048; latent attention with ranks 1536 and 512 + 64, 128
    heads of 128 + 64.
    """
    found = memory(Shard(ARCHITECTURES["deepseek-v3"], "h200", Layout(4, 1, 2, 8), "fp8"), 1, 1, 1)
    heads = 128 / 4
    latent = 7168 * (1536 + 576) + 1536 * heads * 192 + 512 * heads * 256 + heads * 128 * 7168
    expert = 3 * 7168 * 2048
    weights = 61 * latent + 58 * (256 / 8 * expert + expert / 4) + 3 * 3 * 7168 * 18432 / 4
    in_bf16 = 58 * 256 * 7168 + 2 * 129280 * 7168 / 4
    assert found.weights == pytest.approx((weights + 2 * in_bf16) / 1e9, rel=1e-6)
