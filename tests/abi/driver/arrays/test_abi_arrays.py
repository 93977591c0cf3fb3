"""Arrays: creation within the device's limits, copies in all directions, lifetimes."""

import ctypes
import functools
import itertools
import time

import numpy as np
import pytest

from support.execution.raising import Refused

INVALID_VALUE, INVALID_HANDLE, NOT_SUPPORTED = 1, 400, 801
HOST, DEVICE, ARRAY = 1, 2, 3
U8, U16, F32, BC1 = 1, 2, 32, 145
LAYERED, SURFACE, CUBE, GATHER, DEPTH, SPARSE = 1, 2, 4, 8, 16, 64


@pytest.fixture
def create(cuda):
    """Create an array by cuArray3DCreate; return its handle, or the error's code."""

    def call(width, height=0, depth=0, form=F32, channels=1, flags=0):
        one = cuda.CUDA_ARRAY3D_DESCRIPTOR()
        one.Width, one.Height, one.Depth = width, height, depth
        one.Format, one.NumChannels, one.Flags = cuda.CUarray_format(form), channels, flags
        try:
            return cuda.cuArray3DCreate(one)
        except Refused as error:
            return error.code

    return call


@pytest.mark.parametrize(
    "wrong",
    [
        {"width": 0}, {"width": 131073}, {"width": 8, "depth": 2}, {"width": 8, "channels": 3},
        {"width": 8, "height": 65537}, {"width": 2**63, "height": 2}, {"width": 8, "flags": 0x200},
        {"width": 32769, "flags": SURFACE}, {"width": 8, "height": 8, "depth": 5, "flags": CUBE},
        {"width": 8, "height": 4, "depth": 6, "flags": CUBE}, {"width": 8, "flags": LAYERED},
        {"width": 8, "height": 8, "depth": 2049, "flags": LAYERED}, {"width": 8, "flags": GATHER},
        {"width": 8, "height": 8, "depth": 10, "flags": CUBE | LAYERED},
        {"width": 2**16, "height": 2**16, "depth": 2**32},
    ],
    ids=str,
)  # fmt: skip
def test_impossible_arrays_are_invalid(create, wrong):
    assert create(**wrong) == INVALID_VALUE


@pytest.mark.parametrize("refused", [{"form": BC1}, {"flags": SPARSE}, {"flags": DEPTH}], ids=str)
def test_unsupported_arrays_are_refused(create, refused):
    assert create(8, 8, **refused) == NOT_SUPPORTED


def test_descriptions_are_those_of_the_program(cuda, create):
    array = create(16, 16, 12, U8, 4, CUBE | LAYERED | SURFACE)
    one = cuda.cuArray3DGetDescriptor(array)
    assert (one.Width, one.Height, one.Depth) == (16, 16, 12)
    assert (int(one.Format), one.NumChannels, one.Flags) == (U8, 4, CUBE | LAYERED | SURFACE)
    flat = cuda.cuArrayGetDescriptor(array)
    assert (flat.Width, flat.Height, flat.NumChannels) == (16, 16, 4)
    assert cuda.code("cuArrayGetPlane", array, 0) == INVALID_VALUE  # as documented
    assert cuda.code("cuArrayGetSparseProperties", array) == INVALID_VALUE
    assert cuda.code("cuArrayGetMemoryRequirements", array, 0) == INVALID_VALUE
    cuda.cuArrayDestroy(array)
    for call in ("cuArrayDestroy", "cuArray3DGetDescriptor", "cuArrayGetDescriptor"):
        assert cuda.code(call, array) == INVALID_HANDLE


def region(cuda, source, target, size, form="3D", **more):
    """Copy between ("host" | "device", address, pitch, rows) or ("array", handle), at origins."""
    p = cuda.CUDA_MEMCPY3D_PEER() if "Peer" in form else cuda.CUDA_MEMCPY3D()
    for prefix, (kind, what, *shape) in (("src", source), ("dst", target)):
        number = {"host": HOST, "device": DEVICE, "array": ARRAY}[kind]
        setattr(p, prefix + "MemoryType", cuda.CUmemorytype(number))
        setattr(p, prefix + kind.capitalize(), what)
        if shape:
            setattr(p, prefix + "Pitch", shape[0])
            setattr(p, prefix + "Height", shape[1])
    p.WidthInBytes, p.Height, p.Depth = size
    for name, value in more.items():
        setattr(p, name, value)
    if "Peer" in form:
        p.srcContext = p.dstContext = cuda.cuCtxGetCurrent()
    return p


def contents(cuda, array, shape, dtype=np.float32):
    out = np.zeros(shape, dtype)
    row = shape[2] * out.itemsize
    size = (row, shape[1], shape[0])
    cuda.cuMemcpy3D(region(cuda, ("array", array), ("host", out.ctypes.data, row, shape[1]), size))
    return out


@pytest.mark.parametrize("flags", [0, LAYERED], ids=["solid", "layered"])
def test_boxes_are_copied_between_arrays_and_memory(cuda, create, flags):
    shape = (3, 5, 7)
    data = np.random.default_rng(1).random(shape, np.float32)
    first, second = (create(7, 5, 3, flags=flags) for _ in range(2))
    assert not contents(cuda, first, shape).any()
    device = int(cuda.cuMemAlloc(data.nbytes))
    cuda.cuMemcpyHtoD(device, data.ctypes.data, data.nbytes)
    size, memory = (28, 5, 3), ("device", device, 28, 5)
    cuda.cuMemcpy3D(region(cuda, memory, ("array", first), size))
    assert (contents(cuda, first, shape) == data).all()
    inner = {"srcXInBytes": 8, "srcY": 1, "srcZ": 1, "dstXInBytes": 4, "dstY": 2, "dstZ": 0}
    stream = cuda.cuStreamCreate(1)
    box = region(cuda, ("array", first), ("array", second), (12, 3, 2), **inner)
    cuda.cuMemcpy3DAsync(box, stream)
    cuda.cuStreamSynchronize(stream)
    wanted = np.zeros(shape, np.float32)
    wanted[0:2, 2:5, 1:4] = data[1:3, 1:4, 2:5]
    assert (contents(cuda, second, shape) == wanted).all()
    peer = region(cuda, ("array", first), ("array", second), (12, 3, 2), "3DPeer", **inner)
    cuda.cuMemcpy3DPeer(peer)
    assert (contents(cuda, second, shape) == wanted).all()
    for name, value in (
        *itertools.product(("srcXInBytes",), (2, 20, 2**63, -8 % 2**64)),
        *itertools.product(("srcY", "srcZ", "dstY"), (3, 2**63, 2**64 - 1)),
        ("srcLOD", 1), ("Depth", 2**64 - 1), ("srcArray", 0), ("srcArray", 4096),
        ("srcArray", int(stream)),
    ):  # fmt: skip
        wrong = region(
            cuda, ("array", first), ("array", second), (12, 3, 2), **{**inner, name: value}
        )
        assert cuda.code("cuMemcpy3D", wrong) == INVALID_VALUE, (name, value)
    cuda.cuArrayDestroy(first)
    assert cuda.code("cuMemcpy3D", box) == INVALID_VALUE


def test_rows_are_copied_by_all_flat_forms(cuda, create):
    data = np.arange(48, dtype=np.uint16)
    rows = create(12, 4, form=U16)
    line = create(48, form=U16)
    p = cuda.CUDA_MEMCPY2D()
    p.srcMemoryType, p.srcHost, p.srcPitch = cuda.CUmemorytype(HOST), data.ctypes.data, 24
    p.dstMemoryType, p.dstArray = cuda.CUmemorytype(ARRAY), rows
    p.WidthInBytes, p.Height = 24, 4
    for form in ("", "Unaligned"):
        getattr(cuda, f"cuMemcpy2D{form}")(p)
        assert (contents(cuda, rows, (1, 4, 12), np.uint16).ravel() == data).all()
    out = np.zeros(48, np.uint16)
    device = int(cuda.cuMemAlloc(96))
    stream = cuda.cuStreamCreate(1)
    cuda.cuMemcpyHtoA(line, 0, data.ctypes.data, 96)
    cuda.cuMemcpyHtoAAsync(line, 8, data.ctypes.data, 4, stream)
    cuda.cuMemcpyAtoHAsync(out.ctypes.data, line, 0, 96, stream)
    cuda.cuStreamSynchronize(stream)
    assert out[:8].tolist() == [0, 1, 2, 3, 0, 1, 6, 7]
    cuda.cuMemcpyAtoD(device, line, 8, 4)
    cuda.cuMemcpyDtoA(line, 90, device, 4)
    cuda.cuMemcpyAtoA(line, 92, line, 2, 4)
    cuda.cuMemcpyAtoH(out.ctypes.data, line, 0, 96)
    assert out[45:].tolist() == [0, 1, 2]
    for offset, size in ((94, 4), (98, 0), (2**64 - 2, 4), (0, 2**63), (1, 2)):
        assert cuda.code("cuMemcpyAtoH", out.ctypes.data, line, offset, size) == INVALID_VALUE
    wider = create(48, form=F32)
    for call, *arguments in (
        ("AtoA", line, 0, wider, 0, 4), ("AtoA", line, 0, line, 8, 3), ("AtoD", device + 1, line, 0, 4),
        ("AtoD", device, line, 0, 3), ("DtoA", line, 0, device, 3),
    ):  # fmt: skip
        assert cuda.code(f"cuMemcpy{call}", *arguments) == INVALID_VALUE, arguments
    assert cuda.code("cuMemcpyHtoA", 0, 0, data.ctypes.data, 2) == INVALID_VALUE
    assert cuda.code("cuMemcpyHtoA", line, 0, 0, 2) == INVALID_VALUE


def test_graphs_copy_arrays_and_notice_that_one_is_gone(cuda, create):
    data = np.arange(6, dtype=np.float32)
    array, other = create(3, 2), create(3, 2)
    device = int(cuda.cuMemAlloc(24))
    cuda.cuMemcpyHtoD(device, data.ctypes.data, 24)
    stream = cuda.cuStreamCreate(1)
    cuda.cuStreamBeginCapture(stream, cuda.CUstreamCaptureMode(2))
    box = region(cuda, ("device", device, 12, 2), ("array", array), (12, 2, 1))
    cuda.cuMemcpy3DAsync(box, stream)
    graph = cuda.cuStreamEndCapture(stream)
    (node,), _ = cuda.cuGraphGetNodes(graph, 1)
    assert int(cuda.cuGraphMemcpyNodeGetParams(node).dstArray) == int(array)
    between = region(cuda, ("array", array), ("array", other), (12, 2, 1))
    cuda.cuGraphAddMemcpyNode(graph, [node], 1, between, cuda.cuCtxGetCurrent())
    between.srcY = 1
    context = cuda.cuCtxGetCurrent()
    assert cuda.code("cuGraphAddMemcpyNode", graph, [node], 1, between, context) == INVALID_VALUE
    executable = cuda.cuGraphInstantiate(graph, 0)
    cuda.cuGraphLaunch(executable, stream)
    cuda.cuStreamSynchronize(stream)
    assert (contents(cuda, other, (1, 2, 3)).ravel() == data).all()
    cuda.cuArrayDestroy(array)
    assert cuda.code("cuGraphLaunch", executable, stream) == INVALID_VALUE


def test_mipmapped_arrays_have_halved_levels_in_memory_of_their_own(cuda, create):
    one = cuda.CUDA_ARRAY3D_DESCRIPTOR()
    one.Width, one.Height, one.Depth, one.NumChannels = 12, 5, 2, 1
    one.Format, one.Flags = cuda.CUarray_format(F32), LAYERED
    mipmap = cuda.cuMipmappedArrayCreate(one, 9)  # of at most 4
    levels = [cuda.cuMipmappedArrayGetLevel(mipmap, i) for i in range(4)]
    assert cuda.code("cuMipmappedArrayGetLevel", mipmap, 4) == INVALID_VALUE
    assert cuda.code("cuMipmappedArrayGetMemoryRequirements", mipmap, 0) == INVALID_VALUE
    assert cuda.code("cuMipmappedArrayGetSparseProperties", mipmap) == INVALID_VALUE
    found = [cuda.cuArray3DGetDescriptor(level) for level in levels]
    sizes = [(one.Width, one.Height, one.Depth) for one in found]
    assert sizes == [(12, 5, 2), (6, 2, 2), (3, 1, 2), (1, 1, 2)]
    for i, (level, (w, h, d)) in enumerate(zip(levels, sizes, strict=True)):
        data = np.full(w * h * d, i + 1, np.float32)
        memory = ("host", data.ctypes.data, 4 * w, h)
        cuda.cuMemcpy3D(region(cuda, memory, ("array", level), (4 * w, h, d)))
    for i, (level, (w, h, d)) in enumerate(zip(levels, sizes, strict=True)):
        assert (contents(cuda, level, (d, h, w)) == i + 1).all()
    assert cuda.code("cuArrayDestroy", levels[1]) == INVALID_HANDLE  # the mipmapped array's
    cuda.cuMipmappedArrayDestroy(mipmap)
    assert cuda.code("cuArray3DGetDescriptor", levels[1]) == INVALID_HANDLE
    assert cuda.code("cuMipmappedArrayDestroy", mipmap) == INVALID_HANDLE
    assert cuda.code("cuMipmappedArrayGetLevel", create(8), 0) == INVALID_HANDLE


def test_arrays_are_charged_and_end_with_their_context(cuda, create):
    context = cuda.cuCtxCreate(None, 0, 0)
    free, _ = cuda.cuMemGetInfo()
    array = create(1024, 1024)
    assert free - cuda.cuMemGetInfo()[0] == 4 << 20
    cuda.cuCtxDestroy(context)
    assert cuda.code("cuArrayDestroy", array) == INVALID_HANDLE


@pytest.mark.parametrize("levels", [0, 1], ids=["plain", "mipmapped"])
def test_the_order_of_destruction_does_not_matter(cuda, create, levels):
    one = cuda.CUDA_ARRAY3D_DESCRIPTOR()
    one.Width, one.Format, one.NumChannels = 8, cuda.CUarray_format(F32), 1

    def make(count):
        call = (
            functools.partial(cuda.cuMipmappedArrayCreate, one, 1) if levels else lambda: create(8)
        )
        return [call() for _ in range(count)]

    destroy = cuda.cuMipmappedArrayDestroy if levels else cuda.cuArrayDestroy

    def duration(arrays):
        begin = time.thread_time()
        for array in arrays:
            destroy(array)
        return time.thread_time() - begin

    first, second, third, fourth = make(4)  # from within, and from both ends
    for array in (second, fourth, first, third):
        destroy(array)
    newest_first = duration(reversed(make(8000)))
    assert duration(make(8000)) < 4 * newest_first


def test_memory_of_arrays_has_no_pointer(cuda, create):
    before = int(cuda.cuMemAlloc(512))
    create(4)
    near = [before + 512 * i for i in range(1, 5000)]
    attribute = cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    assert not [a for a in near[:64] if not cuda.code("cuPointerGetAttribute", attribute, a)]


def test_null_pointers_are_invalid(cuda, create, libraries):
    library = ctypes.CDLL(str(libraries / "libcuda.so.1"))
    array, place = ctypes.c_uint64(int(create(8))), ctypes.create_string_buffer(64)
    for name, *arguments in (
        ("cuArrayCreate_v2", place, None), ("cuArrayCreate_v2", None, place),
        ("cuArray3DCreate_v2", place, None), ("cuArray3DCreate_v2", None, place),
        ("cuArrayGetDescriptor_v2", None, array), ("cuArray3DGetDescriptor_v2", None, array),
        ("cuArrayGetPlane", None, array, 0), ("cuArrayGetSparseProperties", None, array),
        ("cuMipmappedArrayCreate", None, place, 1), ("cuMipmappedArrayCreate", place, None, 1),
        ("cuMemcpyHtoA_v2", array, ctypes.c_size_t(0), None, ctypes.c_size_t(4)),
        ("cuMemcpyAtoH_v2", None, array, ctypes.c_size_t(0), ctypes.c_size_t(4)),
    ):  # fmt: skip
        assert getattr(library, name)(*arguments) == INVALID_VALUE, name
