"""Collectives on the interpreter, compared with their lane-by-lane definition."""

import random

import numpy as np
import pytest

from support.execution.interpreted_ptx import compile_verified, kernel, run
from support.kernels import warp_kernels
from vgpu_sim.exec.errors import BarrierFault

pytestmark = pytest.mark.timeout(120)

_HERE = "@!%g bra over; {0} over:"
_BOTH = "@!%g bra other; {0} bra over; other: {0} over:"


def _check(spelling: str, body: str, kind: str, count: int, *, absent: bool, both: bool) -> None:
    dice = random.Random(f"{spelling} {body} {kind} {count}")
    warps = [warp_kernels.lanes(dice, count, kind=kind, absent=absent) for _ in range(12)]
    data = b"".join(lane.pack() for warp in warps for lane in warp)
    module = compile_verified(warp_kernels.text(body), (10, 0))
    out = np.zeros(2 * count * len(warps), np.uint32)
    found = run(
        module, [out, np.frombuffer(data, np.uint8)], grid=(len(warps), 1, 1), block=(count, 1, 1)
    )
    want = []
    for warp in warps:
        if both:
            warp = [warp_kernels.Lane(x.a, x.b, x.c, x.members) for x in warp]
        want += [number for pair in warp_kernels.evaluate(spelling, warp) for number in pair]
    assert found[0].tolist() == want


@pytest.mark.parametrize("kind", ["all", "tiles", "classes", "one"])
@pytest.mark.parametrize("spelling", warp_kernels.COLLECTIVES)
def test_converged_lanes(spelling: str, kind: str) -> None:
    body = warp_kernels.instruction(spelling)
    _check(spelling, body, kind, 32, absent=False, both=False)
    _check(spelling, body, kind, 19, absent=False, both=False)


@pytest.mark.parametrize("kind", ["all", "classes"])
@pytest.mark.parametrize("spelling", warp_kernels.COLLECTIVES)
def test_lanes_that_have_ended_do_not_count(spelling: str, kind: str) -> None:
    body = f"@!%g ret; {warp_kernels.instruction(spelling)}"
    _check(spelling, body, kind, 32, absent=True, both=False)


@pytest.mark.parametrize("kind", ["all", "classes"])
@pytest.mark.parametrize("spelling", warp_kernels.COLLECTIVES)
def test_lanes_wait_for_each_other_from_both_sides_of_a_branch(spelling: str, kind: str) -> None:
    body = _BOTH.format(warp_kernels.instruction(spelling))
    _check(spelling, body, kind, 32, absent=True, both=True)


def test_awaited_lanes_may_end_later() -> None:
    body = """
        mov.u32 %r, %laneid; mov.u32 %v, 0; setp.lt.u32 %p, %r, 5; @%p bra few;
    again: add.u32 %v, %v, 1; setp.lt.u32 %q, %v, %r; @%q bra again; ret;
    few: vote.sync.ballot.b32 %v, 1, 0xffffffff;
        ld.param.u64 %a, [o]; mad.wide.u32 %a, %r, 4, %a; st.global.u32 [%a], %v;
    """
    registers = ".reg .b32 %r, %v; .reg .pred %p, %q; .reg .b64 %a;"
    (found,) = run(kernel(body, ".param .u64 o", registers=registers), [np.zeros(32, np.uint32)])
    assert found.tolist() == [31] * 5 + [0] * 27


_ACTIVE = """
    mov.u32 %r, %laneid; ld.param.u64 %a, [o]; mad.wide.u32 %a, %r, 4, %a;
    and.b32 %v, %r, 1; setp.eq.u32 %p, %v, 0; setp.lt.u32 %q, %r, 8;
    @%p bra even;
    @%q bra low;
    activemask.b32 %v; bra join;
low: @!%q activemask.b32 %v; activemask.b32 %v; bra join;
even: activemask.b32 %v;
join: st.global.u32 [%a], %v;
    activemask.b32 %v; st.global.u32 [%a+128], %v;
"""


def test_activemask_is_the_lanes_of_a_path() -> None:
    registers = ".reg .b32 %r, %v; .reg .pred %p, %q; .reg .b64 %a;"
    text = kernel(_ACTIVE, ".param .u64 o", registers=registers)
    (found,) = run(text, [np.zeros(64, np.uint32)])
    even, low, high = 0x5555_5555, 0xAA, 0xAAAA_AA00
    want = [even if lane % 2 == 0 else low if lane < 8 else high for lane in range(32)]
    assert found.tolist() == want + [0xFFFF_FFFF] * 32


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("vote.sync.ballot.b32 %v, 1, 0xfffffffe;", "lane 0 is not in the member mask 0xfffffffe"),
        (
            "shl.b32 %v, 3, %r; or.b32 %v, %v, 1; bar.warp.sync %v;",
            "lanes 0 and 1 name different member masks",
        ),
        (
            "@%p bar.warp.sync 0xffffffff; @!%p vote.sync.ballot.b32 %v, 1, 0xffffffff;",
            "no thread of the block can make progress: lanes 0x00000001 of warp 0 wait for lanes"
            " 0xfffffffe at BAR_WARP",
        ),
        (
            "@%p bar.sync 0; @!%p bar.warp.sync -1;",
            "barrier 0 has 1 of 32 lanes of a warp; lanes 0xfffffffe of warp 0 wait for lanes"
            " 0x00000001 at BAR_WARP of 0xffffffff",
        ),
    ],
)
def test_unreachable_member_masks_are_reported(body: str, message: str) -> None:
    setup = "mov.u32 %r, %laneid; setp.eq.u32 %p, %r, 0;"
    text = kernel(setup + body, registers=".reg .b32 %r, %v; .reg .pred %p;")
    with pytest.raises(BarrierFault, match=message):
        run(text, [])


_REDUCED = """
    mov.u32 %r, %tid.x; ld.param.u64 %a, [o]; mad.wide.u32 %a, %r, 12, %a;
    setp.ge.u32 %p, %r, {ended}; @%p ret;
    rem.u32 %v, %r, 7; setp.lt.u32 %p, %v, {least};
    bar.red.popc.u32 %v, 0, %p; st.global.u32 [%a], %v;
    barrier.cta.red.and.aligned.pred %q, 3, !%p; selp.b32 %v, 1, 0, %q; st.global.u32 [%a+4], %v;
    bar.cta.red.or.pred %q, 0, 160, %p; selp.b32 %v, 1, 0, %q; st.global.u32 [%a+8], %v;
"""


@pytest.mark.parametrize("least", [0, 3, 7])
@pytest.mark.parametrize("ended", [150, 140])
def test_barriers_reduce_over_the_arriving_threads(least: int, ended: int) -> None:
    registers = ".reg .b32 %r, %v; .reg .pred %p, %q; .reg .b64 %a;"
    text = kernel(_REDUCED.format(least=least, ended=ended), ".param .u64 o", registers=registers)
    (found,) = run(text, [np.zeros((150, 3), np.uint32)], block=(150, 1, 1))
    true = [thread % 7 < least for thread in range(ended)]
    want = [sum(true), int(not any(true)), int(any(true))]
    assert found.tolist() == [want if thread < ended else [0] * 3 for thread in range(150)]
