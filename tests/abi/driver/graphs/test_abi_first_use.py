"""Kernels whose module is loaded into the context while a stream captures their first launch."""

import ctypes

import numpy as np
import pytest

from support.kernels import ptx_kernels

BLOCKING, NON_BLOCKING = 0, 1
MODES = ("GLOBAL", "THREAD_LOCAL", "RELAXED")
STORE = "st.global.u32 [%rd1], %r1;"
# What needs work of the driver at the first use: declarations, and how a kernel gets 7 in %r1.
KINDS = {
    "initialised": (
        ".const .align 4 .u32 three = 3; .global .align 4 .u32 four = 4;",
        "ld.const.u32 %r1, [three]; ld.global.u32 %r2, [four]; add.u32 %r1, %r1, %r2;",
    ),
    "managed": (
        ".global .attribute(.managed) .align 4 .u32 seven = 7;",
        "ld.global.u32 %r1, [seven];",
    ),
    "print": (
        ".extern .func (.param .b32 status) vprintf(.param .b64 format, .param .b64 arguments);"
        ".global .align 1 .b8 text[3] = {104, 10, 0};",
        "mov.u64 %rd2, text; cvta.global.u64 %rd2, %rd2; mov.u64 %rd3, 0;"
        "{ .param .b64 a; .param .b64 b; .param .b32 status;"
        " st.param.b64 [a], %rd2; st.param.b64 [b], %rd3;"
        " call (status), vprintf, (a, b); ld.param.b32 %r1, [status]; }"
        "add.u32 %r1, %r1, 7;",
    ),
    "heap": (
        ".extern .func (.param .b64 block) malloc(.param .b64 bytes);",
        "{ .param .b64 a; .param .b64 block; st.param.b64 [a], 16;"
        " call (block), malloc, (a); ld.param.b64 %rd2, [block]; }"
        "mov.u32 %r2, 7; st.u32 [%rd2], %r2; ld.u32 %r1, [%rd2];",
    ),
    "launch": (
        ".extern .func (.param .b64 buffer) __cudaCDP2GetParameterBufferV2(.param .b64 function,"
        " .param .align 4 .b8 grid[12], .param .align 4 .b8 block[12], .param .b32 shared);"
        ".extern .func (.param .b32 status) __cudaCDP2LaunchDeviceV2(.param .b64 buffer,"
        " .param .b64 stream);"
        ".visible .entry child(.param .b64 word) { .reg .b32 %r1; .reg .b64 %rd1;"
        f" ld.param.u64 %rd1, [word]; mov.u32 %r1, 7; {STORE} ret; }}",
        "mov.u64 %rd2, child; mov.u32 %r1, 1;"
        "{ .param .b64 a; .param .align 4 .b8 b[12]; .param .align 4 .b8 c[12]; .param .b32 d;"
        " .param .b64 buffer; st.param.b64 [a], %rd2;"
        " st.param.b32 [b], %r1; st.param.b32 [b+4], %r1; st.param.b32 [b+8], %r1;"
        " st.param.b32 [c], %r1; st.param.b32 [c+4], %r1; st.param.b32 [c+8], %r1;"
        " st.param.b32 [d], 0;"
        " call (buffer), __cudaCDP2GetParameterBufferV2, (a, b, c, d);"
        " ld.param.b64 %rd3, [buffer]; st.b64 [%rd3], %rd1; }"
        "{ .param .b64 a; .param .b64 b; .param .b32 status;"
        " st.param.b64 [a], %rd3; st.param.b64 [b], 0;"
        " call (status), __cudaCDP2LaunchDeviceV2, (a, b); ld.param.b32 %r1, [status]; }",
    ),
}


def image(kind: str) -> bytes:
    declarations, body = KINDS[kind]
    entry = (
        ".visible .entry run(.param .b64 word) { .reg .b32 %r<3>; .reg .b64 %rd<4>;"
        f" ld.param.u64 %rd1, [word]; {body} {STORE} ret; }}"
    )
    return f"{ptx_kernels.HEADER}\n{declarations}\n{entry}\n".encode() + b"\0"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("flag", [BLOCKING, NON_BLOCKING])
def test_the_first_launch_of_a_kernel_may_be_captured(cuda, kind, flag):
    """In every mode; the legacy stream, for which a blocking stream waits, takes no request."""
    word = cuda.cuMemAlloc(4)
    stream = cuda.cuStreamCreate(flag)
    for name in MODES:
        mode = getattr(cuda.CUstreamCaptureMode, f"CU_STREAM_CAPTURE_MODE_{name}")
        cuda.cuMemsetD32Async(word, 0, 1, stream)
        cuda.cuStreamBeginCapture(stream, mode)
        library = cuda.cuLibraryLoadData(image(kind), [], [], 0, [], [], 0)
        kernel = cuda.cuLibraryGetKernel(library, b"run")
        given = ((int(word),), (ctypes.c_uint64,))
        cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, given, 0)
        graph = cuda.cuStreamEndCapture(stream)
        executable = cuda.cuGraphInstantiate(graph, 0)
        found = np.zeros(1, np.uint32)
        for expected in (0, 7):
            cuda.cuMemcpyDtoHAsync(found, word, 4, stream)
            cuda.cuStreamSynchronize(stream)
            assert found[0] == expected, (kind, name)
            cuda.cuGraphLaunch(executable, stream)
        cuda.cuGraphExecDestroy(executable)
        cuda.cuGraphDestroy(graph)
        cuda.cuStreamSynchronize(stream)
        cuda.cuLibraryUnload(library)
    cuda.cuStreamDestroy(stream)
    cuda.cuMemFree(word)
