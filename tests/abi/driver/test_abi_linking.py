"""cuLink...: several PTX texts and containers as one module, through cuda.bindings."""

import ctypes

import numpy as np
import pytest

from vgpu_sim.compiler import compile_ptx
from vgpu_sim.isa import container

INVALID_VALUE, INVALID_IMAGE, NO_BINARY, INVALID_PTX, INVALID_HANDLE = 1, 200, 209, 218, 400
HEAD = ".version 7.0\n.target sm_80\n.address_size 64\n"
READER = (
    HEAD
    + """
.extern .global .align 4 .u32 answer;
.visible .entry read(.param .u64 out)
{
  .reg .b64 %d; .reg .b32 %r;
  ld.param.u64 %d, [out]; ld.global.u32 %r, [answer]; st.global.u32 [%d], %r; ret;
}
"""
)
ANSWER = HEAD + ".visible .global .align 4 .u32 answer = 42;\n"


def _add(cuda, state, text, name="input"):
    data = text if isinstance(text, bytes) else text.encode()
    kind = cuda.CUjitInputType.CU_JIT_INPUT_PTX
    if isinstance(text, bytes):
        kind = cuda.CUjitInputType.CU_JIT_INPUT_CUBIN
    return cuda.code("cuLinkAddData", state, kind, data, len(data), name.encode(), 0, [], [])


def _run(cuda, image) -> int:
    function = cuda.cuModuleGetFunction(cuda.cuModuleLoadData(image), b"read")
    out = int(cuda.cuMemAlloc(4))
    cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, ((out,), (ctypes.c_uint64,)), 0)
    found = np.zeros(1, np.uint32)
    cuda.cuMemcpyDtoH(found, out, 4)
    return int(found[0])


def test_texts_and_containers_make_one_module(cuda, tmp_path):
    compiled = container.encode(compile_ptx(ANSWER, capability=(8, 0)))
    file = tmp_path / "answer.ptx"
    file.write_text(ANSWER)
    for other in (ANSWER, compiled, file):
        state = cuda.cuLinkCreate(0, [], [])
        assert _add(cuda, state, READER) == 0
        if other is file:
            kind = cuda.CUjitInputType.CU_JIT_INPUT_PTX
            cuda.cuLinkAddFile(state, kind, str(file).encode(), 0, [], [])
        else:
            assert _add(cuda, state, other) == 0
        image, size = cuda.cuLinkComplete(state)
        again, _ = cuda.cuLinkComplete(state)
        assert (image, size > 100) == (again, True)
        assert _add(cuda, state, ANSWER) == INVALID_VALUE, "it is complete"
        assert _run(cuda, image) == 42
        cuda.cuLinkDestroy(state)
        assert cuda.code("cuLinkDestroy", state) == INVALID_HANDLE
        assert cuda.code("cuLinkComplete", state) == INVALID_HANDLE


def test_what_is_missing_is_named_in_the_log(cuda, capfd):
    option = cuda.CUjit_option
    log = bytearray(500)
    options = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
    state = cuda.cuLinkCreate(2, options, [log, len(log)])
    assert _add(cuda, state, READER, "reader.ptx") == 0
    assert cuda.code("cuLinkComplete", state) == INVALID_IMAGE
    wanted = b"error : Undefined reference to 'answer' in 'reader.ptx'"
    assert wanted in log
    assert wanted.decode() in capfd.readouterr().err
    assert _add(cuda, state, ANSWER, "one") == 0
    assert _add(cuda, state, ANSWER, "two") == 0
    assert cuda.code("cuLinkComplete", state) == INVALID_IMAGE
    assert b"Multiple definition of 'answer' in 'two', first defined in 'one'" in log
    cuda.cuLinkDestroy(state)


@pytest.mark.parametrize(
    ("input_", "code"),
    [
        ("no PTX", INVALID_PTX),
        (READER.replace("%r,", "%x,"), 0),  # found when all of it is compiled
        (READER.replace("ld.global", "ld.nowhere"), INVALID_PTX),
        (READER.replace("sm_80", "sm_121"), NO_BINARY),
        (b"\x7fELF" + bytes(100), NO_BINARY),
        (b"\x89TISA\r\n\x1a" + bytes(60), INVALID_IMAGE),
    ],
)
def test_inputs_that_cannot_be_linked(cuda, input_, code):
    state = cuda.cuLinkCreate(0, [], [])
    assert _add(cuda, state, input_) == code
    if code == 0:
        assert _add(cuda, state, ANSWER) == 0
    assert cuda.code("cuLinkComplete", state) == (INVALID_PTX if code == 0 else INVALID_VALUE)
    cuda.cuLinkDestroy(state)
