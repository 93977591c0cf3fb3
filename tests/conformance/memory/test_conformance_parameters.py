"""Kernel parameters that have addresses: by register, by generic address, with any index."""

import struct

import numpy as np
import pytest

from support.execution.both_backends import Bench
from support.execution.interpreted_ptx import compile_verified, kernel
from vgpu_sim.exec import jit
from vgpu_sim.isa import container
from vgpu_sim.isa.asm import assemble
from vgpu_sim.isa.disasm import disassemble

PARAMETERS = ".param .u64 out, .param .align 16 .b8 data[128], .param .u32 last"
VALUES = np.random.default_rng(3).integers(0, 1 << 32, 32, dtype=np.uint32)
REGISTERS = ".reg .b64 %o, %a, %g, %d<4>; .reg .b32 %r<8>; .reg .pred %p<3>;"
SETUP = """
    ld.param.u64 %o, [out]; mov.u32 %r0, %tid.x; mad.wide.u32 %o, %r0, 8, %o;
    mov.b64 %a, data;
"""


def _run(body: str) -> np.ndarray:
    """Return the two 32-bit words that each of 24 threads stores at %o, under all executors and
    plans.
    """
    module = compile_verified(kernel(SETUP + body, PARAMETERS, registers=REGISTERS))
    assert container.decode(container.encode(module)) == module
    assert assemble(disassemble(module)) == module
    function, shape = module.functions[0], ((1, 1, 1), (24, 1, 1))
    bench = Bench(bytes(8 * 24), bytes(-(-module.segment_bytes // 64) * 64))
    try:
        out, segment = bench.addresses()
        parameters = struct.pack("<Q8x", out) + VALUES.tobytes() + struct.pack("<I", 77)
        assert len(parameters) == function.parameter_bytes
        expected = bench.interpret(module, *shape, parameters, segment)[0]
        for plan in (None, jit.Plan(8, 3), jit.Plan(1, 1)):
            found = bench.execute(module, *shape, parameters, plan, segment)[0]
            assert found == expected, plan
        return np.frombuffer(expected, np.uint32).reshape(24, 2)
    finally:
        bench.close()


@pytest.mark.parametrize(
    ("access", "address"),
    [
        ("ld.param.u32", "%a"),
        ("ld.param::entry.u32", "%a"),
        ("ld.u32", "%g"),
        ("ld.volatile.u32", "%g"),
    ],
)
def test_an_element_by_a_lanes_own_index(access: str, address: str) -> None:
    out = _run(f"""
        mul.lo.u32 %r1, %r0, 5; and.b32 %r1, %r1, 15; mul.wide.u32 %d0, %r1, 4;
        add.s64 %a, %a, %d0; cvta.param.u64 %g, %a;
        {access} %r2, [{address}+32]; st.global.u32 [%o], %r2;
    """)
    lanes = np.arange(24)
    np.testing.assert_array_equal(out[:, 0], VALUES[(5 * lanes & 15) + 8])


def test_vectors_symbols_with_offsets_and_back() -> None:
    out = _run("""
        mov.u64 %d0, data+16; cvta.param.u64 %g, %d0; cvta.to.param.u64 %d1, %g;
        ld.param.v2.u32 {%r1, %r2}, [%d1+8]; ld.v2.u32 {%r3, %r4}, [%g+8];
        ld.param.v2.u32 {%r5, %r6}, [data+24];
        xor.b32 %r3, %r3, %r5; xor.b32 %r4, %r4, %r6;
        add.u32 %r1, %r1, %r3; add.u32 %r2, %r2, %r4;
        st.global.v2.u32 [%o], {%r1, %r2};
    """)
    assert (out == VALUES[6:8]).all()


def test_the_low_word_of_an_address() -> None:
    """`ptxas` accepts a move of 32 bits; Triton's compiler writes it for a descriptor."""
    out = _run("""
        mov.b32 %r1, data; mov.b32 %r2, data+20; mov.b64 %d0, data; cvt.u32.u64 %r3, %d0;
        sub.u32 %r2, %r2, %r1; sub.u32 %r1, %r1, %r3; st.global.v2.u32 [%o], {%r1, %r2};
    """)
    assert (out == [0, 20]).all()


def test_loads_through_the_low_word_of_an_address() -> None:
    """LLVM selects among parameters by addresses of 32 bits, and widens them to generic ones."""
    out = _run("""
        and.b32 %r1, %r0, 1; setp.eq.u32 %p0, %r1, 0;
        mov.b32 %r2, data+8; mov.b32 %r3, data+64; selp.b32 %r4, %r2, %r3, %p0;
        ld.param.b32 %r5, [%r4+4];
        cvt.u64.u32 %d0, %r4; cvta.param.u64 %g, %d0; ld.b32 %r6, [%g+12];
        st.global.v2.u32 [%o], {%r5, %r6};
    """)
    even = np.arange(24) % 2 == 0
    np.testing.assert_array_equal(out[:, 0], np.where(even, VALUES[3], VALUES[17]))
    np.testing.assert_array_equal(out[:, 1], np.where(even, VALUES[5], VALUES[19]))


def test_isspacep_of_parameters() -> None:
    out = _run("""
        isspacep.param %p0, %a; isspacep.param %p1, %o; mov.u64 %d0, last+4; isspacep.param %p2, %d0;
        selp.b32 %r1, 1, 0, %p0; selp.b32 %r2, 2, 0, %p1; selp.b32 %r3, 4, 0, %p2;
        add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; st.global.u32 [%o], %r1;
    """)
    assert set(out[:, 0]) == {1}


def test_the_window_of_parameters_is_within_the_global_window() -> None:
    """PTX ISA, "isspacep": .global is true for a parameter's address, and .const is false."""
    out = _run("""
        isspacep.global %p0, %a; isspacep.const %p1, %a; isspacep.local %p2, %a;
        selp.b32 %r1, 1, 0, %p0; selp.b32 %r2, 2, 0, %p1; selp.b32 %r3, 4, 0, %p2;
        add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; st.global.u32 [%o], %r1;
    """)
    assert set(out[:, 0]) == {1}


def test_without_an_address_there_is_no_copy() -> None:
    module = compile_verified(kernel("ld.param.u32 %r0, [last];", PARAMETERS, registers=REGISTERS))
    assert not module.functions[0].parameter_image
    assert not module.variables
