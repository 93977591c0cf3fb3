"""wgmma: a warp that has passed a wait, or a fence where nothing is multiplied, may free what all warps
of its warpgroup read.
"""

import numpy as np
import pytest

from support.execution.both_backends import compare
from support.execution.interpreted_ptx import compile_verified
from vgpu_sim.exec import jit
from vgpu_sim.isa import Module

_PLANS = (None, jit.Plan(1, 1), jit.Plan(16, 2))
_PRODUCT = (
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3},"
    " {%r, %r, %r, %r}, %b, 1, 1, 1, 0;"
)
_COMMIT = "wgmma.commit_group.sync.aligned;"


def _module(warpgroups: int, late: int, pending: int) -> Module:
    """Return a kernel whose warpgroups multiply ones by ones (16 each time); then one thread of
    each warpgroup frees B, which the last warp overwrites by zeros.

    Of each warpgroup, warp ``late`` begins late. ``pending`` groups may be incomplete when B is
    freed; they have no products.
    """
    return compile_verified(
        f"""
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{{
  .shared .align 128 .b8 tile[256];
  .shared .align 8 .b64 free;
  .reg .b64 %o, %x, %b; .reg .b32 %t, %w, %a, %s, %r, %n; .reg .f32 %f<4>; .reg .pred %p, %q;
  ld.param.u64 %o, [out];
  mov.u32 %t, %tid.x; mov.u32 %s, tile; shr.u32 %w, %t, 5;
  setp.eq.u32 %p, %t, 0;
  @%p mbarrier.init.shared::cta.b64 [free], {warpgroups};
  setp.lt.u32 %q, %t, 64; shl.b32 %a, %t, 2; add.u32 %a, %a, %s;
  @%q st.shared.b32 [%a], 0x3c003c00;
  fence.proxy.async;
  bar.sync 0;
  setp.ge.u32 %p, %w, {4 * warpgroups};
  @%p bra PRODUCER;
  and.b32 %a, %w, 3;
  setp.ne.u32 %p, %a, {late};
  @%p bra GO;
  mov.u32 %n, 40;
WORK:
  shfl.sync.idx.b32 %r, %t, 0, 31, 0xffffffff;
  sub.u32 %n, %n, 1; setp.ne.u32 %q, %n, 0;
  @%q bra WORK;
GO:
  shr.u32 %r, %s, 4; and.b32 %r, %r, 0x3fff;
  cvt.u64.u32 %b, %r; or.b64 %b, %b, 0x0000000800080000;
  mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
  mov.b32 %r, 0x3c003c00;
  wgmma.fence.sync.aligned;
  {_PRODUCT}
  {_COMMIT}
  {_COMMIT * pending}
  wgmma.wait_group.sync.aligned {pending};
  and.b32 %a, %t, 127; setp.eq.u32 %p, %a, 0;
  @%p mbarrier.arrive.shared::cta.b64 _, [free];
  mul.wide.u32 %x, %t, 4; add.u64 %o, %o, %x;
  st.global.f32 [%o], %f3;
  ret;
PRODUCER:
E:
  mbarrier.try_wait.parity.shared::cta.b64 %q, [free], 0; @!%q bra E;
  and.b32 %a, %t, 31; shl.b32 %a, %a, 3; add.u32 %a, %a, %s;
  st.shared.b64 [%a], 0;
  ret;
}}
""",
        (9, 0),
    )


@pytest.mark.parametrize("late", range(1, 4))
@pytest.mark.parametrize(("warpgroups", "pending"), [(1, 0), (1, 1), (2, 0), (7, 2)])
def test_factors_may_be_overwritten_after_one_warp_has_waited(
    warpgroups: int, late: int, pending: int
) -> None:
    threads = 128 * warpgroups
    module = _module(warpgroups, late, pending)
    (found,) = compare(module, [bytes(4 * threads)], (1, 1, 1), (threads + 32, 1, 1), _PLANS)
    assert (np.frombuffer(found, np.float32) == 16).all()


@pytest.mark.parametrize("threads", [32, 96, 100, 128, 160, 224, 256])
def test_commits_of_part_of_a_warpgroup_do_not_wait_for_threads_that_do_not_exist(
    threads: int,
) -> None:
    """Others of the warpgroup do not exist, or have ended before."""
    module = compile_verified(
        f"""
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{{
  .reg .b64 %o, %x; .reg .b32 %t, %w; .reg .pred %p;
  ld.param.u64 %o, [out];
  mov.u32 %t, %tid.x; shr.u32 %w, %t, 5;
  setp.eq.u32 %p, %w, 1;
  @%p ret;
  {_COMMIT}
  bar.sync 0;
  {_COMMIT}
  mul.wide.u32 %x, %t, 4; add.u64 %o, %o, %x;
  st.global.u32 [%o], 5;
  ret;
}}
""",
        (9, 0),
    )
    (found,) = compare(module, [bytes(4 * threads)], (3, 1, 1), (threads, 1, 1), (None,))
    thread = np.arange(threads)
    assert (np.frombuffer(found, np.uint32) == np.where(thread // 32 == 1, 0, 5)).all()


def _pipeline(late: int) -> Module:
    """Return a kernel without products whose warps wait for phase 0 of a barrier, and store 1 if
    they found it complete.

    When one warp has passed, another one completes phase 1, after which phase 0 looks incomplete.
    """
    return compile_verified(
        f"""
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{{
  .shared .align 8 .b64 full;
  .shared .align 8 .b64 free;
  .reg .b64 %o, %x; .reg .b32 %t, %w, %r, %n; .reg .pred %p, %q;
  ld.param.u64 %o, [out];
  mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; mov.u32 %n, 1000;
  setp.eq.u32 %p, %t, 0;
  @%p mbarrier.init.shared::cta.b64 [full], 1;
  @%p mbarrier.init.shared::cta.b64 [free], 1;
  @%p mbarrier.arrive.shared::cta.b64 _, [full];
  bar.sync 0;
  setp.eq.u32 %p, %w, 4;
  @%p bra PRODUCER;
  setp.ne.u32 %p, %w, {late};
  @%p bra WAIT;
  mov.u32 %r, 40;
WORK:
  shfl.sync.idx.b32 %w, %t, 0, 31, 0xffffffff;
  sub.u32 %r, %r, 1; setp.ne.u32 %q, %r, 0;
  @%q bra WORK;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %q, [full], 0; @%q bra PASSED;
  sub.u32 %n, %n, 1; setp.ne.u32 %p, %n, 0;
  @%p bra WAIT;
PASSED:
  wgmma.fence.sync.aligned;
  setp.eq.u32 %p, %t, 0;
  @%p mbarrier.arrive.shared::cta.b64 _, [free];
  selp.u32 %r, 1, 0, %q;
  mul.wide.u32 %x, %t, 4; add.u64 %o, %o, %x;
  st.global.u32 [%o], %r;
  ret;
PRODUCER:
  mbarrier.try_wait.parity.shared::cta.b64 %q, [free], 0; @!%q bra PRODUCER;
  elect.sync _|%p, 0xffffffff;
  @%p mbarrier.arrive.shared::cta.b64 _, [full];
  ret;
}}
""",
        (9, 0),
    )


@pytest.mark.parametrize("late", range(1, 4))
def test_a_stage_may_be_reused_after_one_warp_has_passed_a_fence(late: int) -> None:
    (found,) = compare(_pipeline(late), [bytes(4 * 128)], (1, 1, 1), (160, 1, 1), _PLANS)
    assert (np.frombuffer(found, np.uint32) == 1).all()
