"""Texture and surface references: what a program sets, and what kernels of the module read."""

import ctypes
import threading

import numpy as np
import pytest

from support.execution.raising import Raising, Refused

INVALID_VALUE, INVALID_HANDLE, NOT_FOUND = 1, 400, 500
U8, U32, F32 = 1, 3, 32
WRAP, CLAMP, BORDER = 0, 1, 3
AS_INTEGER, NORMALIZED = 1, 2
OVERRIDE_FORMAT = 1

PTX = b"""
.version 7.8
.target sm_80
.address_size 64
.global .texref image;
.global .texref line;
.global .surfref target;
.global .b64 number;
.visible .entry fetch(.param .u64 out, .param .f32 x, .param .f32 y)
{
    .reg .b64 %o;
    .reg .f32 %x, %y, %a, %b, %c, %d;
    ld.param.u64 %o, [out];
    ld.param.f32 %x, [x];
    ld.param.f32 %y, [y];
    tex.2d.v4.f32.f32 {%a, %b, %c, %d}, [image, {%x, %y}];
    st.global.f32 [%o], %a;
    st.global.f32 [%o+4], %b;
    ret;
}
.visible .entry element(.param .u64 out, .param .u32 index)
{
    .reg .b64 %o;
    .reg .b32 %i, %a, %b, %c, %d;
    ld.param.u64 %o, [out];
    ld.param.u32 %i, [index];
    tex.1d.v4.u32.s32 {%a, %b, %c, %d}, [line, {%i}];
    st.global.u32 [%o], %a;
    ret;
}
.visible .entry store(.param .u32 x, .param .u32 value)
{
    .reg .b32 %x, %v, %y;
    ld.param.u32 %x, [x];
    ld.param.u32 %v, [value];
    mov.u32 %y, 0;
    sust.b.2d.b32.trap [target, {%x, %y}], %v;
    ret;
}
\0"""


@pytest.fixture
def module(cuda):
    return cuda.cuModuleLoadData(PTX)


def array(cuda, values: np.ndarray, form=F32):
    shape = cuda.CUDA_ARRAY_DESCRIPTOR()
    shape.Height, shape.Width = values.shape
    shape.Format, shape.NumChannels = cuda.CUarray_format(form), 1
    made = cuda.cuArrayCreate(shape)
    copy = cuda.CUDA_MEMCPY2D()
    copy.srcMemoryType, copy.dstMemoryType = cuda.CUmemorytype(1), cuda.CUmemorytype(3)
    copy.srcHost, copy.dstArray = values.ctypes.data, made
    copy.srcPitch = copy.WidthInBytes = values.strides[0]
    copy.Height = values.shape[0]
    cuda.cuMemcpy2D(copy)
    return made


class Launches:
    """Launches of the module's kernels, and what they store."""

    def __init__(self, cuda, module) -> None:
        self._cuda, self._module = cuda, module
        self._out = int(cuda.cuMemAlloc(8))

    def run(self, name: str, values, types, stream=0) -> None:
        function = self._cuda.cuModuleGetFunction(self._module, name.encode())
        self._cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, (values, types), 0)

    def read_output(self, kind=np.float32):
        back = np.zeros(2, kind)
        self._cuda.cuMemcpyDtoH(back, self._out, 8)
        return back[0]

    def fetch(self, x: float, y: float) -> float:
        types = ctypes.c_uint64, ctypes.c_float, ctypes.c_float
        self.run("fetch", (self._out, x, y), types)
        return float(self.read_output())

    def element(self, index: int) -> int:
        self.run("element", (self._out, index), (ctypes.c_uint64, ctypes.c_uint32))
        return int(self.read_output(np.uint32))


@pytest.fixture
def launches(cuda, module):
    return Launches(cuda, module)


def test_kernels_fetch_from_what_a_reference_was_set_to(cuda, module, launches):
    """A later change takes effect at the next launch, and earlier launches see the former state."""
    first = np.arange(12, dtype=np.float32).reshape(3, 4)
    image = cuda.cuModuleGetTexRef(module, b"image")
    assert int(cuda.cuModuleGetTexRef(module, b"image")) == int(image)
    cuda.cuTexRefSetArray(image, array(cuda, first), OVERRIDE_FORMAT)
    assert launches.fetch(2.5, 1.5) == 6
    assert launches.fetch(9.5, 1.5) == 7, "coordinates are clamped"
    cuda.cuTexRefSetFilterMode(image, cuda.CUfilter_mode(1))
    assert launches.fetch(2.0, 1.5) == 5.5
    cuda.cuTexRefSetFlags(image, NORMALIZED)
    assert launches.fetch(0.375, 0.5) == 5
    cuda.cuTexRefSetAddressMode(image, 0, cuda.CUaddress_mode(BORDER))
    library = ctypes.CDLL("libcuda.so.1")  # cuda.bindings passes the address of one number only
    colour = (ctypes.c_float * 4)(8.0, 7.0, 6.0, 5.0)
    assert library.cuTexRefSetBorderColor(ctypes.c_void_p(int(image)), colour) == 0
    found = (ctypes.c_float * 4)()
    assert library.cuTexRefGetBorderColor(found, ctypes.c_void_p(int(image))) == 0
    assert list(found) == list(colour)
    assert launches.fetch(7.0, 0.5) == 8
    cuda.cuTexRefSetArray(image, array(cuda, first + 100), OVERRIDE_FORMAT)
    assert launches.fetch(0.375, 0.5) == 105


def test_linear_memory_is_read_by_elements_of_the_references_format(cuda, module, launches):
    line = cuda.cuModuleGetTexRef(module, b"line")
    values = np.arange(1, 1001, dtype=np.uint32)
    memory = int(cuda.cuMemAlloc(values.nbytes))
    cuda.cuMemcpyHtoD(memory, values, values.nbytes)
    cuda.cuTexRefSetFormat(line, cuda.CUarray_format(U32), 1)
    cuda.cuTexRefSetFlags(line, AS_INTEGER)
    assert int(cuda.cuTexRefSetAddress(line, memory, values.nbytes)) == 0
    assert launches.element(41) == 42
    assert launches.element(1000) == 0, "outside"
    offset = int(cuda.cuTexRefSetAddress(line, memory + 512 + 8, 400))
    assert offset == 8
    assert launches.element(offset // 4) == values[130]
    assert int(cuda.cuTexRefGetAddress(line)) == memory + 512


def test_pitched_memory_has_the_format_of_its_description(cuda, module, launches):
    image = cuda.cuModuleGetTexRef(module, b"image")
    memory, pitch = cuda.cuMemAllocPitch(16, 3, 4)
    cuda.cuMemsetD2D32(memory, int(pitch), np.float32(2.5).view(np.uint32).item(), 4, 3)
    shape = cuda.CUDA_ARRAY_DESCRIPTOR()
    shape.Height, shape.Width = 3, 4
    shape.Format, shape.NumChannels = cuda.CUarray_format(F32), 1
    cuda.cuTexRefSetAddress2D(image, shape, memory, int(pitch))
    assert launches.fetch(1.5, 2.5) == 2.5
    assert [int(one) for one in cuda.cuTexRefGetFormat(image)] == [F32, 1]
    given = image, shape, int(memory) + 4, int(pitch)
    assert cuda.code("cuTexRefSetAddress2D", *given) == INVALID_VALUE


def test_kernels_store_to_a_surface_reference(cuda, module, launches):
    values = np.zeros((2, 4), np.float32)
    one = array(cuda, values)
    target = cuda.cuModuleGetSurfRef(module, b"target")
    assert cuda.code("cuSurfRefGetArray", target) == INVALID_VALUE
    cuda.cuSurfRefSetArray(target, one, 0)
    assert int(cuda.cuSurfRefGetArray(target)) == int(one)
    bits = np.float32(1.5).view(np.uint32).item()
    launches.run("store", (8, bits), (ctypes.c_uint32, ctypes.c_uint32))
    image = cuda.cuModuleGetTexRef(module, b"image")
    cuda.cuTexRefSetArray(image, one, OVERRIDE_FORMAT)
    assert launches.fetch(2.5, 0.5) == 1.5


def test_a_capture_binds_references(cuda, module, launches):
    image = cuda.cuModuleGetTexRef(module, b"image")
    cuda.cuTexRefSetArray(image, array(cuda, np.full((2, 2), 3, np.float32)), OVERRIDE_FORMAT)
    stream = cuda.cuStreamCreate(1)
    cuda.cuStreamBeginCapture(stream, cuda.CUstreamCaptureMode(2))
    types = ctypes.c_uint64, ctypes.c_float, ctypes.c_float
    launches.run("fetch", (launches._out, 0.5, 0.5), types, stream)
    made = cuda.cuGraphInstantiate(cuda.cuStreamEndCapture(stream), 0)
    cuda.cuGraphLaunch(made, stream)
    cuda.cuStreamSynchronize(stream)
    assert launches.read_output() == 3


def test_only_references_are_found_by_name(cuda, module):
    for call, name in [
        ("cuModuleGetTexRef", b"target"), ("cuModuleGetTexRef", b"number"),
        ("cuModuleGetTexRef", b"none"), ("cuModuleGetSurfRef", b"image"),
        ("cuModuleGetTexRef", b"x" * 10_000),
    ]:  # fmt: skip
        assert cuda.code(call, module, name) == NOT_FOUND, (call, name)
    assert cuda.code("cuModuleGetTexRef", 0, b"image") == INVALID_HANDLE
    target = int(cuda.cuModuleGetSurfRef(module, b"target"))
    assert cuda.code("cuTexRefSetFlags", target, 0) == INVALID_HANDLE


def test_state_is_returned_and_checked(cuda, module):
    one = cuda.cuTexRefCreate()
    assert [int(x) for x in cuda.cuTexRefGetFormat(one)] == [F32, 1]
    cuda.cuTexRefSetFormat(one, cuda.CUarray_format(U8), 4)
    assert [int(x) for x in cuda.cuTexRefGetFormat(one)] == [U8, 4]
    assert cuda.code("cuTexRefSetFormat", one, cuda.CUarray_format(U8), 3) == INVALID_VALUE
    cuda.cuTexRefSetMipmapLevelBias(one, 0.5)
    cuda.cuTexRefSetMipmapLevelClamp(one, 1.0, 2.0)
    cuda.cuTexRefSetMaxAnisotropy(one, 7)
    cuda.cuTexRefSetMipmapFilterMode(one, cuda.CUfilter_mode(1))
    assert cuda.cuTexRefGetMipmapLevelBias(one) == 0.5
    assert tuple(cuda.cuTexRefGetMipmapLevelClamp(one)) == (1.0, 2.0)
    assert int(cuda.cuTexRefGetMaxAnisotropy(one)) == 7
    assert int(cuda.cuTexRefGetMipmapFilterMode(one)) == 1
    assert int(cuda.cuTexRefGetFilterMode(one)) == 0
    cuda.cuTexRefSetAddressMode(one, 2, cuda.CUaddress_mode(CLAMP))
    modes = [int(cuda.cuTexRefGetAddressMode(one, i)) for i in range(3)]
    assert modes == [WRAP, WRAP, CLAMP]
    assert cuda.code("cuTexRefGetAddressMode", one, 3) == INVALID_VALUE
    assert cuda.code("cuTexRefSetFlags", one, 0x80) == INVALID_VALUE
    for call in ("cuTexRefGetAddress", "cuTexRefGetArray", "cuTexRefGetMipmappedArray"):
        assert cuda.code(call, one) == INVALID_VALUE
    values = array(cuda, np.zeros((2, 2), np.float32))
    assert cuda.code("cuTexRefSetArray", one, values, 0) == INVALID_VALUE
    cuda.cuTexRefSetArray(one, values, OVERRIDE_FORMAT)
    assert int(cuda.cuTexRefGetArray(one)) == int(values)
    assert [int(x) for x in cuda.cuTexRefGetFormat(one)] == [F32, 1]
    cuda.cuTexRefDestroy(one)
    assert cuda.code("cuTexRefDestroy", one) == INVALID_HANDLE
    image = cuda.cuModuleGetTexRef(module, b"image")
    assert cuda.code("cuTexRefDestroy", image) == INVALID_VALUE


def test_a_reference_ends_with_its_module(cuda, module, launches):
    image = cuda.cuModuleGetTexRef(module, b"image")
    cuda.cuTexRefSetArray(image, array(cuda, np.zeros((2, 2), np.float32)), OVERRIDE_FORMAT)
    launches.fetch(0.5, 0.5)
    cuda.cuModuleUnload(module)
    assert cuda.code("cuTexRefSetFlags", image, 0) == INVALID_HANDLE


def test_a_launch_refuses_a_reference_that_describes_no_texture(cuda, module, launches):
    """Integers cannot be filtered; only launches of the reference's module are refused."""
    image = cuda.cuModuleGetTexRef(module, b"image")
    cuda.cuTexRefSetArray(image, array(cuda, np.zeros((2, 2), np.uint32), U32), OVERRIDE_FORMAT)
    cuda.cuTexRefSetFilterMode(image, cuda.CUfilter_mode(1))
    with pytest.raises(Refused) as refused:
        launches.fetch(0.5, 0.5)
    assert refused.value.code == INVALID_VALUE
    other = Launches(cuda, cuda.cuModuleLoadData(PTX))
    line = cuda.cuModuleGetTexRef(other._module, b"line")
    cuda.cuTexRefSetAddress(line, int(cuda.cuMemAlloc(64)), 64)
    other.element(0)
    cuda.cuTexRefSetFilterMode(image, cuda.CUfilter_mode(0))
    launches.fetch(0.5, 0.5)


def test_threads_change_a_reference_while_others_launch(cuda, module, launches):
    """Each value that a kernel stores is that of an array which the reference was set to."""
    context = cuda.cuCtxGetCurrent()
    image = cuda.cuModuleGetTexRef(module, b"image")
    arrays = [array(cuda, np.full((2, 2), number, np.float32)) for number in (1, 2)]
    cuda.cuTexRefSetArray(image, arrays[0], OVERRIDE_FORMAT)

    def change() -> None:
        cuda.cuCtxSetCurrent(context)
        for number in range(50):
            cuda.cuTexRefSetArray(image, arrays[number % 2], OVERRIDE_FORMAT)

    thread = threading.Thread(target=change)
    thread.start()
    found = {launches.fetch(0.5, 0.5) for _ in range(50)}
    thread.join()
    assert found <= {1.0, 2.0}


def test_old_launches_name_the_references_of_their_module(cuda, module):
    element = cuda.cuModuleGetFunction(module, b"element")
    line = cuda.cuModuleGetTexRef(module, b"line")
    library = ctypes.CDLL("libcuda.so.1")
    given = [ctypes.c_void_p(int(one)) for one in (element, line)]
    assert library.cuParamSetTexRef(given[0], -1, given[1]) == 0
    assert library.cuParamSetTexRef(given[0], 0, given[1]) == INVALID_VALUE
    assert library.cuParamSetTexRef(None, -1, given[1]) == INVALID_HANDLE
    other = cuda.cuModuleGetFunction(cuda.cuModuleLoadData(PTX), b"element")
    assert library.cuParamSetTexRef(ctypes.c_void_p(int(other)), -1, given[1]) == INVALID_VALUE


def test_a_kernel_ends_with_an_error_if_its_reference_was_not_set(driver):
    cuda = Raising(driver)
    context = cuda.cuCtxCreate(None, 0, 0)
    with pytest.raises(Refused):
        Launches(cuda, cuda.cuModuleLoadData(PTX)).fetch(0.5, 0.5)
    driver.cuCtxDestroy(context)


UNUSED = b"""
.visible .entry none() { ret; }
.func (.param .b32 found) read(.param .b32 index)
{
    .reg .b32 %i, %a, %b, %c, %d;
    ld.param.b32 %i, [index];
    tex.1d.v4.u32.s32 {%a, %b, %c, %d}, [line, {%i}];
    st.param.b32 [found], %a;
    ret;
}
.visible .entry through(.param .u64 out, .param .u32 index)
{
    .reg .b64 %o;
    .reg .b32 %i, %a;
    .param .b32 given, found;
    ld.param.u64 %o, [out];
    ld.param.u32 %i, [index];
    st.param.b32 [given], %i;
    call (found), read, (given);
    ld.param.b32 %a, [found];
    st.global.u32 [%o], %a;
    ret;
}
"""


@pytest.mark.parametrize("padding", [0, 40_000], ids=["whole", "lazy"])
def test_a_launch_needs_only_the_references_that_its_kernel_reads(cuda, capfd, padding):
    """``line`` is at freed memory: kernels that read it, also in a function, are refused."""
    text = PTX[:-1] + UNUSED + b"//" + b"-" * padding + b"\n\0"
    launches = Launches(cuda, cuda.cuModuleLoadData(text))
    image = cuda.cuModuleGetTexRef(launches._module, b"image")
    line = cuda.cuModuleGetTexRef(launches._module, b"line")
    cuda.cuTexRefSetArray(image, array(cuda, np.full((2, 2), 3, np.float32)), OVERRIDE_FORMAT)
    memory = int(cuda.cuMemAlloc(64))
    cuda.cuTexRefSetAddress(line, memory, 64)
    cuda.cuMemFree(memory)
    launches.run("none", (), ())
    assert launches.fetch(0.5, 0.5) == 3
    assert "reference" not in capfd.readouterr().err
    index = ctypes.c_uint64, ctypes.c_uint32
    for name in ("element", "through", "through"):
        with pytest.raises(Refused) as refused:
            launches.run(name, (launches._out, 1), index)
        assert refused.value.code == INVALID_VALUE
    said = capfd.readouterr().err
    assert said.count("texture reference line") == 1
    assert "kernel element not launched" in said
    values = np.arange(5, 21, dtype=np.uint32)
    memory = int(cuda.cuMemAlloc(64))
    cuda.cuMemcpyHtoD(memory, values, 64)
    cuda.cuTexRefSetFormat(line, cuda.CUarray_format(U32), 1)
    cuda.cuTexRefSetFlags(line, AS_INTEGER)
    cuda.cuTexRefSetAddress(line, memory, 64)
    launches.run("through", (launches._out, 1), index)
    assert int(launches.read_output(np.uint32)) == 6


def test_programs_do_not_see_variables_that_describe_references(cuda, module):
    assert int(cuda.cuModuleGetGlobal(module, b"number")[1]) == 8
    for name in (b"texref.image", b"surfref.target", b"reads.fetch.image", b"managed.number"):
        assert cuda.code("cuModuleGetGlobal", module, b"tessera." + name) == NOT_FOUND
