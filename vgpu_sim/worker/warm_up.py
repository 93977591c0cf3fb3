"""Makes everything that is imported on first use be imported now: files may be gone later.

The zygote compiles once before it forks (the compiler is pure Python and starts no thread), a
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
BUFFER_BYTES: Final = 64


@functools.cache
def warm_up_module() -> Module:
    """Compile a small kernel, write it, read it back, and fail to compile another."""
    module = container.decode(container.encode(compile_ptx(_PTX, capability=(5, 0))))
    try:
        compile_ptx(".version nonsense", capability=(5, 0))
    except PtxError as err:
        err.log()
    return module
