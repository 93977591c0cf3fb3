"""Shuffles of which only some lanes are demanded, so that the others are not computed; and shuffles
of computed floats, whose NaNs become canonical only where they are observed.
"""

import numpy as np
import pytest

from support.execution import prover
from support.execution.both_backends import compare, compiler
from support.execution.interpreted_ptx import compile_verified, kernel
from vgpu_sim.exec import jit

_REGISTERS = """.reg .b64 %x, %o, %a; .reg .b32 %t, %n, %b, %i, %l, %w, %u, %k, %j; .reg .f32 %v, %f, %g;
    .reg .pred %p, %q, %r; .shared .align 4 .b8 sm[256];"""
_PARAMETERS = ".param .u64 o, .param .u64 x"
_HEAD = """
    ld.param.u64 %o, [o]; ld.param.u64 %x, [x];
    mov.u32 %t, %tid.x; mov.u32 %n, %ntid.x; mov.u32 %b, %ctaid.x; mad.lo.u32 %i, %b, %n, %t;
    mad.wide.u32 %a, %i, 4, %x; ld.global.f32 %v, [%a];
    mad.wide.u32 %o, %i, 4, %o; and.b32 %l, %t, 31; shr.u32 %w, %t, 5; mov.b32 %u, %v; mov.b32 %j, 0;
"""
_STEPS = "".join(
    f"shfl.sync.{{mode}}.b32 %f, %v, {n}, {{last}}, -1; {{op}}.f32 %v, %v, %f;\n"
    for n in (16, 8, 4, 2, 1)
)
_WHO = {  # predicates that select the storing lanes
    "lane 0": "setp.eq.u32 %p, %l, 0;",
    "lane 31": "setp.eq.u32 %p, 31, %l;",
    "two lanes of a warp": "setp.lt.u32 %p, %l, 2;",
    "the last lanes": "setp.ge.u32 %p, %l, 29;",
    "thread 0": "setp.eq.s32 %p, %t, 0;",
    "thread 40": "setp.eq.u32 %p, %t, 40;",
    "all but thread 0": "setp.ne.u32 %p, %t, 0;",
    "the first warp": "setp.le.u32 %p, %t, 31;",
    "the first half": "setp.gt.u32 %p, 64, %t;",
    "behind the first warp": "setp.gt.u32 %p, %t, 31;",
    "behind thread 100": "setp.ge.u32 %p, %t, 100;",
    "no thread": "setp.lt.u32 %p, %t, 0;",
    "by what was read": "setp.lt.f32 %p, %v, 0f40800000;",
}


_PLANS = (jit.Plan(16, 4), jit.Plan(8, 16))


def _run(
    body: str, block: int = 128, *, least: int = 0, plans: tuple[jit.Plan, ...] = _PLANS
) -> None:
    module = compile_verified(kernel(_HEAD + body, _PARAMETERS, registers=_REGISTERS))
    count, rng = 2 * block, np.random.default_rng(5)
    numbers = rng.integers(0, 9, count).astype("<f4")
    numbers[rng.random(count) < least / 10] = np.inf
    shape = (block, 1, 1)
    for plan in plans:
        prover.prove(compiler().emit_llvm(module, module.functions[0], shape, plan))
    compare(module, [bytes(8 * count), numbers.tobytes()], (2, 1, 1), shape, plans)


@pytest.mark.parametrize("who", _WHO)
def test_storing_lanes_have_the_same_values(who: str) -> None:
    """The sum goes through a branch, and a product through a guard."""
    steps = _STEPS.format(mode="down", last=31, op="add")
    # The product is of a separate value, or all lanes of the sum would be demanded.
    other = _STEPS.format(mode="bfly", last=31, op="max").replace("%v", "%g")
    _run(
        f"mov.f32 %g, %v; {steps} {_WHO[who]} @!%p bra OUT; st.global.f32 [%o], %v;"
        f" OUT: {other} {_WHO[who]} @%p st.global.f32 [%o+1024], %g;"
    )


def test_the_first_warp_adds_up_the_sums_of_warps() -> None:
    steps = _STEPS.format(mode="down", last=31, op="add")
    _run(f"""{steps} setp.ne.u32 %p, %l, 0; @%p bra MEET;
        shl.b32 %k, %w, 2; mov.u32 %w, sm; add.u32 %k, %k, %w; st.shared.f32 [%k], %v;
        MEET: bar.sync 0;
        setp.gt.u32 %p, %t, 31; @%p bra OUT;
        mov.f32 %v, 0f00000000; shr.u32 %k, %n, 5; setp.ge.u32 %q, %t, %k; @%q bra SUM;
        shl.b32 %k, %t, 2; mov.u32 %w, sm; add.u32 %k, %k, %w; ld.shared.f32 %v, [%k];
        SUM: {steps} setp.ne.s32 %p, %t, 0; @%p bra OUT; st.global.f32 [%o], %v;
        OUT:""", 256)  # fmt: skip


def test_a_value_that_a_loop_carries_is_read_in_the_next_iteration() -> None:
    _run("""mov.f32 %g, 0f00000000;
        TURN: shfl.sync.down.b32 %f, %v, 3, 31, -1; add.f32 %g, %g, %f; mov.f32 %v, %g;
        add.u32 %j, %j, 1; setp.lt.u32 %p, %j, 4; @%p bra TURN;
        setp.ne.u32 %p, %l, 5; @%p bra OUT; st.global.f32 [%o], %g; OUT:""")  # fmt: skip


def test_the_condition_of_a_branch_is_computed_in_all_lanes() -> None:
    _run("""shfl.sync.down.b32 %f, %v, 7, 31, -1; add.f32 %g, %f, %v;
        setp.gt.f32 %p, %g, 0f41000000; @%p bra MORE; add.f32 %v, %v, %v;
        MORE: shfl.sync.up.b32 %f, %v, 5, 0, -1; add.f32 %f, %f, %f;
        setp.ne.u32 %p, %l, 9; @%p bra OUT; st.global.f32 [%o], %f; OUT:""")  # fmt: skip


@pytest.mark.parametrize(
    "seen",
    [
        "st.global.f32 [%o], %f;",
        "mov.b32 %k, %f; add.u32 %k, %k, 1; st.global.u32 [%o], %k;",
        "add.f32 %f, %f, %v; st.global.f32 [%o], %f;",
        "neg.f32 %f, %f; st.global.f32 [%o], %f;",
        "shfl.sync.idx.b32 %f, %f, 3, 31, -1; st.global.f32 [%o], %f;",
        "shfl.sync.bfly.b32 %k, %u, 3, 31, -1; st.global.u32 [%o], %k;",
        "setp.lt.u32 %p, %l, 7; selp.b32 %k, %u, %f, %p; st.global.u32 [%o], %k;",
        "setp.lt.u32 %p, %l, 7; selp.b32 %k, 0xffc12345, %f, %p; shfl.sync.up.b32 %k, %k, 1, 0, -1;"
        " st.global.u32 [%o], %k;",
        "mov.b32 %k, %f; shfl.sync.idx.b32 %k, %u, %k, 31, -1; st.global.u32 [%o], %k;",
        "mov.b32 %k, %f; match.any.sync.b32 %k, %k, -1; st.global.u32 [%o], %k;",
    ],
)
def test_nans_are_canonical_where_they_are_observed(seen: str) -> None:
    """Infinities of both signs are added before the shuffle, whose result is observed in many
    ways.
    """
    _run(f"neg.f32 %f, %v; add.f32 %v, %v, %f; shfl.sync.bfly.b32 %f, %v, 5, 31, -1; {seen}",
         least=5, plans=(*_PLANS, jit.Plan(1, 1)))  # fmt: skip
