"""cp.async and mbarrier on both backends."""

import numpy as np
import pytest

from support.execution import prover
from support.execution.both_backends import compare, compiler
from support.execution.interpreted_ptx import compile_verified, kernel
from vgpu_sim.exec import jit
from vgpu_sim.isa import Module

_BLOCK = (64, 1, 1)
_PLANS = (jit.Plan(16, 4), jit.Plan(8, 1), jit.Plan(1, 1))
_SOURCES = {
    "neighbours": "mad.wide.u32 %a, %t, {size}, %a;",
    "same": "",
    "any": "mul.lo.u32 %k, %t, 13; and.b32 %k, %k, 63; mad.wide.u32 %a, %k, {size}, %a;",
}
_LIMITS = {
    "whole": "",
    "a constant": ", 3",
    "all or nothing": ", %n",
    "any": ", %t",
    "ignored": ", %q",
}


def _copies(size: int, source: str, limit: str) -> Module:
    body = f"""
        ld.param.u64 %a, [pa]; ld.param.u64 %o, [po]; mov.u32 %t, %tid.x;
        setp.gt.u32 %q, %t, 40; selp.b32 %n, 0, {size}, %q; setp.ne.u32 %p, %t, 7;
        {_SOURCES[source].format(size=size)}
        mov.u32 %s, sm; mad.lo.u32 %s, %t, {size}, %s;
        @%p cp.async.{"cg" if size == 16 else "ca"}.shared.global [%s], [%a], {size}{_LIMITS[limit]};
        cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;
        mad.wide.u32 %o, %t, {size}, %o; xor.b32 %k, %t, 1;
        mov.u32 %s, sm; mad.lo.u32 %s, %k, {size}, %s;
    """
    for at in range(0, size, 4):
        body += f"ld.shared.b32 %k, [%s+{at}]; st.global.b32 [%o+{at}], %k;"
    registers = ".reg .b64 %a, %o; .reg .b32 %t, %s, %k, %n; .reg .pred %p, %q;"
    registers += " .shared .align 16 .b8 sm[1024];"
    return compile_verified(kernel(body, ".param .u64 pa, .param .u64 po", registers=registers))


@pytest.mark.parametrize("limit", _LIMITS)
@pytest.mark.parametrize("source", _SOURCES)
@pytest.mark.parametrize("size", [4, 8, 16])
def test_copies(size: int, source: str, limit: str) -> None:
    module = _copies(size, source, limit)
    for plan in _PLANS:
        text = compiler().emit_llvm(module, module.functions[0], _BLOCK, plan)
        assert prover.prove(text) >= 3
    data = np.random.default_rng(size).integers(0, 256, 64 * size, np.uint8).tobytes()
    compare(module, [data, bytes(64 * size)], (1, 1, 1), _BLOCK, _PLANS)


@pytest.mark.parametrize("space", [".shared", ""])
def test_mbarriers(space: str) -> None:
    """A thread arrives and drops out; a block barrier separates the phases.

    The thread arrives first, so that the order of arrivals is the same under every plan.
    """
    where = "[bar+8]" if space else "[%g+8]"
    body = f"""
        ld.param.u64 %o, [po]; mov.u32 %t, %tid.x; mad.wide.u32 %o, %t, 128, %o;
        mov.u64 %g, bar; cvta.shared.u64 %g, %g;
        setp.eq.u32 %p, %t, 5; mov.u32 %k, 64;
        @%p mbarrier.init{space}.b64 {where}, %k;
        mov.u32 %i, 0;
        again: bar.sync 0;
        shl.b32 %k, %i, 6; setp.eq.u32 %q, %t, %k;  // thread 0, the first time
        @%q mbarrier.arrive_drop{space}.b64 %d, {where};
        @!%q mbarrier.arrive{space}.b64 %d, {where};
        bar.sync 0;
        mbarrier.pending_count.b64 %k, %d; st.global.u32 [%o], %k;
        mbarrier.test_wait{space}.b64 %p, {where}, %d;
        selp.u32 %k, 1, 0, %p; st.global.u32 [%o+4], %k;
        and.b32 %k, %i, 1;
        mbarrier.try_wait.parity{space}.b64 %p, {where}, %k;
        selp.u32 %k, 1, 0, %p; st.global.u32 [%o+8], %k;
        setp.gt.u32 %q, %t, %i; add.u64 %o, %o, 16; add.u32 %i, %i, 1;
        setp.lt.u32 %p, %i, 4; @%p bra again;
        ld.shared.u64 %d, [bar+8]; st.global.u64 [%o], %d;
    """
    registers = (
        ".reg .b64 %o, %d, %g; .reg .b32 %t, %k, %i; .reg .pred %p, %q; .shared .b64 bar[2];"
    )
    module = compile_verified(kernel(body, ".param .u64 po", registers=registers))
    plans = [p for p in _PLANS if p in set(compiler().legal_plans(module, _BLOCK))]
    assert plans
    (found,) = compare(module, [bytes(64 * 128)], (1, 1, 1), _BLOCK, plans)
    rows = np.frombuffer(found, "<u4").reshape(64, 32)
    assert (rows[:, 1] == 1).all()  # the first phase ended: 64 arrivals
    assert sorted(rows[:, 0]) == list(range(1, 65))


def test_threads_wait_for_each_other_at_an_mbarrier() -> None:
    """In each round every thread stores, arrives, polls the mbarrier, and loads another's value."""
    body = """
        ld.param.u64 %o, [po]; mov.u32 %t, %tid.x; mad.wide.u32 %o, %t, 4, %o;
        setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared.b64 [bar], 64;
        bar.sync 0; mov.u32 %i, 0; mov.u32 %s, sm; mad.lo.u32 %s, %t, 4, %s; mov.u32 %sum, 0;
        again: mad.lo.u32 %x, %t, 3, %i; st.shared.u32 [%s], %x;
        mbarrier.arrive.shared.b64 _, [bar]; and.b32 %k, %i, 1;
        ask: mbarrier.try_wait.parity.shared.b64 %p, [bar], %k; @!%p bra ask;
        xor.b32 %x, %t, 33; mov.u32 %y, sm; mad.lo.u32 %y, %x, 4, %y;
        ld.shared.u32 %x, [%y]; add.u32 %sum, %sum, %x;
        bar.sync 0;
        add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 5; @%p bra again;
        st.global.u32 [%o], %sum;
    """
    registers = ".reg .b64 %o; .reg .b32 %t, %i, %s, %x, %y, %k, %sum; .reg .pred %p;"
    registers += " .shared .b64 bar; .shared .b32 sm[64];"
    module = compile_verified(kernel(body, ".param .u64 po", registers=registers))
    plans = [None, *list(compiler().legal_plans(module, _BLOCK))[:3]]
    (found,) = compare(module, [bytes(256)], (1, 1, 1), _BLOCK, plans)
    wanted = [5 * 3 * (t ^ 33) + 10 for t in range(64)]
    assert np.frombuffer(found, "<u4").tolist() == wanted
