"""Lanes whose addresses are unknown at compile time may be contiguous: then they load one row."""

import re

import numpy as np
import pytest

from support.execution.both_backends import compare
from support.proofs import clamp_proof
from support.proofs.ir_flow import NOTHING
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.planning import choose

# out[i] = in[the left neighbour on a ring of n]
_RING = """.version 7.0
.target sm_80
.address_size 64
.visible .entry ring(.param .u64 in, .param .u64 out, .param .u32 n)
{
    .reg .pred %p<3>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [in];
    ld.param.u64 %rd2, [out];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra DONE;
    setp.eq.u32 %p2, %r2, 0;
    selp.b32 %r3, %r1, %r2, %p2;
    add.s32 %r4, %r3, -1;
    mul.wide.u32 %rd3, %r4, 4;
    add.s64 %rd4, %rd1, %rd3;
    ld.global.u32 %r5, [%rd4];
    mul.wide.u32 %rd5, %r2, 4;
    add.s64 %rd6, %rd2, %rd5;
    st.global.u32 [%rd6], %r5;
DONE:
    ret;
}
"""
_BLOCK = (64, 1, 1)


def _module():
    return compile_ptx(_RING, capability=(8, 0))


def test_contiguous_lanes_load_one_row_and_the_text_is_confined() -> None:
    module = _module()
    text = jit.Compiler().emit_llvm(module, module.functions[0], _BLOCK, jit.Plan(16, 2))
    entry = text[text.index("@entry(") :]
    assert re.search(r"^row\d+:", entry, re.MULTILINE)
    assert re.search(r"^apart\d+:\n(.*\n)*?.*masked\.gather", entry, re.MULTILINE)
    assert clamp_proof.prove(text)


def test_values_extracted_in_a_lane_loop_are_not_uniform() -> None:
    lines = [
        "start:",
        "  %v1 = load <2 x i64>, ptr %params, align 1",
        "  %v2 = extractelement <2 x i64> %v1, i64 0",
        "  ret void",
    ]
    proof = clamp_proof.FunctionProof("entry", lines)
    assert proof.sum("%v1", NOTHING) != proof.sum("%v2", NOTHING)


@pytest.mark.parametrize("n", [1, 16, 41, 64])
def test_rows_and_gathers_load_the_same(n: int) -> None:
    module = _module()
    values = np.arange(100, 100 + n, dtype=np.uint32)
    plans = [None, *(jit.Plan(width, 2) for width in (1, 4, 16)), jit.Plan(16, 4, versioned=False)]
    buffers = [values.tobytes(), bytes(4 * n)]
    out = compare(module, buffers, (1, 1, 1), _BLOCK, plans, extra=[n])[1]
    np.testing.assert_array_equal(np.frombuffer(out, np.uint32), np.roll(values, 1))


@pytest.mark.parametrize(("constants", "vectors"), [(0, 4), (40, 4), (60, 2)])
def test_a_kernel_that_computes_has_vectors_but_not_more_than_its_values_allow(
    constants: int, vectors: int
) -> None:
    """Constants need registers, as values do; four vectors have twelve values."""
    steps = "\n".join(
        f"fma.rn.f32 %f{2 + i % 3}, %f1, %f{2 + (i + 1) % 3}, %f1;" for i in range(90)
    )
    steps += "\n".join(f"add.rn.f32 %f2, %f2, 0f3F{i:02X}0000;" for i in range(constants))
    source = f""".version 7.0
.target sm_80
.address_size 64
.visible .entry long(.param .u64 data)
{{
    .reg .b32 %r<2>;
    .reg .f32 %f<6>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.f32 %f1, [%rd3];
    mov.f32 %f2, %f1;
    mov.f32 %f3, %f1;
    mov.f32 %f4, %f1;
    {steps}
    st.global.f32 [%rd3], %f2;
    ret;
}}
"""
    form = ssa.build(compile_ptx(source, capability=(8, 0)).functions[0])
    assert choose.choose(form, (256, 1, 1), 512) == jit.Plan(16, vectors)


def test_a_kernel_that_waits_does_not_run_lane_by_lane_because_it_gathers() -> None:
    source = """.version 7.0
.target sm_80
.address_size 64
.visible .entry halo(.param .u64 data)
{
    .shared .align 4 .b8 tile[2048];
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, %tid.x;
    mov.u32 %r6, tile;
TURN:
    mul.lo.s32 %r2, %r1, %r1;
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r3, [%rd3];
    shl.b32 %r4, %r1, 2;
    add.s32 %r5, %r6, %r4;
    st.shared.u32 [%r5], %r3;
    add.s32 %r1, %r1, 256;
    setp.lt.u32 %p1, %r1, 340;
    @%p1 bra TURN;
    bar.sync 0;
    ret;
}
"""
    form = ssa.build(compile_ptx(source, capability=(8, 0)).functions[0])
    assert choose.choose(form, (256, 1, 1), 512).width == 16
