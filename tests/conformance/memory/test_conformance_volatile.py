"""Volatile and ordered accesses on the JIT: each one is executed, and a poll reads memory again."""

import threading

import numpy as np
import pytest

from support.execution import native_launch, prover
from support.execution.both_backends import compare, compiler
from support.execution.interpreted_ptx import compile_verified, kernel
from vgpu_sim.exec import jit
from vgpu_sim.isa import Module

_BLOCK = (32, 1, 1)
_PLANS = (jit.Plan(16, 2), jit.Plan(8, 1), jit.Plan(1, 1))
_ADDRESSES = {
    "same": "",
    "neighbours": "mad.wide.u32 %a, %t, 8, %a;",
    "apart": "mad.wide.u32 %a, %t, 24, %a;",
    "any": "mul.lo.u32 %i, %t, 13; and.b32 %i, %i, 31; mad.wide.u32 %a, %i, 16, %a;",
}
_REGISTERS = ".reg .b64 %a, %o; .reg .b32 %t, %i, %v<4>; .reg .pred %p;"


def _module(addresses: str, body: str) -> Module:
    text = f"""
        ld.param.u64 %a, [pa]; ld.param.u64 %o, [po]; mov.u32 %t, %tid.x;
        mad.wide.u32 %o, %t, 16, %o; setp.gt.u32 %p, %t, 2; {_ADDRESSES[addresses]} {body}
    """
    return compile_verified(kernel(text, ".param .u64 pa, .param .u64 po", registers=_REGISTERS))


@pytest.mark.parametrize("plan", _PLANS)
@pytest.mark.parametrize("addresses", _ADDRESSES)
@pytest.mark.parametrize("guard", ["", "@%p "])
def test_an_unused_volatile_load_is_executed_and_faults(
    guard: str, addresses: str, plan: jit.Plan
) -> None:
    def module(word: str) -> Module:
        return _module(addresses, f"{guard}ld.{word}.global.u32 %v0, [%a+1000000];")

    aperture = native_launch.Aperture()
    try:
        data = aperture.allocate(bytes(1024))
        launch = native_launch.context(aperture, (1, 1, 1), _BLOCK)
        faults = {}
        for word in ("volatile", "relaxed.gpu", "weak"):
            made = module(word)
            function = made.functions[0]
            text = compiler().emit_llvm(made, function, _BLOCK, plan)
            assert prover.prove(text) >= 1
            loaded = compiler().load(compiler().compile(made, function, _BLOCK, plan))
            parameters = native_launch.pack(function.parameters, 16, [data.address, data.address])
            faults[word] = native_launch.run(loaded, launch, parameters, [(0, 1)]).signal != 0
        assert faults == {"volatile": True, "relaxed.gpu": True, "weak": False}
    finally:
        aperture.close()


@pytest.mark.parametrize("addresses", _ADDRESSES)
def test_volatile_loads_return_memory(addresses: str) -> None:
    body = """
        mov.u32 %v1, 7; mov.u32 %v2, 8;
        @%p ld.volatile.global.v2.u32 {%v1, %v2}, [%a];
        ld.acquire.gpu.global.u32 %v3, [%a+4];
        st.release.sys.global.v2.u32 [%o], {%v1, %v2}; @%p st.volatile.global.u32 [%o+8], %v3;
    """
    module = _module(addresses, body)
    cells = np.random.default_rng(1).integers(0, 256, 1024, np.uint8).tobytes()
    compare(module, [cells, bytes(512)], (1, 1, 1), _BLOCK, _PLANS)
    for plan in _PLANS:
        assert prover.prove(compiler().emit_llvm(module, module.functions[0], _BLOCK, plan))


@pytest.mark.parametrize("word", ["volatile", "relaxed.gpu", "acquire.sys"])
def test_a_poll_reads_again(word: str) -> None:
    """A poll of a flag ends when the flag is set, long before 2^32 reads."""
    body = f"""
        mov.u32 %i, 0;
        again: add.u32 %i, %i, 1;
        ld.{word}.global.u32 %v0, [%a];
        setp.eq.u32 %p, %v0, 0;
        setp.ne.and.u32 %p, %i, -1, %p;
        @%p bra again;
        st.global.u32 [%o], %i;
    """
    module = _module("same", body)
    function = module.functions[0]
    loaded = compiler().load(compiler().compile(module, function, _BLOCK, _PLANS[0]))
    aperture = native_launch.Aperture()
    try:
        flag, out = aperture.allocate(bytes(64)), aperture.allocate(bytes(512))
        launch = native_launch.context(aperture, (1, 1, 1), _BLOCK)
        parameters = native_launch.pack(function.parameters, 16, [flag.address, out.address])
        setter = threading.Timer(0.05, lambda: flag.as_type("<u4").fill(1))
        setter.start()
        native_launch.run(loaded, launch, parameters, [(0, 1)])
        setter.join()
        assert 0 < out.as_type("<u4")[0] < (1 << 32) - 1
    finally:
        aperture.close()
