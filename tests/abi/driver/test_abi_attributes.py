"""Attributes of functions: constant memory, registers under a limit, alignment."""

import ctypes

import numpy as np
import pytest

from support.kernels.ptx_kernels import HEADER

MAX_REGISTERS = 0  # CUjit_option

BANKED = (
    HEADER
    + """
.const .align 4 .b8 first[56];
.const .align 16 .b8 second[3];
.global .u64 other;
.visible .entry reads(.param .u64 p)
{
    .reg .b64 %rd<2>; .reg .b32 %r0;
    ld.param.u64 %rd0, [p];
    ld.const.u32 %r0, [first];
    st.global.u32 [%rd0], %r0;
    ret;
}
.visible .entry bare() { ret; }
"""
)

# 64 values that are all live at once.
GREEDY = (
    HEADER
    + ".visible .entry greedy(.param .u64 p)\n{\n.reg .b64 %rd0; .reg .b32 %r<65>, %sum;\n"
    + "ld.param.u64 %rd0, [p];\n"
    + "".join(f"ld.volatile.global.u32 %r{i}, [%rd0 + {4 * i}];\n" for i in range(64))
    + "mov.u32 %sum, 0;\n"
    + "".join(f"mad.lo.u32 %sum, %sum, 3, %r{63 - i};\n" for i in range(64))
    + "st.global.u32 [%rd0], %sum;\nret;\n}\n"
)


def attribute(cuda, name: str, function) -> int:
    return cuda.cuFuncGetAttribute(
        getattr(cuda.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}"), function
    )


def test_constant_memory_is_the_modules_for_each_of_its_kernels(cuda):
    """ptxas does the same: one section .nv.constant3, 56 bytes, 8 of padding, and 3."""
    module = cuda.cuModuleLoadData(BANKED.encode() + b"\0")
    for name in (b"reads", b"bare"):
        function = cuda.cuModuleGetFunction(module, name)
        assert attribute(cuda, "CONST_SIZE_BYTES", function) == 67
    other = cuda.cuModuleGetFunction(cuda.cuModuleLoadData(GREEDY.encode() + b"\0"), b"greedy")
    assert attribute(cuda, "CONST_SIZE_BYTES", other) == 0


def load(cuda, limit: int):
    options = [cuda.CUjit_option(MAX_REGISTERS)]
    return cuda.cuModuleLoadDataEx(GREEDY.encode() + b"\0", 1, options, [limit])


def library(cuda, limit: int):
    options = [cuda.CUjit_option(MAX_REGISTERS)]
    found = cuda.cuLibraryLoadData(GREEDY.encode() + b"\0", options, [limit], 1, [], [], 0)
    return cuda.cuLibraryGetModule(found)


def link(cuda, limit: int):
    state = cuda.cuLinkCreate(1, [cuda.CUjit_option(MAX_REGISTERS)], [limit])
    text = GREEDY.encode() + b"\0"
    cuda.cuLinkAddData(
        state, cuda.CUjitInputType.CU_JIT_INPUT_PTX, text, len(text), b"a", 0, [], []
    )
    image, size = cuda.cuLinkComplete(state)
    return cuda.cuModuleLoadData(ctypes.string_at(int(image), size))


@pytest.mark.parametrize("make", [load, library, link])
def test_a_limit_of_registers_is_kept(cuda, make):
    def registers(limit: int) -> int:
        return attribute(cuda, "NUM_REGS", cuda.cuModuleGetFunction(make(cuda, limit), b"greedy"))

    free = registers(255)
    assert free > 64
    assert registers(free) == free
    assert registers(free - 1) == free - 1
    assert registers(38) == 38
    assert registers(8) == 24  # ptxas: "adjusting per thread register count of 8 to lower bound"


ALIGNED = (
    HEADER
    + """
.global .b8 small;
.global .align GLOBAL .b8 inside[64];
.visible .entry where(.param .u64 p)
{
    .shared .b8 one;
    .shared .align SHARED .b8 two[64];
    .local .b8 three;
    .local .align LOCAL .b8 four[64];
    .reg .b64 %rd<5>; .reg .b32 %r<3>; .reg .b16 %h0;
    ld.param.u64 %rd0, [p];
    mov.u64 %rd1, inside;
    st.global.u64 [%rd0], %rd1;
    mov.u64 %rd2, two;
    st.global.u64 [%rd0 + 8], %rd2;
    mov.u64 %rd3, four;
    st.global.u64 [%rd0 + 16], %rd3;
    mov.u16 %h0, 7;
    st.local.u8 [three], %h0;
    st.shared.u8 [one], %h0;
    st.shared.u8 [%rd2 + 63], %h0;
    st.local.u8 [%rd3 + 63], %h0;
    ret;
}
"""
)


@pytest.mark.parametrize(
    ("of_global", "of_shared", "of_local"),
    [(512, 1024, 128), (1024, 2048, 256), (16384, 16384, 16384), (1 << 20, 32768, 1 << 18)],
)
def test_variables_are_placed_by_their_alignment(cuda, of_global, of_shared, of_local):
    text = ALIGNED.replace("GLOBAL", str(of_global)).replace("SHARED", str(of_shared))
    text = text.replace("LOCAL", str(of_local))
    cuda.cuModuleLoadData(
        ALIGNED.replace("GLOBAL", "8").replace("SHARED", "8").replace("LOCAL", "8").encode() + b"\0"
    )  # occupies the first page
    function = cuda.cuModuleGetFunction(cuda.cuModuleLoadData(text.encode() + b"\0"), b"where")
    out = cuda.cuMemAlloc(24)
    cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, 0, ((int(out),), (ctypes.c_uint64,)), 0)
    found = np.zeros(3, np.uint64)
    cuda.cuMemcpyDtoH(found, out, 24)
    for address, alignment in zip(found.tolist(), (of_global, of_shared, of_local), strict=True):
        assert address % alignment == 0
    assert found[0] > 0
    assert found[1] == of_shared  # after a byte
