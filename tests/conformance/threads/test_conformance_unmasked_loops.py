"""Loops that lanes leave in different iterations: unmasked iterations, the last one, and wrapping
counters.
"""

import numpy as np
import pytest

from support.execution.both_backends import compare
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.isa import Module

_THREADS, _MOST_TURNS = 64, 6
_PLANS = (None, jit.Plan(16, 4), jit.Plan(16, 1), jit.Plan(4, 2))
_WORDS_OUT = 4


def _kernel(goes_on: str, step: int, body: str, leaves: str = "") -> Module:
    """Return a kernel in which a thread's index is its own plus ``start``.

    The thread iterates while ``goes_on`` (of %i and %n), adds the words that it reads, and
    stores its sum, its last index and the %x that ``body`` computes.
    """
    ends = f"setp.{leaves} %q, %i, %n; @!%q bra turn;" if leaves else "@%q bra turn;"
    return compile_ptx(
        f""".version 8.0\n.target sm_80\n.address_size 64
    .visible .entry k(.param .u64 out, .param .u64 in, .param .u32 start, .param .u32 limit)
    {{ .reg .b64 %o, %a, %w; .reg .b32 %i, %n, %t, %last, %x; .reg .pred %p, %q, %s;
      .reg .f32 %f, %sum;
      ld.param.u64 %o, [out]; ld.param.u64 %a, [in];
      ld.param.u32 %i, [start]; ld.param.u32 %n, [limit];
      mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, {4 * _WORDS_OUT}; add.s64 %o, %o, %w;
      mul.wide.u32 %w, %t, 4; add.s64 %a, %a, %w; add.s32 %i, %i, %t;
      mov.f32 %sum, 0f00000000; mov.u32 %last, 7; mov.u32 %x, 9;
      setp.{goes_on} %p, %i, %n; @!%p bra end;
    turn:
      ld.global.f32 %f, [%a]; {body}
      mov.u32 %last, %i; add.s32 %i, %i, {step}; add.s64 %a, %a, {4 * _THREADS};
      setp.{goes_on} %q, %i, %n; {ends}
    end:
      st.global.f32 [%o], %sum; st.global.u32 [%o+4], %last; st.global.u32 [%o+8], %x; ret; }}""",
        capability=(8, 0),
    )


_SUM = "add.f32 %sum, %sum, %f;"
_PARTED = """setp.gt.f32 %s, %f, 0f3F000000; @%s bra more; xor.b32 %x, %x, %i; bra on;
    more: add.f32 %sum, %sum, %f; add.u32 %x, %x, 3; on: shl.b32 %x, %x, 1;"""


def _compare(module: Module, start: int, limit: int) -> None:
    random = np.random.default_rng(5)
    data = random.random(_THREADS * _MOST_TURNS, "f4")
    data[::37] = np.nan
    buffers = [bytes(4 * _WORDS_OUT * _THREADS), data.tobytes()]
    compare(module, buffers, (1, 1, 1), (_THREADS, 1, 1), _PLANS, (start, limit))


@pytest.mark.parametrize("body", [_SUM, _PARTED], ids=["straight", "parted"])
@pytest.mark.parametrize(
    ("goes_on", "leaves"),
    [("lt.s32", ""), ("lt.u32", ""), ("lt.s32", "ge.s32")],
)
def test_last_iterations_lack_no_some_or_all_but_one_lanes(
    goes_on: str, leaves: str, body: str
) -> None:
    module = _kernel(goes_on, _THREADS, body, leaves)
    for numbers in (0, 1, 17, 63, 64, 65, 128, 129, 200, 256, 319):
        _compare(module, 0, numbers)
        _compare(module, 5, numbers)


def test_decreasing_counters() -> None:
    module = _kernel("gt.s32", -_THREADS, _SUM)
    for numbers in (-63, -10, 1, 65, 200, 256):
        _compare(module, numbers, 0)


@pytest.mark.parametrize(
    ("goes_on", "step", "start", "limit"),
    [
        ("ge.u32", _THREADS, -200, -300),
        ("ge.s32", _THREADS, (1 << 31) - 170, 3),
        ("lt.s32", -_THREADS, -(1 << 31) + 100, 3),
        ("le.u32", -_THREADS, 150, 5000),
    ],
)
def test_lanes_leave_where_their_counters_wrap_around(
    goes_on: str, step: int, start: int, limit: int
) -> None:
    """The outermost lane does not represent those that have wrapped around before it."""
    _compare(_kernel(goes_on, step, _SUM), start, limit)


def test_adjacent_words_are_read_in_both_copies() -> None:
    """In the unmasked copy they are one row of memory, in the masked one each is loaded
    separately.
    """
    row = "; ".join(f"ld.global.f32 %f{n}, [%a+{4 * n}]" for n in range(4))
    sums = "; ".join(f"add.f32 %sum, %sum, %f{n}" for n in range(4))
    module = compile_ptx(
        f""".version 8.0\n.target sm_80\n.address_size 64
    .visible .entry k(.param .u64 out, .param .u64 in, .param .u32 n, .param .u32 whole)
    {{ .reg .b64 %o, %a, %w; .reg .b32 %i, %n, %t; .reg .pred %p, %q; .reg .f32 %f<4>, %sum;
      ld.param.u64 %o, [out]; ld.param.u64 %a, [in]; ld.param.u32 %n, [n];
      mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, 4; add.s64 %o, %o, %w;
      mul.wide.u32 %w, %t, 16; add.s64 %a, %a, %w;
      mov.f32 %sum, 0f00000000; mov.u32 %i, %t; setp.ge.s32 %p, %i, %n;
      @%p bra guarded;
    turn: {row}; {sums}; add.s32 %i, %i, 32; setp.lt.s32 %q, %i, %n; @%q bra turn;
    guarded: ld.param.u32 %n, [whole]; setp.ge.s32 %p, %t, %n; st.global.f32 [%o], %sum;
      @%p bra end; {row}; {sums};
    end: st.global.f32 [%o], %sum; ret; }}""",
        capability=(8, 0),
    )
    data = np.random.default_rng(6).random(4 * 32, "f4").tobytes()
    for numbers in (0, 20, 32, 40, 64):
        for whole in (0, 20, 32):
            buffers, plans = [bytes(4 * 32), data], (None, jit.Plan(16, 2), jit.Plan(8, 2))
            compare(module, buffers, (1, 1, 1), (32, 1, 1), plans, (numbers, whole))
