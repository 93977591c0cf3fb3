"""cp.async.bulk and the transactions of mbarriers on both backends, against NumPy."""

import numpy as np
import pytest
from numpy.typing import NDArray

from support.execution import prover
from support.execution.both_backends import compare, compiler
from support.execution.interpreted_ptx import compile_verified, kernel
from vgpu_sim.isa import Module

_BLOCK = (64, 1, 1)
_BYTES = 1024
_REGISTERS = """
    .reg .b64 %a, %o, %d<3>; .reg .b32 %t, %s, %k; .reg .b16 %h; .reg .pred %p, %q;
    .shared .align 128 .b8 sm[2048]; .shared .b64 bar;
"""
_LOAD = """
    ld.param.u64 %a, [pa]; ld.param.u64 %o, [po]; mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0;
    @%p mbarrier.init.shared::cta.b64 [bar], 1;
    fence.mbarrier_init.release.cluster; bar.sync 0;
    @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {size};
    @%p {copy};
    ask: mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0; @!%q bra ask;
"""
_IN = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"


def _run(body: str, *data: bytes) -> list[bytes]:
    text = kernel(body, ".param .u64 pa, .param .u64 po", registers=_REGISTERS)
    module = compile_verified(text)
    plans = [None, *list(compiler().legal_plans(module, _BLOCK))[:2]]
    assert _accesses(module) > 4
    return compare(module, list(data), (1, 1, 1), _BLOCK, plans)


def _accesses(module: Module) -> int:
    text = compiler().emit_llvm(module, module.functions[0], _BLOCK, None)
    return prover.prove(text)


def _random(seed: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, _BYTES, np.uint8)


@pytest.mark.parametrize("size", [0, 16, 528, 1024])
@pytest.mark.parametrize("form", ["", ".multicast::cluster"])
def test_bytes_arrive_and_return(size: int, form: str) -> None:
    given = "[sm], [%a], %k, [bar]" + (", %h" if form else "")
    body = f"mov.u32 %k, {size}; mov.u16 %h, 1; {_LOAD}".format(
        size="%k", copy=f"{_IN}{form} {given}"
    )
    body += """
        @%p cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%o], [sm], %k, %d0;
        @%p cp.async.bulk.commit_group; @%p cp.async.bulk.wait_group.read 0;
        ld.shared.u64 %d1, [bar]; st.global.u64 [%o+1024], %d1;
    """
    data = _random(size)
    _, found = _run(body, data.tobytes(), bytes(_BYTES + 16))
    assert found[:size] == data.tobytes()[:size]
    assert found[size:_BYTES] == bytes(_BYTES - size)
    assert (
        int.from_bytes(found[_BYTES : _BYTES + 8], "little") & 0x3FF_FFFF_FFFF == 3
    )  # the second phase


@pytest.mark.parametrize(
    ("operation", "type_", "apply"),
    [
        ("add", "u32", np.add), ("min", "s32", np.minimum), ("max", "u64", np.maximum),
        ("xor", "b32", np.bitwise_xor), ("and", "b64", np.bitwise_and), ("or", "b32", np.bitwise_or),
        ("add", "f32", np.add), ("add", "f64", np.add), ("add", "f16", np.add),
        ("min", "f16", np.minimum), ("max", "f16", np.maximum),
    ],
)  # fmt: skip
def test_reductions(operation: str, type_: str, apply: np.ufunc) -> None:
    body = _LOAD.format(size=_BYTES, copy=f"{_IN} [sm], [%a], {_BYTES}, [bar]")
    rounding = ".noftz" if (operation, type_) == ("add", "f16") else ""
    body += (
        "@%p cp.reduce.async.bulk.global.shared::cta.bulk_group"
        f".{operation}{rounding}.{type_} [%o], [sm], {_BYTES};"
    )
    dtype = np.dtype(f"{type_[0].replace('s', 'i').replace('b', 'u')}{int(type_[1:]) // 8}")
    if dtype.kind == "f":
        one, two = (_random(n)[: _BYTES // dtype.itemsize].astype(dtype) / 3 for n in (1, 2))
        one, two = (np.resize(each, _BYTES // dtype.itemsize).astype(dtype) for each in (one, two))
    else:
        one, two = (_random(n).view(dtype) for n in (1, 2))
    _, found = _run(body, one.tobytes(), two.tobytes())
    assert np.frombuffer(found, dtype).tolist() == apply(two, one).tolist()


def test_a_phase_waits_for_its_transactions() -> None:
    """A phase does not end when its threads have arrived, nor when its bytes have arrived early."""
    body = """
        ld.param.u64 %o, [po]; mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0; @!%p bra end;
        mbarrier.init.shared.b64 [bar], 1;
        mbarrier.arrive.expect_tx.shared.b64 %d0, [bar], 100;
        mbarrier.test_wait.shared.b64 %q, [bar], %d0; selp.u32 %k, 1, 0, %q; st.global.u32 [%o], %k;
        mbarrier.complete_tx.relaxed.cta.shared.b64 [bar], 60;
        mbarrier.test_wait.shared.b64 %q, [bar], %d0; selp.u32 %k, 1, 0, %q;
        st.global.u32 [%o+4], %k;
        mov.u32 %s, 40; mbarrier.complete_tx.relaxed.cta.shared.b64 [bar], %s;
        mbarrier.test_wait.shared.b64 %q, [bar], %d0; selp.u32 %k, 1, 0, %q;
        st.global.u32 [%o+8], %k;
        mbarrier.complete_tx.shared.b64 [bar], 8;
        mbarrier.arrive.release.cluster.shared::cluster.b64 _, [bar];
        mbarrier.test_wait.parity.shared.b64 %q, [bar], 1; selp.u32 %k, 1, 0, %q;
        st.global.u32 [%o+12], %k;
        mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [bar], %s;
        mbarrier.expect_tx.shared.b64 [bar], 8;
        mbarrier.complete_tx.shared.b64 [bar], %s;
        mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q, [bar], 1, 1000;
        selp.u32 %k, 1, 0, %q; st.global.u32 [%o+16], %k;
        fence.proxy.tensormap::generic.release.gpu;
        fence.proxy.tensormap::generic.acquire.cta [%o], 128;
        fence.proxy.async.shared::cta;
        mbarrier.inval.shared.b64 [bar];
        end:
    """
    _, found = _run(body, bytes(8), bytes(20))
    assert np.frombuffer(found, "<u4").tolist() == [0, 0, 1, 0, 1]
