"""cuLink...: several PTX texts and containers as one module, through cuda.bindings."""

import ctypes
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from support.kernels.fat_binaries import CUBIN, make_entry, make_fat_binary
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


def make_object(folder: Path, name: str, data: bytes) -> Path:
    """Compile a C file with a section of fat binaries, as nvcc's host compiler does."""
    (folder / "data.bin").write_bytes(data)
    source = folder / f"{name}.c"
    source.write_text('__asm__(".section .nv_fatbin,\\"a\\"\\n.incbin \\"data.bin\\"");\n')
    compiler = os.environ.get("CC") or "cc"
    subprocess.run([compiler, "-c", source.name], cwd=folder, check=True)
    return source.with_suffix(".o")


def test_objects_archives_and_fat_binaries_are_linked(cuda, tmp_path):
    kinds = cuda.CUjitInputType
    fat = make_fat_binary(make_entry(80, ANSWER, compression="zstd"))
    code = make_fat_binary(make_entry(90, b"code", kind=CUBIN))
    answer = make_object(tmp_path, "answer", fat + bytes(8))
    machine = make_object(tmp_path, "a_member_with_a_long_name", code)
    runtime = make_object(tmp_path, "cuda_device_runtime", b"damaged")
    archive = tmp_path / "libanswer.a"
    subprocess.run(["ar", "qc", archive, answer, machine, runtime], check=True)
    inputs = [
        (kinds.CU_JIT_INPUT_FATBINARY, fat),
        (kinds.CU_JIT_INPUT_OBJECT, answer.read_bytes()),
        (kinds.CU_JIT_INPUT_LIBRARY, archive.read_bytes()),
    ]
    for kind, data in inputs:
        state = cuda.cuLinkCreate(0, [], [])
        assert _add(cuda, state, READER) == 0
        cuda.cuLinkAddData(state, kind, data, len(data), b"input", 0, [], [])
        image, _ = cuda.cuLinkComplete(state)
        assert _run(cuda, image) == 42
        cuda.cuLinkDestroy(state)
    state = cuda.cuLinkCreate(0, [], [])
    damaged = archive.read_bytes()[:-10]
    for kind, data, status in [
        (kinds.CU_JIT_INPUT_OBJECT, machine.read_bytes(), NO_BINARY),
        (kinds.CU_JIT_INPUT_OBJECT, runtime.read_bytes(), INVALID_IMAGE),
        (kinds.CU_JIT_INPUT_LIBRARY, damaged, INVALID_IMAGE),
        (kinds.CU_JIT_INPUT_LIBRARY, b"text", NO_BINARY),
    ]:
        assert cuda.code("cuLinkAddData", state, kind, data, len(data), b"x", 0, [], []) == status
    assert _add(cuda, state, READER) == 0
    assert cuda.code("cuLinkComplete", state) == INVALID_IMAGE, "the answer is not defined"
    cuda.cuLinkDestroy(state)


GRID = (
    HEAD
    + """
.extern .func (.param .b64 h) cudaCGGetIntrinsicHandle(.param .b32 scope);
.extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 h, .param .b32 flags);
.visible .entry meet(.param .u64 out)
{
  .reg .pred %p; .reg .b64 %d, %h; .reg .b32 %r, %s, %t;
  { .param .b32 a; .param .b64 b; st.param.b32 [a], 1;
    call (b), cudaCGGetIntrinsicHandle, (a); ld.param.b64 %h, [b]; }
  ld.param.u64 %d, [out];
  mov.u32 %t, %tid.x;
  atom.global.add.u32 %r, [%d], 1;
  { .param .b64 a; .param .b32 b; .param .b32 c; st.param.b64 [a], %h; st.param.b32 [b], 0;
    call (c), cudaCGSynchronize, (a, b); ld.param.b32 %s, [c]; }
  ld.volatile.global.u32 %r, [%d];
  setp.eq.u32 %p, %r, 128;
  setp.eq.and.b32 %p, %s, 0, %p;
  @!%p trap;
  ret;
}
"""
)


def test_the_device_runtime_synchronises_a_grid(cuda):
    state = cuda.cuLinkCreate(0, [], [])
    assert _add(cuda, state, GRID) == 0
    image, _ = cuda.cuLinkComplete(state)
    function = cuda.cuModuleGetFunction(cuda.cuModuleLoadData(image), b"meet")
    out = int(cuda.cuMemAlloc(4))
    cuda.cuMemsetD32(out, 0, 1)
    cuda.cuLaunchCooperativeKernel(function, 4, 1, 1, 32, 1, 1, 0, 0, ((out,), (ctypes.c_uint64,)))
    cuda.cuCtxSynchronize()
    cuda.cuLinkDestroy(state)
