"""Branches on a bound: groups within it, divergent groups, and indices that wrap around."""

import numpy as np
import pytest

from support.execution.both_backends import compare
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit

_COMPARES = ("lt", "le", "gt", "ge", "ne", "eq")
_TYPES = ("s32", "u32")
_PLANS = (None, jit.Plan(16, 2), jit.Plan(4, 1))
_BLOCK = 32


def _kernel(compare_: str, type_: str) -> str:
    """Return a kernel in which each thread tests its own index plus ``start`` against ``limit``.

    If the test fails, the thread changes the value that it stores, in the middle and at the end.
    """
    return f""".version 8.0\n.target sm_80\n.address_size 64
    .visible .entry k(.param .u64 out, .param .u64 in, .param .u32 start, .param .u32 limit)
    {{ .reg .b64 %out, %in, %w; .reg .b32 %r<9>; .reg .pred %p<2>;
      ld.param.u64 %out, [out]; ld.param.u64 %in, [in];
      ld.param.u32 %r0, [start]; ld.param.u32 %r1, [limit];
      mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mad.lo.s32 %r3, %r3, {_BLOCK}, %r2;
      mul.wide.u32 %w, %r3, 4; add.s64 %out, %out, %w; add.s64 %in, %in, %w;
      add.s32 %r4, %r3, %r0; mov.u32 %r5, 7; mov.u32 %r6, 9;
      setp.{compare_}.{type_} %p0, %r4, %r1;
      @%p0 bra meet;
      ld.global.u32 %r5, [%in]; add.s32 %r6, %r5, %r4;
    meet:
      xor.b32 %r7, %r5, %r6; st.global.u32 [%out], %r7;
      @%p0 bra end;
      add.s32 %r7, %r7, 1; st.global.u32 [%out], %r7;
    end: ret; }}"""


@pytest.mark.parametrize("type_", _TYPES)
@pytest.mark.parametrize("compare_", _COMPARES)
def test_groups_are_within_a_bound_divergent_or_beyond_it(compare_: str, type_: str) -> None:
    module = compile_ptx(_kernel(compare_, type_), capability=(8, 0))
    words = 3 * _BLOCK
    data = np.arange(words, dtype=np.uint32).tobytes()
    top = 1 << 31 if type_ == "s32" else 1 << 32
    for start, limit in (
        (0, 0),
        (0, 32),
        (0, 40),
        (-40, 0),
        (0, words),
        (top - 48, top - 16),
        (top - 48, top - 48),
        (top - 48, 5),
    ):
        compare(module, [bytes(4 * words), data], (3, 1, 1), (_BLOCK, 1, 1), _PLANS, (start, limit))
