"""Imports everything that is normally imported on first use, because the files may be gone later.

The zygote compiles once before it forks (the compiler is pure Python and starts no thread); a
worker runs the kernel once on its backend before its sandbox closes.
"""

import functools
from typing import Final

from vgpu_sim.compiler import compile_ptx
from vgpu_sim.compiler.errors import PtxError
from vgpu_sim.isa import Module, container

_PTX: Final = """
.version 7.0
.target sm_50
.address_size 64

.visible .entry warm_up(.param .u64 output, .param .f32 factor)
{
    .reg .pred %p<2>;
    .reg .b16 %h<2>;
    .reg .b32 %r<4>;
    .reg .f32 %f<4>;
    .reg .b64 %d<4>;
    ld.param.u64 %d1, [output];
    ld.param.f32 %f1, [factor];
    mov.u32 %r1, %tid.x;
    setp.ge.s32 %p1, %r1, 16;
    @%p1 bra DONE;
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d3, %d1, %d2;
    cvt.rn.f32.s32 %f2, %r1;
    fma.rn.f32 %f3, %f1, %f2, %f2;
    st.global.f32 [%d3], %f3;
    ld.global.u8 %h1, [%d3];
DONE:
    ret;
}
"""

KERNEL: Final = "warm_up"
# Common features of kernels: a guard, a loop, integers of both sizes, shared memory, a barrier.
SAMPLE: Final = """
.version 7.0
.target sm_50
.address_size 64

.visible .entry sample(
    .param .u64 sample_param_0, .param .u64 sample_param_1, .param .u32 sample_param_2
)
.maxntid 128, 1, 1
{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .f32 %f<8>;
    .reg .b64 %rd<12>;
    .shared .align 4 .b8 tile[512];
    ld.param.u64 %rd1, [sample_param_0];
    ld.param.u64 %rd2, [sample_param_1];
    ld.param.u32 %r1, [sample_param_2];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.s32 %p1, %r5, %r1;
    @%p1 bra $DONE;
    cvta.to.global.u64 %rd3, %rd1;
    cvta.to.global.u64 %rd4, %rd2;
    mul.wide.s32 %rd5, %r5, 4;
    add.s64 %rd6, %rd3, %rd5;
    mov.f32 %f1, 0f00000000;
    mov.u32 %r6, 0;
$LOOP:
    ld.global.nc.f32 %f2, [%rd6];
    fma.rn.f32 %f1, %f2, %f2, %f1;
    add.s64 %rd6, %rd6, 4;
    add.s32 %r6, %r6, 1;
    setp.lt.s32 %p2, %r6, %r1;
    @%p2 bra $LOOP;
    shl.b32 %r7, %r4, 2;
    mov.u32 %r8, tile;
    add.s32 %r9, %r8, %r7;
    st.shared.f32 [%r9], %f1;
    bar.sync 0;
    xor.b32 %r10, %r7, 4;
    add.s32 %r11, %r8, %r10;
    ld.shared.f32 %f3, [%r11];
    mul.f32 %f4, %f3, 0f3F000000;
    max.f32 %f5, %f4, %f1;
    add.f32 %f6, %f5, %f3;
    add.s64 %rd7, %rd4, %rd5;
    st.global.f32 [%rd7], %f6;
$DONE:
    ret;
}
"""
SAMPLE_KERNEL: Final = "sample"
BUFFER_BYTES: Final = 64


@functools.cache
def warm_up_module() -> Module:
    """Compile a small kernel, write its container, and read the container back; return the module
    that was read. Also compile an invalid text and create the log of its error.
    """
    module = container.decode(container.encode(compile_ptx(_PTX, capability=(5, 0))))
    try:
        compile_ptx(".version nonsense", capability=(5, 0))
    except PtxError as err:
        err.log()
    return module


@functools.cache
def sample_module() -> Module:
    """Compile a kernel with features that clients' kernels commonly have."""
    return compile_ptx(SAMPLE, capability=(5, 0))
