"""clusterlaunchcontrol: a running block takes over blocks that have not started."""

import numpy as np
import pytest

from support.execution import native_launch, prover
from support.execution.both_backends import Bench, compiler
from support.execution.interpreted_ptx import compile_verified, kernel
from vgpu_sim.isa import Module

_COMPLETES = "mbarrier::complete_tx::bytes"
_REGISTERS = """
    .reg .b32 %t, %x, %y, %z, %k, %n, %parity, %rank; .reg .b64 %o, %g; .reg .pred %p, %q, %first;
    .reg .b128 %r; .shared .align 16 .b8 response[16]; .shared .b64 bar;
"""
# Each thread counts the block whose work it does; the last word counts blocks that were taken over.
_BODY = """
    ld.param.u64 %o, [po]; mov.u32 %t, %tid.x; setp.eq.u32 %first, %t, 0; mov.u32 %parity, 0;
    mov.u32 %x, %ctaid.x; mov.u32 %y, %ctaid.y; mov.u32 %z, %ctaid.z;
    @%first mbarrier.init.shared.b64 [bar], 1;
    MEET
WORK:
    mov.u32 %k, %nctaid.y; mad.lo.u32 %k, %z, %k, %y;
    mov.u32 %n, %nctaid.x; mad.lo.u32 %k, %k, %n, %x;
    mul.wide.u32 %g, %k, 4; add.u64 %g, %g, %o; red.global.add.u32 [%g+4], 1;
    @%first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
    MEET
    TRY
ask: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q, [bar], %parity; @!%q bra ask;
    xor.b32 %parity, %parity, 1;
    ld.shared.b128 %r, [response];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p, %r;
    QUERY
    MEET
    and.pred %q, %p, %first; @%q red.global.add.u32 [%o], 1;
    @%p bra WORK;
"""
_TRY = f"@%first clusterlaunchcontrol.try_cancel.async.shared::cta.{_COMPLETES}.b128 [response], [bar];"
_OF_AXES = " ".join(
    f"@%p clusterlaunchcontrol.query_cancel.get_first_ctaid::{axis}.b32.b128 %{axis}, %r;"
    for axis in "xyz"
)
_OF_ALL = "@%p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%x, %y, %z, _}, %r;"


def _module(meet: str, attempt: str, query: str) -> Module:
    body = _BODY.replace("MEET", meet).replace("TRY", attempt).replace("QUERY", query)
    return compile_verified(kernel(body, ".param .u64 po", registers=_REGISTERS))


def _check(module: Module, grid, threads: int, plans: int, cluster=None) -> None:
    """Check that each block's work is done once, and that some blocks were taken over."""
    blocks, block = grid[0] * grid[1] * grid[2], (threads, 1, 1)
    legal = [None, *list(compiler().legal_plans(module, block))[:plans]]
    for plan in legal:
        text = compiler().emit_llvm(module, module.functions[0], block, plan)
        assert prover.prove(text) > 0
    bench = Bench(bytes(4 * blocks + 4))
    try:
        function = module.functions[0]
        parameters = native_launch.pack(
            function.parameters, function.parameter_bytes, bench.addresses()
        )
        images = [bench.interpret(module, grid, block, parameters, cluster=cluster)]
        images += [
            bench.execute(module, grid, block, parameters, plan, cluster=cluster) for plan in legal
        ]
        for (image,) in images:
            taken, *counts = np.frombuffer(image, np.uint32).tolist()
            assert counts == [threads] * blocks
            assert 0 < taken < blocks
    finally:
        bench.close()


@pytest.mark.parametrize("query", [_OF_AXES, _OF_ALL])
def test_each_block_runs_once(query: str) -> None:
    _check(_module("bar.sync 0;", _TRY, query), (40, 3, 4), 64, 3)
    _check(_module("bar.sync 0;", _TRY, query), (500, 1, 1), 1, 1)


def test_a_cluster_takes_over_a_cluster() -> None:
    meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    attempt = f"""
        mov.u32 %rank, %cluster_ctarank; setp.eq.u32.and %q, %rank, 0, %first;
        @%q clusterlaunchcontrol.try_cancel.async.shared::cta.{_COMPLETES}.multicast::cluster::all.b128
            [response], [bar];
    """
    query = (
        _OF_ALL
        + """
        mov.u32 %k, %cluster_ctaid.x; @%p add.u32 %x, %x, %k;
        mov.u32 %k, %cluster_ctaid.y; @%p add.u32 %y, %y, %k;
    """
    )
    _check(_module(meet, attempt, query), (16, 8, 2), 32, 2, cluster=(2, 2, 1))
