"""Kernels whose lanes exchange values through shared memory without waiting run in whole warps."""

import numpy as np
import pytest

from support.execution.both_backends import compare
from support.execution.interpreted_ptx import compile_verified, kernel
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.planning import choose, forms, tiers
from vgpu_sim.exec.jit.planning.plan import Block
from vgpu_sim.exec.jit.progress.exchanges import exchanges_without_waits
from vgpu_sim.isa import Module

REGISTERS = ".reg .b64 %d, %o, %a; .reg .b32 %t, %v, %w, %s, %r, %i, %n; .reg .pred %p;"
BEGIN = """ld.param.u64 %d, [p]; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.u64 %a, %d, %o;
ld.global.u32 %v, [%a]; mov.u32 %s, s; shl.b32 %r, %t, 2; add.u32 %w, %s, %r;"""
STORE = "st.shared.u32 [%w], %v;"
# The lane at the other end of the warp: 31 - lane, in a block of warps.
OTHER = "xor.b32 %r, %t, 31; shl.b32 %r, %r, 2; add.u32 %r, %s, %r; ld.shared.u32 %v, [%r];"
OWN = "ld.shared.u32 %v, [%w];"
LOOP = "mov.u32 %i, 0; L: {0} add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 4; @%p bra L;"


def _kernel(body: str) -> Module:
    text = f"{BEGIN} {body} st.global.u32 [%a+1024], %v;"
    return compile_verified(
        kernel(text, ".param .u64 p", registers=f"{REGISTERS} .shared .align 4 .b8 s[1024];")
    )


@pytest.mark.parametrize(
    ("body", "exchanges"),
    [
        (STORE + OTHER, True),
        (STORE + "ld.shared.u32 %v, [%w+64];", True),
        (LOOP.format(OTHER + STORE), True),  # the next iteration loads what this one stores
        ("setp.lt.u32 %p, %v, 9; @%p bra M; bar.sync 0; M:" + STORE + OTHER, True),
        (STORE + "setp.lt.u32 %p, %v, 9; @%p bra M; bar.sync 0; M:" + OTHER, True),
        (STORE + OWN, False),
        (OTHER + STORE, False),
        (STORE, False),
        (OTHER, False),
        (STORE + "bar.sync 0;" + OTHER, False),
        (STORE + "bar.warp.sync -1;" + OTHER, False),
        (LOOP.format(STORE + "bar.sync 0;" + OTHER), False),
        (LOOP.format(STORE + "bar.sync 0;" + OTHER + STORE), False),
    ],
)
def test_a_load_of_what_another_lane_stored_is_found(body: str, exchanges: bool) -> None:
    form = forms.build(_kernel(body).functions[0], (32, 1, 1), best=True)
    assert exchanges_without_waits(form) is exchanges


# Each lane follows a list whose length differs from lane to lane. If its stores did not have to be
# seen by other lanes, such a kernel would run lane by lane.
LISTS = """mov.u32 %i, 0; and.b32 %n, %v, 7; L: and.b32 %r, %v, 31; mul.wide.u32 %o, %r, 4; add.u64 %o, %d, %o;
ld.global.u32 %v, [%o]; add.u32 %i, %i, 1; setp.le.u32 %p, %i, %n; @%p bra L;"""


def _follow_list(numbers: list[int], lane: int) -> int:
    value = numbers[lane]
    for _ in range((numbers[lane] & 7) + 1):
        value = numbers[value & 31]
    return value


@pytest.mark.parametrize("block", [(32, 1, 1), (64, 1, 1), (256, 1, 1)])
def test_a_warp_of_divergent_lanes_exchanges_values(block: Block) -> None:
    apart, together = _kernel(LISTS), _kernel(LISTS + STORE + OTHER)
    form = forms.build(apart.functions[0], block, best=True)
    assert choose.choose(form, block, 512) == jit.Plan(1, 1)
    form = forms.build(together.functions[0], block, best=True)
    best = choose.choose(form, block, 512)
    first, _ = tiers.first_tier_plan(form, block, 512)
    assert best.geometry(block).whole_warps
    assert first is None or first.geometry(block).whole_warps

    numbers = np.random.default_rng(5).integers(0, 1 << 20, block[0], dtype="<u4").tolist()
    data = np.array([*numbers, *[0] * 256], "<u4").tobytes()
    (found,) = compare(together, [data], (1, 1, 1), block, [None])
    want = [_follow_list(numbers, lane ^ 31) for lane in range(block[0])]
    assert np.frombuffer(found, "<u4")[256 : 256 + block[0]].tolist() == want
