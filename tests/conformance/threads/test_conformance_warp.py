"""Collectives: interpreter, JIT under its plans, and their lane-by-lane definition agree."""

import random

import numpy as np
import pytest

from support.execution.both_backends import Bench, compare, compiler
from support.execution.interpreted_ptx import compile_verified
from support.kernels import warp_kernels
from vgpu_sim.exec import jit
from vgpu_sim.exec.errors import BarrierFault
from vgpu_sim.isa import Module

Shape = tuple[int, int, int]
pytestmark = pytest.mark.timeout(300)


def _plans(module: Module, block: Shape, count: int = 3) -> list[jit.Plan | None]:
    legal = compiler().legal_plans(module, block)
    step = max(1, len(legal) // count)
    lane_by_lane = [plan for plan in legal if plan == jit.Plan(1, 1)]
    return [None, *lane_by_lane, *legal[step // 2 :: step]]


def _check(
    spelling: str,
    body: str,
    kind: str,
    block: Shape,
    *,
    absent: bool = False,
    both: bool = False,
    wide: bool = True,
) -> None:
    dice = random.Random(f"{spelling} {body} {kind} {block}")
    threads, grid = block[0] * block[1] * block[2], 3
    warps = [
        warp_kernels.lanes(dice, min(32, threads - first), kind=kind, absent=absent)
        for _ in range(grid)
        for first in range(0, threads, 32)
    ]
    data = b"".join(lane.pack() for warp in warps for lane in warp)
    module = compile_verified(warp_kernels.text(body), (10, 0))
    legal = compiler().legal_plans(module, block)
    assert any(plan.width > 1 for plan in legal) == wide
    buffers = [bytes(8 * threads * grid), data]
    found = compare(module, buffers, (grid, 1, 1), block, _plans(module, block))
    want = []
    for warp in warps:
        if both:
            warp = [warp_kernels.Lane(x.a, x.b, x.c, x.members) for x in warp]
        want += [number for pair in warp_kernels.evaluate(spelling, warp) for number in pair]
    assert np.frombuffer(found[0], "<u4").tolist() == want


@pytest.mark.parametrize("kind", ["all", "classes"])
@pytest.mark.parametrize("spelling", warp_kernels.COLLECTIVES)
def test_converged_lanes(spelling: str, kind: str) -> None:
    _check(spelling, warp_kernels.instruction(spelling), kind, (64, 1, 1))


@pytest.mark.parametrize("block", [(16, 1, 1), (8, 4, 2), (16, 4, 1), (4, 8, 1), (48, 1, 1)])
@pytest.mark.parametrize("spelling", warp_kernels.COLLECTIVES[::3])
def test_blocks_of_other_shapes(spelling: str, block: Shape) -> None:
    _check(spelling, warp_kernels.instruction(spelling), "tiles", block)


@pytest.mark.parametrize("spelling", warp_kernels.COLLECTIVES)
def test_constant_member_masks(spelling: str) -> None:
    body = warp_kernels.instruction(spelling, members="0xffffffff")
    _check(spelling, body, "all", (64, 1, 1))
    _check(spelling, body, "all", (16, 2, 1))


@pytest.mark.parametrize(
    "way", [(b, c) for b in (0, 1, 5, 16, 31) for c in (0, 31, 0x181F, 0x1C03)]
)
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_a_shuffle_by_constant_lanes(mode: str, way: tuple[int, int]) -> None:
    spelling = f"shfl.sync.{mode}.b32"
    dice = random.Random(f"{mode}{way}")
    warps = [warp_kernels.lanes(dice, 32, kind="all") for _ in range(4)]
    given = [[warp_kernels.Lane(x.a, *way, x.members) for x in warp] for warp in warps]
    data = b"".join(lane.pack() for warp in given for lane in warp)
    body = warp_kernels.instruction(spelling, way=(str(way[0]), str(way[1])), members="-1")
    module = compile_verified(warp_kernels.text(body), (10, 0))
    plans = [jit.Plan(16, 2), jit.Plan(16, 4), jit.Plan(8, 4, tier=0)]
    found = compare(module, [bytes(1024), data], (2, 1, 1), (64, 1, 1), plans)
    want = [n for warp in given for pair in warp_kernels.evaluate(spelling, warp) for n in pair]
    assert np.frombuffer(found[0], "<u4").tolist() == want


@pytest.mark.parametrize("kind", ["all", "classes"])
@pytest.mark.parametrize("spelling", warp_kernels.COLLECTIVES[::2])
def test_lanes_that_have_ended_do_not_count(spelling: str, kind: str) -> None:
    body = f"@!%g ret; {warp_kernels.instruction(spelling)}"
    _check(spelling, body, kind, (64, 1, 1), absent=True)


@pytest.mark.parametrize("kind", ["all", "classes"])
@pytest.mark.parametrize("spelling", warp_kernels.COLLECTIVES[::2])
def test_lanes_wait_for_each_other_from_both_sides_of_a_branch(spelling: str, kind: str) -> None:
    one = warp_kernels.instruction(spelling)
    body = f"@!%g bra other; {one} bra over; other: {one} over:"
    _check(spelling, body, kind, (32, 2, 1), absent=True, both=True, wide=False)


@pytest.mark.parametrize("spelling", warp_kernels.COLLECTIVES[::2])
def test_the_lanes_of_one_side_that_voted_for_it(spelling: str) -> None:
    one = warp_kernels.instruction(spelling)
    body = f"vote.sync.ballot.b32 %m, %g, -1; @!%g bra over; {one} over:"
    _check(spelling, body, "all", (64, 1, 1), absent=True)


@pytest.mark.parametrize("spelling", warp_kernels.COLLECTIVES[::2])
def test_the_lanes_that_are_active_on_one_side(spelling: str) -> None:
    one = warp_kernels.instruction(spelling)
    body = f"@!%g bra over; activemask.b32 %m; {one} over:"
    _check(spelling, body, "all", (64, 1, 1), absent=True)


_ENDINGS = {
    "vote.sync.ballot.b32 %d, 1, 0xfffffffe;": "is not in the member mask",
    "shl.b32 %m, 3, %t; or.b32 %m, %m, 1; bar.warp.sync %m;": "name",
    "setp.eq.u32 %q, %t, 0; @%q bar.warp.sync -1; @!%q vote.sync.ballot.b32 %d, 1, -1;": "for lanes",
    "setp.eq.u32 %q, %t, 0; @%q bar.sync 0; @!%q bar.warp.sync -1;": "barrier 0 has 1 of 32",
    "min.u32 %x, %t, 0; add.u32 %x, %x, 16; bar.sync %x;": "barrier 17 does not exist",
}


@pytest.mark.parametrize("body", _ENDINGS)
def test_waiting_for_what_cannot_arrive_ends_the_context(body: str) -> None:
    module = compile_verified(warp_kernels.text(body), (10, 0))
    bench = Bench(bytes(512), bytes(24 * 64))
    try:
        parameters = b"".join(a.to_bytes(8, "little") for a in bench.addresses())
        with pytest.raises(BarrierFault, match=_ENDINGS[body]):
            bench.interpret(module, (1, 1, 1), (32, 1, 1), parameters)
        for plan in _plans(module, (32, 1, 1)):
            with pytest.raises(AssertionError, match="status=719"):
                bench.execute(module, (1, 1, 1), (32, 1, 1), parameters, plan)
    finally:
        bench.close()


_REDUCED = """
    rem.u32 %x, %t, 7; setp.lt.u32 %f, %x, {least}; setp.ge.u32 %q, %t, {ended}; @%q ret;
    bar.red.popc.u32 %d, 0, %f;
    barrier.cta.red.and.aligned.pred %q, 3, !%f; selp.b32 %x, 1000, 0, %q; add.u32 %d, %d, %x;
    bar.cta.red.or.pred %p, 0, {count}, %f;
"""


@pytest.mark.parametrize("block", [(64, 1, 1), (150, 1, 1), (16, 8, 1), (24, 4, 1), (1, 1, 1)])
@pytest.mark.parametrize("least", [0, 3, 7])
def test_barriers_reduce_over_the_arriving_threads(block: Shape, least: int) -> None:
    threads = block[0] * block[1] * block[2]
    ended = max(1, threads - 9)
    text = _REDUCED.format(least=least, ended=ended, count=-(-threads // 32) * 32)
    module = compile_verified(warp_kernels.text(text), (10, 0))
    buffers = [bytes(8 * threads * 2), bytes(24 * threads * 2)]
    found = compare(module, buffers, (2, 1, 1), block, _plans(module, block))
    true = [thread % 7 < least for thread in range(ended)]
    want = [sum(true) + 1000 * (not any(true)), int(any(true))]
    each = want * ended + [0, 0] * (threads - ended)
    assert np.frombuffer(found[0], "<u4").tolist() == each * 2


@pytest.mark.parametrize("block", [(64, 1, 1), (33, 1, 1), (5, 3, 1)])
def test_a_shuffled_value_is_shuffled_again(block: Shape) -> None:
    steps = "".join(
        f"shfl.sync.bfly.b32 %d|%q, %a, {n}, 31, -1; selp.b32 %d, %d, {n}, %q; add.u32 %a, %a, %d;"
        for n in (1, 2, 4, 8, 16)
    )
    module = compile_verified(warp_kernels.text(steps), (10, 0))
    threads = block[0] * block[1] * block[2]
    data = np.random.default_rng(4).integers(0, 1 << 32, 6 * threads * 2, np.uint32).tobytes()
    compare(module, [bytes(8 * threads * 2), data], (2, 1, 1), block, _plans(module, block))
