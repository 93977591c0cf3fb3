"""Shared memory is zero when a block begins, whatever the previous block left there."""

import pytest

from support.execution.both_backends import compare, compiler
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.isa import Module

_THREADS, _BLOCKS = 32, 5


def _kernel(static_bytes: int, barrier: str) -> Module:
    """Return a kernel whose threads each sum their share of the words of shared memory, then fill
    it.
    """
    declared = f".shared .align 4 .b8 own[{static_bytes}];" if static_bytes else ""
    return compile_ptx(
        f""".version 8.0\n.target sm_80\n.address_size 64
    .extern .shared .align 4 .b8 requested[];
    .visible .entry k(.param .u64 out, .param .u32 bytes)
    {{ {declared} .reg .b64 %o, %w; .reg .b32 %t, %b, %n, %at, %x, %sum, %end; .reg .pred %p;
      ld.param.u64 %o, [out]; ld.param.u32 %n, [bytes];
      mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mad.lo.u32 %x, %b, {_THREADS}, %t;
      mul.wide.u32 %w, %x, 4; add.s64 %o, %o, %w;
      mov.u32 %at, {"own" if static_bytes else "requested"}; add.u32 %end, %at, %n;
      shl.b32 %x, %t, 2; add.u32 %at, %at, %x; mov.u32 %sum, 0; setp.ge.u32 %p, %at, %end;
      @%p bra out;
    more: ld.shared.u32 %x, [%at]; add.u32 %sum, %sum, %x; st.shared.u32 [%at], 5;
      add.u32 %at, %at, {4 * _THREADS}; setp.lt.u32 %p, %at, %end; @%p bra more;
    out: {barrier} st.global.u32 [%o], %sum; ret; }}""",
        capability=(8, 0),
    )


@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"], ids=["alone", "together"])
@pytest.mark.parametrize(
    ("static_bytes", "dynamic"),
    [(4, 0), (256, 0), (260, 100), (2048, 12), (2052, 0), (9000, 4096), (0, 64), (0, 5000)],
)
def test_every_block_finds_zeros(static_bytes: int, dynamic: int, barrier: str) -> None:
    module = _kernel(static_bytes, barrier)
    block = (_THREADS, 1, 1)
    plans = [
        None,
        jit.Plan(16, 2),
        jit.Plan(16, 1),
        jit.Plan(1, 1),
        *compiler().first_tier(module, block),
    ]
    used = static_bytes + dynamic
    (found,) = compare(
        module,
        [bytes(b"x" * 4 * _THREADS * _BLOCKS)],
        (_BLOCKS, 1, 1),
        block,
        plans,
        (used,),
        dynamic=dynamic,
    )
    assert not any(found)
