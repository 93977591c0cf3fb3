"""A product in NVFP4: f32 numbers are quantised by conversions of PTX, and then multiplied."""

import ml_dtypes
import numpy as np
import pytest

from support.execution import prover
from support.execution.both_backends import compare, compiler
from support.execution.interpreted_ptx import compile_verified, kernel
from support.execution.warp_fragments import plans_of
from support.oracles import matrix_oracle, scaled_oracle as oracle

pytestmark = pytest.mark.timeout(600)
ROWS, COLUMNS, DEPTH, GROUP = 16, 8, 128, 16
GROUPS = DEPTH // GROUP
ROW_BYTES = DEPTH // 2
STEP = 64  # of one mma

_REGISTERS = """
.reg .b32 %i, %n, %g, %t, %q, %s, %w, %u, %v, %a<4>, %b<2>, %x<2>; .reg .b64 %pi, %po;
.reg .b16 %h; .reg .b8 %c; .reg .pred %p; .reg .f32 %f<16>, %m, %y<2>, %d<4>; .reg .f16 %z<2>;
"""


def _quantise() -> str:
    """Return code by which each lane quantises groups of 16 numbers to shared memory."""
    loads = "".join(
        f"ld.global.v4.f32 {{%f{n}, %f{n + 1}, %f{n + 2}, %f{n + 3}}}, [%pi+{4 * n}];"
        for n in range(0, GROUP, 4)
    )
    largest = "mov.f32 %m, 0f00000000;" + "".join(
        f"abs.f32 %y0, %f{n}; max.f32 %m, %m, %y0;" for n in range(GROUP)
    )
    pairs = "".join(
        f"div.rn.f32 %y0, %f{n}, %m; div.rn.f32 %y1, %f{n + 1}, %m;"
        f"cvt.rn.satfinite.e2m1x2.f32 %c, %y1, %y0; st.shared.b8 [%q+{n // 2}], %c;"
        for n in range(0, GROUP, 2)
    )
    return f"""
    mov.u32 %i, %laneid; mov.u32 %n, %i;
    AGAIN:
    ld.param.u64 %pi, [p1]; mad.wide.u32 %pi, %n, {4 * GROUP}, %pi; {loads} {largest}
    div.rn.f32 %m, %m, 0f40C00000; mov.f32 %y0, 0f00000000;
    cvt.rn.satfinite.e4m3x2.f32 %h, %y0, %m;
    mov.u32 %s, scales; add.u32 %s, %s, %n; st.shared.b8 [%s], %h;
    cvt.rn.f16x2.e4m3x2 %u, %h; mov.b32 {{%z0, %z1}}, %u; cvt.f32.f16 %m, %z0;
    mov.u32 %q, numbers; mad.lo.u32 %q, %n, {GROUP // 2}, %q; {pairs}
    add.u32 %n, %n, 32; setp.lt.u32 %p, %n, {(ROWS + COLUMNS) * GROUPS};
    @%p bra AGAIN;
    bar.warp.sync 0xffffffff;"""


def _multiply() -> str:
    """Return code by which a warp multiplies the quantised rows of A and columns of B."""
    code = f"""
    shr.u32 %g, %i, 2; and.b32 %t, %i, 3;
    mov.u32 %q, numbers; mad.lo.u32 %q, %g, {ROW_BYTES}, %q; mad.lo.u32 %q, %t, 4, %q;
    mov.u32 %s, scales; and.b32 %v, %t, 1; mad.lo.u32 %v, %v, 8, %g;
    mad.lo.u32 %w, %v, {GROUPS}, %s; mad.lo.u32 %s, %g, {GROUPS}, %s;
    mov.f32 %d0, 0f00000000; mov.f32 %d1, %d0; mov.f32 %d2, %d0; mov.f32 %d3, %d0;"""
    for step in range(DEPTH // STEP):
        first, below = step * STEP // 2, 8 * ROW_BYTES
        places = [first, first + below, first + 16, first + below + 16]
        code += "".join(f"ld.shared.b32 %a{n}, [%q+{place}];" for n, place in enumerate(places))
        begin = ROWS * ROW_BYTES + first
        code += f"ld.shared.b32 %b0, [%q+{begin}]; ld.shared.b32 %b1, [%q+{begin + 16}];"
        code += f"ld.shared.b32 %x0, [%w+{4 * step}];"
        code += f"ld.shared.b32 %x1, [%s+{ROWS * GROUPS + 4 * step}];"
        code += """
        mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3
            {%d0, %d1, %d2, %d3}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%d0, %d1, %d2, %d3},
            %x0, {0, 0}, %x1, {0, 0};"""
    code += "ld.param.u64 %po, [p0]; mad.wide.u32 %po, %i, 16, %po;"
    return code + "st.global.v4.f32 [%po], {%d0, %d1, %d2, %d3};"


def test_a_product_is_that_of_rational_arithmetic() -> None:
    dice = np.random.default_rng(4)
    numbers = (dice.normal(size=(ROWS + COLUMNS, DEPTH)) * 3).astype(np.float32)
    header = (
        f".shared .align 16 .b8 numbers[{numbers.size // 2}];"
        f".shared .align 16 .b8 scales[{numbers.size // GROUP}];"
    )
    parameters = ".param .u64 p0, .param .u64 p1"
    body = _quantise() + _multiply()
    module = compile_verified(kernel(body, parameters, registers=_REGISTERS, header=header))
    buffers = [bytes(4 * ROWS * COLUMNS), numbers.tobytes()]
    plans = plans_of(module)[:2]
    for plan in plans:
        text = compiler().emit_llvm(module, module.functions[0], (32, 1, 1), plan)
        assert prover.prove(text) > 0
    found = compare(module, buffers, (1, 1, 1), (32, 1, 1), plans)
    groups = numbers.reshape(ROWS + COLUMNS, GROUPS, GROUP)
    scales = (np.abs(groups).max(-1) / np.float32(6)).astype(ml_dtypes.float8_e4m3fn)
    quotients = groups / scales.astype(np.float32)[..., None]
    elements = quotients.clip(-6, 6).astype(ml_dtypes.float4_e2m1fn).astype(np.float64)
    factors = scales.astype(np.float64)
    want = np.zeros((ROWS, COLUMNS), np.uint32)
    for step in range(DEPTH // STEP):
        part = slice(step * STEP // GROUP, (step + 1) * STEP // GROUP)
        lists = elements[:, part].reshape(ROWS + COLUMNS, STEP).tolist()
        codes = factors[:, part].tolist()
        want = oracle.scaled_product(
            lists[:ROWS], lists[ROWS:], codes[:ROWS], codes[ROWS:], want.view(np.float32)
        )
    registers = np.frombuffer(found[0], np.uint32).reshape(32, 4)
    have = matrix_oracle.matrix_of(registers, "f32", (ROWS, COLUMNS)).view(np.uint32)
    np.testing.assert_array_equal(have, want)
    exact = numbers[:ROWS].astype(np.float64) @ numbers[ROWS:].T
    assert np.abs(have.view(np.float32) - exact).max() < 0.2 * np.abs(exact).max()
