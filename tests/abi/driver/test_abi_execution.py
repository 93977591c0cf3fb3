"""Modules, launches, streams and events, through cuda.bindings on a real worker."""

import ctypes
import struct
from pathlib import Path

import numpy as np
import pytest

from support.kernels import ptx_kernels
from vgpu_sim.hal.compute import limits

INVALID_VALUE = 1
INVALID_IMAGE = 200
INVALID_CONTEXT, CONTEXT_IS_DESTROYED = 201, 709
NO_BINARY = 209
INVALID_PTX = 218
INVALID_HANDLE = 400
NOT_FOUND = 500
NOT_READY = 600
NOT_SUPPORTED = 801


def load(cuda, ptx: str):
    return cuda.cuModuleLoadData(ptx.encode() + b"\0")


def arguments(*values):
    """Return kernelParams in the form of cuda.bindings."""
    kinds = tuple(ctypes.c_uint64 if isinstance(v, int) else ctypes.c_uint32 for v in values)
    return tuple(int(v) for v in values), kinds


def launch(cuda, function, values, grid=1, block=1, stream=0, shared=0):
    cuda.cuLaunchKernel(
        function, grid, 1, 1, block, 1, 1, shared, stream, arguments(*values) if values else 0, 0
    )


def read_u32(cuda, pointer: int, count: int = 1):
    data = np.zeros(count, np.uint32)
    cuda.cuMemcpyDtoH(data, pointer, 4 * count)
    return int(data[0]) if count == 1 else data


def u32(value: int) -> np.uint32:
    return np.uint32(value)


@pytest.fixture
def spin(cuda):
    return cuda.cuModuleGetFunction(load(cuda, ptx_kernels.SPIN), b"spin")


def test_vecadd(cuda):
    n = 5000
    function = cuda.cuModuleGetFunction(load(cuda, ptx_kernels.VECADD), b"vecadd")
    a, b = (np.random.default_rng(i).random(n, np.float32) for i in range(2))
    pointers = [int(cuda.cuMemAlloc(4 * n)) for _ in range(3)]
    cuda.cuMemcpyHtoD(pointers[0], a, a.nbytes)
    cuda.cuMemcpyHtoD(pointers[1], b, b.nbytes)
    launch(cuda, function, (*pointers, u32(n)), grid=-(-n // 128), block=128)
    c = np.zeros(n, np.float32)
    cuda.cuMemcpyDtoH(c, pointers[2], c.nbytes)
    assert (c == a + b).all()


@pytest.mark.parametrize("count", [31, 32, 33, 96, 97, 500, 1000, 1086, 8189])
def test_parameters_beyond_the_slot(cuda, count):
    """8 + 4 * count bytes: about one slot, several continuation slots, up to the limit."""
    function = cuda.cuModuleGetFunction(load(cuda, ptx_kernels.sum_of_parameters(count)), b"total")
    out = int(cuda.cuMemAlloc(4))
    values = np.random.default_rng(count).integers(0, 1 << 20, count)
    for _ in range(3):  # larger ones cross the end of the ring
        launch(cuda, function, (out, *(u32(v) for v in values)))
        assert read_u32(cuda, out) == int(values.sum()) % (1 << 32)
    assert cuda.cuFuncGetParamInfo(function, count) == (8 + 4 * (count - 1), 4)
    assert cuda.code("cuFuncGetParamInfo", function, count + 1) == INVALID_VALUE


def test_the_ring_may_be_full(cuda, spin):
    """There are more requests than slots: the client waits for room, and no request is lost."""
    out = int(cuda.cuMemAlloc(4))
    cuda.cuMemsetD8(out, 0, 4)
    for _ in range(700):
        launch(cuda, spin, (out, u32(3)))
    assert read_u32(cuda, out) == 2100


def test_parameters_as_a_buffer(cuda, spin):
    class Block(ctypes.Structure):
        _fields_ = (("out", ctypes.c_uint64), ("n", ctypes.c_uint32))

    out = int(cuda.cuMemAlloc(4))
    cuda.cuMemsetD8(out, 0, 4)
    block = Block(out, 9)

    def extra(size):
        count = ctypes.c_size_t(size)
        listed = (ctypes.c_void_p * 5)(1, ctypes.addressof(block), 2, ctypes.addressof(count), None)
        return listed, count

    for size in (12, 16):
        listed, _count = extra(size)
        cuda.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, 0, 0, ctypes.addressof(listed))
    assert read_u32(cuda, out) == 18
    for size in (8, 11, 17, 4096):
        listed, _count = extra(size)
        code = cuda.code(
            "cuLaunchKernel", spin, 1, 1, 1, 1, 1, 1, 0, 0, 0, ctypes.addressof(listed)
        )
        assert code == INVALID_VALUE, size


@pytest.mark.parametrize(
    ("grid", "block", "code"),
    [
        ((0, 1, 1), (1, 1, 1), INVALID_VALUE),
        ((1, 1, 1), (1, 0, 1), INVALID_VALUE),
        ((1, 65536, 1), (1, 1, 1), INVALID_VALUE),
        ((1, 1, 1), (1025, 1, 1), INVALID_VALUE),
        ((1, 1, 1), (1, 1, 65), INVALID_VALUE),
        ((1, 1, 1), (32, 33, 1), INVALID_VALUE),
        ((1 << 31, 1, 1), (1, 1, 1), INVALID_VALUE),
    ],
)
def test_impossible_geometry(cuda, spin, grid, block, code):
    out = int(cuda.cuMemAlloc(4))
    given = arguments(out, u32(1))
    assert cuda.code("cuLaunchKernel", spin, *grid, *block, 0, 0, given, 0) == code
    launch(cuda, spin, (out, u32(1)))
    cuda.cuCtxSynchronize()


def test_the_largest_geometry_runs(cuda):
    nothing = f"{ptx_kernels.HEADER}.visible .entry nothing() {{ ret; }}\n"
    function = cuda.cuModuleGetFunction(load(cuda, nothing), b"nothing")
    for grid in ((1, 65535, 1), (1, 1, 65535)):
        cuda.cuLaunchKernel(function, *grid, 1, 1, 1, 0, 0, 0, 0)
    for block in ((1024, 1, 1), (1, 1024, 1), (1, 16, 64)):
        cuda.cuLaunchKernel(function, 1, 1, 1, *block, 0, 0, 0, 0)
    cuda.cuCtxSynchronize()


def test_limits_of_a_kernel(cuda):
    module = load(cuda, ptx_kernels.LIMITS)
    at_most = cuda.cuModuleGetFunction(module, b"at_most")
    exactly = cuda.cuModuleGetFunction(module, b"exactly")
    given = arguments(0)
    assert cuda.code("cuLaunchKernel", at_most, 1, 1, 1, 64, 1, 1, 0, 0, given, 0) == 0
    code = cuda.code("cuLaunchKernel", at_most, 1, 1, 1, 65, 1, 1, 0, 0, given, 0)
    assert code == INVALID_VALUE
    assert cuda.code("cuLaunchKernel", exactly, 1, 1, 1, 32, 2, 1, 0, 0, given, 0) == 0
    code = cuda.code("cuLaunchKernel", exactly, 1, 1, 1, 64, 1, 1, 0, 0, given, 0)
    assert code == INVALID_VALUE
    cuda.cuCtxSynchronize()
    attribute = cuda.CUfunction_attribute
    limit = attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
    assert cuda.cuFuncGetAttribute(limit, at_most) == 64
    # The architecture of .target, and not .version: CUB chooses a kernel's tuning by it.
    assert cuda.cuFuncGetAttribute(attribute.CU_FUNC_ATTRIBUTE_PTX_VERSION, at_most) == 80
    assert (
        cuda.code("cuFuncGetAttribute", attribute.CU_FUNC_ATTRIBUTE_MAX, at_most) == INVALID_VALUE
    )


def test_kernel_without_parameters_and_missing_ones(cuda, spin):
    nothing = cuda.cuModuleGetFunction(load(cuda, ptx_kernels.LIMITS), b"nothing")
    launch(cuda, nothing, ())
    cuda.cuCtxSynchronize()
    assert cuda.code("cuLaunchKernel", spin, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0) == INVALID_VALUE


def test_dynamic_shared_memory_has_the_devices_limit(cuda, spin):
    out = int(cuda.cuMemAlloc(4))
    given = arguments(out, u32(1))
    most = limits.MAX_SHARED_BYTES_PER_BLOCK
    for requested, expected in (
        (1024, 0),
        (most, 0),
        (most + 1, INVALID_VALUE),
        (1 << 31, INVALID_VALUE),
    ):
        code = cuda.code("cuLaunchKernel", spin, 1, 1, 1, 1, 1, 1, requested, 0, given, 0)
        assert code == expected, requested
    cuda.cuCtxSynchronize()
    limit = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    assert cuda.cuFuncGetAttribute(limit, spin) == most
    assert cuda.code("cuFuncSetAttribute", spin, limit, -1) == INVALID_VALUE
    cuda.cuFuncSetAttribute(spin, limit, 1023)
    code = cuda.code("cuLaunchKernel", spin, 1, 1, 1, 1, 1, 1, 1024, 0, given, 0)
    assert code == INVALID_VALUE
    cuda.cuFuncSetAttribute(spin, limit, most)


def test_shared_memory_ends_at_the_board_s_limit(cuda, spin):
    """A kernel that opts in gets shared memory up to the last byte of a block's limit, not more."""
    name = cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    limit = cuda.cuDeviceGetAttribute(name, 0)
    given = arguments(int(cuda.cuMemAlloc(4)), u32(1))

    def code(shared):
        return cuda.code("cuLaunchKernel", spin, 1, 1, 1, 1, 1, 1, shared, 0, given, 0)

    assert limit > limits.MAX_SHARED_BYTES_PER_BLOCK
    assert code(limit) == INVALID_VALUE
    dynamic = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    assert cuda.code("cuFuncSetAttribute", spin, dynamic, limit + 1) == INVALID_VALUE
    cuda.cuFuncSetAttribute(spin, dynamic, limit)
    assert cuda.cuFuncGetAttribute(dynamic, spin) == limit
    assert code(limit) == 0
    assert code(limit + 1) == INVALID_VALUE
    cuda.cuCtxSynchronize()


def test_a_launch_attribute_for_an_unsupported_feature_is_refused(cuda, spin):
    out = int(cuda.cuMemAlloc(4))
    config = cuda.CUlaunchConfig()
    config.gridDimX = config.gridDimY = config.gridDimZ = 1
    config.blockDimX = config.blockDimY = config.blockDimZ = 1
    given = arguments(out, u32(1))
    cuda.cuLaunchKernelEx(config, spin, given, 0)
    attribute = cuda.CUlaunchAttribute()
    attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT
    config.attrs, config.numAttrs = [attribute], 1
    assert cuda.code("cuLaunchKernelEx", config, spin, given, 0) == NOT_SUPPORTED


def test_images_that_cannot_run(cuda):
    cases = {
        b"not PTX at all\0": INVALID_IMAGE,
        b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HH", 2, 190) + bytes(100): NO_BINARY,
        Path("/bin/true").read_bytes(): INVALID_IMAGE,
        b"\x50\xed\x55\xba" + bytes(100): INVALID_IMAGE,
        ptx_kernels.POKE.replace("sm_80", "sm_121").encode() + b"\0": NO_BINARY,
    }
    for image, code in cases.items():
        assert cuda.code("cuModuleLoadData", image) == code, image[:20]


@pytest.mark.parametrize(
    ("loader", "rest"),
    [
        ("cuModuleLoadData", ()),
        ("cuModuleLoadDataEx", (0, [], [])),
        ("cuModuleLoadFatBinary", ()),
        ("cuModuleLoad", ()),
        ("cuLibraryLoadData", ([], [], 0, [], [], 0)),
        ("cuLibraryLoadFromFile", ([], [], 0, [], [], 0)),
    ],
)
def test_every_loader_recognises_ptx_by_its_first_directive(cuda, tmp_path, loader, rest):
    """NVIDIA's driver calls what does not begin with .version an invalid image, not invalid PTX."""
    poke = ptx_kernels.POKE.encode()
    assert poke.lstrip().startswith(b".version")
    cases = {
        b"this is garbage": INVALID_IMAGE,
        b".target sm_80\n.version 8.0\n": INVALID_IMAGE,
        b".vers": INVALID_IMAGE,
        b" \n\t": INVALID_IMAGE,
        b"// a comment without an end": INVALID_IMAGE,
        b"/* .version 8.0": INVALID_IMAGE,
        b"/*/.version 8.0": INVALID_IMAGE,
        b"/": INVALID_IMAGE,
        b".version 8.0\nnonsense": INVALID_PTX,
        b"// a\n\n/* b **/\t" + poke: 0,
    }
    file = tmp_path / "image"
    for image, code in cases.items():
        file.write_bytes(image)
        by_name = loader in ("cuModuleLoad", "cuLibraryLoadFromFile")
        argument = str(file).encode() if by_name else image + b"\0"
        assert cuda.code(loader, argument, *rest) == code, image[:30]


def test_the_loader_reports_errors_in_the_image(cuda, driver, capfd):
    option = driver.CUjit_option
    buffer = bytes(400)
    status, _ = driver.cuModuleLoadDataEx(
        ptx_kernels.POKE.replace("st.global.u32", "st.nowhere.u32").encode() + b"\0",
        2,
        [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES],
        [buffer, 400],
    )
    assert int(status) != 0
    assert b"'st' has no modifier '.nowhere'" in buffer
    assert cuda.code("cuModuleLoadData", b"not PTX\0") == INVALID_IMAGE
    said = capfd.readouterr().err.splitlines()
    assert len(said) >= 4
    assert all(line.removeprefix("tessera:").strip("\0 ") for line in said), said


@pytest.mark.parametrize("room", [1, 16, 4096])
def test_a_log_stays_in_its_buffer(cuda, room):
    log = bytearray(b"\xff" * 8192)
    options = [
        cuda.CUjit_option.CU_JIT_ERROR_LOG_BUFFER,
        cuda.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ]
    image = ptx_kernels.HEADER.encode() + 300 * b"nonsense" + b"\0"
    assert cuda.code("cuModuleLoadDataEx", image, 2, options, [log, room]) == INVALID_PTX
    assert log[room:] == b"\xff" * (len(log) - room)
    text = bytes(log[:room])
    assert text.count(b"\0") >= 1
    assert room > 1000 or text.index(b"\0") == room - 1, "it is filled"


def test_modules_and_stale_handles(cuda):
    module = load(cuda, ptx_kernels.POKE)
    function = cuda.cuModuleGetFunction(module, b"poke")
    assert cuda.code("cuModuleGetFunction", module, b"nope") == NOT_FOUND
    assert int(cuda.cuFuncGetModule(function)) == int(module)
    assert cuda.cuModuleGetFunctionCount(module) == 1
    cuda.cuModuleUnload(module)
    assert cuda.code("cuModuleUnload", module) == INVALID_HANDLE
    assert cuda.code("cuModuleGetFunction", module, b"poke") == INVALID_HANDLE
    given = arguments(0, u32(1))
    assert cuda.code("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, 0, given, 0) == INVALID_HANDLE
    for wrong in (1, 0x7FFF_FFFF_FFFF, (1 << 64) - 1, int(module)):
        made = cuda.CUfunction(wrong)
        code = cuda.code("cuLaunchKernel", made, 1, 1, 1, 1, 1, 1, 0, 0, given, 0)
        assert code == INVALID_HANDLE


def test_module_variables(cuda):
    module = load(cuda, ptx_kernels.VARIABLES)
    pointer, size = cuda.cuModuleGetGlobal(module, b"counter")
    assert int(size) == 4
    assert read_u32(cuda, pointer) == 5
    bump = cuda.cuModuleGetFunction(module, b"bump")
    cuda.cuMemcpyHtoD(pointer, np.array([100], np.uint32), 4)
    launch(cuda, bump, (u32(11),))
    assert read_u32(cuda, pointer) == 111
    scratch, size = cuda.cuModuleGetGlobal(module, b"scratch")
    data = np.random.default_rng(0).integers(0, 256, 3_000_000, np.uint8)
    cuda.cuMemcpyHtoD(scratch, data, data.nbytes)
    back = np.zeros_like(data)
    cuda.cuMemcpyDtoH(back, scratch, back.nbytes)
    assert (back == data).all()
    assert cuda.code("cuMemcpyHtoD", int(scratch) + 1, data, data.nbytes) == INVALID_VALUE
    assert cuda.code("cuModuleGetGlobal", module, b"nope") == NOT_FOUND


def test_variables_end_where_they_end(cuda):
    module = load(cuda, ptx_kernels.VARIABLES)
    scratch, size = (int(one) for one in cuda.cuModuleGetGlobal(module, b"scratch"))
    assert tuple(map(int, cuda.cuMemGetAddressRange(scratch + size - 1))) == (scratch, size)
    assert cuda.code("cuMemGetAddressRange", scratch + size) == NOT_FOUND
    counter = int(cuda.cuModuleGetGlobal(module, b"counter")[0])
    for beyond in (counter - 1, counter + 4):
        assert cuda.code("cuMemGetAddressRange", beyond) == NOT_FOUND


def test_variables_end_with_their_module(cuda):
    """Whichever of three modules is unloaded, the others keep their variables."""
    modules = [load(cuda, ptx_kernels.VARIABLES) for _ in range(3)]
    pointers = [int(cuda.cuModuleGetGlobal(one, b"counter")[0]) for one in modules]
    assert len(set(pointers)) == 3
    for gone in (1, 2, 0):
        cuda.cuModuleUnload(modules[gone])
        pointers[gone] = -pointers[gone]
        for pointer in pointers:
            found = cuda.code("cuMemGetAddressRange", abs(pointer))
            assert found == (0 if pointer > 0 else NOT_FOUND)


def test_a_librarys_module_is_unloaded_only_with_the_library(cuda):
    library = cuda.cuLibraryLoadData(ptx_kernels.SPIN.encode() + b"\0", [], [], 0, [], [], 0)
    module = cuda.cuLibraryGetModule(library)
    assert cuda.code("cuModuleUnload", module) == INVALID_HANDLE
    function = cuda.cuModuleGetFunction(module, b"spin")
    out = int(cuda.cuMemAlloc(4))
    cuda.cuMemsetD8(out, 0, 4)
    launch(cuda, function, (out, u32(6)))
    assert read_u32(cuda, out) == 6
    cuda.cuLibraryUnload(library)
    assert cuda.code("cuModuleGetFunction", module, b"spin") == INVALID_HANDLE


def test_libraries(cuda):
    library = cuda.cuLibraryLoadData(ptx_kernels.SPIN.encode() + b"\0", [], [], 0, [], [], 0)
    kernel = cuda.cuLibraryGetKernel(library, b"spin")
    assert int(cuda.cuLibraryGetKernel(library, b"spin")) == int(kernel)
    assert cuda.code("cuLibraryGetKernel", library, b"nope") == NOT_FOUND
    assert cuda.code("cuKernelGetName", 0) == cuda.code("cuFuncGetName", 0) == INVALID_VALUE
    assert cuda.cuKernelGetParamInfo(kernel, 1) == (8, 4)
    context = cuda.cuCtxPopCurrent()
    # Below it on the stack is no context, or one that an earlier test has destroyed.
    refused = cuda.code("cuKernelGetParamInfo", kernel, 1)
    assert refused in (INVALID_CONTEXT, CONTEXT_IS_DESTROYED)
    cuda.cuCtxPushCurrent(context)
    assert cuda.cuLibraryGetKernelCount(library) == 1
    assert cuda.cuKernelGetName(kernel) == b"spin"
    out = int(cuda.cuMemAlloc(4))
    cuda.cuMemsetD8(out, 0, 4)
    launch(cuda, cuda.cuKernelGetFunction(kernel), (out, u32(2)))
    launch(cuda, cuda.CUfunction(int(kernel)), (out, u32(3)))
    assert read_u32(cuda, out) == 5
    # A kernel can be used in any context; memory belongs to one context.
    other = cuda.cuCtxCreate(None, 0, 0)
    elsewhere = int(cuda.cuMemAlloc(4))
    cuda.cuMemsetD8(elsewhere, 0, 4)
    launch(cuda, cuda.CUfunction(int(kernel)), (elsewhere, u32(4)))
    assert read_u32(cuda, elsewhere) == 4
    assert elsewhere != out
    cuda.cuCtxDestroy(other)
    cuda.cuLibraryUnload(library)
    assert cuda.code("cuLibraryUnload", library) == INVALID_HANDLE
    assert cuda.code("cuKernelGetFunction", kernel) == INVALID_HANDLE


def test_streams_order_and_events(cuda, spin):
    first, second = cuda.cuStreamCreate(1), cuda.cuStreamCreate(1)
    out = int(cuda.cuMemAlloc(4))
    cuda.cuMemsetD8(out, 0, 4)
    cuda.cuStreamSynchronize(0)
    start, end, plain = cuda.cuEventCreate(0), cuda.cuEventCreate(0), cuda.cuEventCreate(2)
    assert cuda.code("cuEventElapsedTime", start, end) == INVALID_HANDLE
    assert cuda.code("cuEventQuery", start) == 0
    cuda.cuEventRecord(start, first)
    launch(cuda, spin, (out, u32(30_000)), stream=first)
    cuda.cuEventRecord(end, first)
    assert cuda.code("cuEventQuery", end) == NOT_READY
    assert cuda.code("cuStreamQuery", first) == NOT_READY
    assert cuda.code("cuEventElapsedTime", start, end) == NOT_READY
    for flag, code in ((1, 0), (2, INVALID_VALUE)):  # external, unknown
        assert cuda.code("cuStreamWaitEvent", second, end, flag) == code
        assert cuda.code("cuEventRecordWithFlags", plain, second, flag) == code
    cuda.cuStreamWaitEvent(second, end, 0)
    launch(cuda, spin, (out, u32(1)), stream=second)
    cuda.cuEventRecord(plain, second)
    cuda.cuEventSynchronize(plain)
    assert cuda.code("cuEventQuery", end) == 0
    assert read_u32(cuda, out) == 30_001
    milliseconds = cuda.cuEventElapsedTime(start, end)
    assert 0.01 < milliseconds < 60_000
    assert cuda.code("cuEventElapsedTime", start, plain) == INVALID_HANDLE
    assert cuda.code("cuStreamQuery", second) == 0


def test_the_legacy_stream_orders_blocking_ones(cuda, spin):
    """All streams add to one word without explicit waits; the NULL stream runs between them."""
    out = int(cuda.cuMemAlloc(4))
    streams = [cuda.cuStreamCreate(0) for _ in range(7)]
    expected = 0
    cuda.cuMemsetD8(out, 0, 4)
    for number in range(21):
        launch(cuda, spin, (out, u32(2000)), stream=streams[number % 7])
        launch(cuda, spin, (out, u32(5)), stream=0)
        expected += 2005
    cuda.cuStreamSynchronize(0)
    assert read_u32(cuda, out) == expected


def test_work_of_a_destroyed_stream_stays_in_the_legacy_order(cuda, spin):
    """All streams may be in use, and a non-blocking one may replace the destroyed one."""
    word = int(cuda.cuMemAlloc(4))
    cuda.cuMemsetD32(word, 0, 1)
    streams = [cuda.cuStreamCreate(0) for _ in range(127)]
    launch(cuda, spin, (word, u32(30_000)), stream=streams[5])
    cuda.cuStreamDestroy(streams[5])
    cuda.cuStreamCreate(1)
    assert read_u32(cuda, word) == 30_000


def test_copies_wait_for_their_stream(cuda, spin):
    """Pageable and pinned copies to the host see what the kernel before them has stored."""
    stream = cuda.cuStreamCreate(1)
    out = int(cuda.cuMemAlloc(4))
    pinned = int(cuda.cuMemHostAlloc(4, 0))
    pageable = np.zeros(1, np.uint32)
    for round_number in range(20):
        cuda.cuMemsetD32Async(out, round_number, 1, stream)
        launch(cuda, spin, (out, u32(3000)), stream=stream)
        cuda.cuMemcpyDtoHAsync(pinned, out, 4, stream)
        cuda.cuMemcpyDtoHAsync(pageable, out, 4, stream)
        cuda.cuStreamSynchronize(stream)
        assert pageable[0] == 3000 + round_number
        assert ctypes.c_uint32.from_address(pinned).value == 3000 + round_number


@pytest.mark.parametrize("call", ["cuMemsetD8", "cuMemcpyDtoD", "cuMemcpyAsync"])
def test_operations_on_pinned_memory_are_complete_on_return(cuda, spin, call):
    """CUDA Driver API, "API synchronization behavior": fills, and copies from host to host."""
    size = 1 << 20
    source, target = (int(cuda.cuMemHostAlloc(size, 0)) for _ in range(2))
    word, filled = int(cuda.cuMemAlloc(4)), int(cuda.cuMemAlloc(size))
    ctypes.memset(source, 0x5A, size)
    ctypes.memset(target, 0, size)
    cuda.cuMemsetD8(filled, 0x5A, size)
    launch(cuda, spin, (word, u32(30_000)))
    if call == "cuMemsetD8":
        cuda.cuMemsetD8(target, 0x5A, size)
    elif call == "cuMemcpyDtoD":
        cuda.cuMemcpyDtoD(target, filled, size)
    else:
        cuda.cuMemcpyAsync(target, source, size, 0)
    assert ctypes.string_at(target, size) == b"\x5a" * size


def test_stale_streams_and_events(cuda):
    stream, event = cuda.cuStreamCreate(0), cuda.cuEventCreate(0)
    cuda.cuEventRecord(event, stream)
    cuda.cuStreamDestroy(stream)
    cuda.cuEventSynchronize(event)
    for name in ("cuStreamDestroy", "cuStreamSynchronize", "cuStreamQuery"):
        assert cuda.code(name, stream) == INVALID_HANDLE
    assert cuda.code("cuEventRecord", event, stream) == INVALID_HANDLE
    cuda.cuEventDestroy(event)
    for name in ("cuEventDestroy", "cuEventSynchronize", "cuEventQuery"):
        assert cuda.code(name, event) == INVALID_HANDLE


def test_many_streams_and_events(cuda, spin):
    out = int(cuda.cuMemAlloc(4))
    cuda.cuMemsetD8(out, 0, 4)
    for _ in range(3):
        streams = [cuda.cuStreamCreate(0) for _ in range(127)]
        assert cuda.code("cuStreamCreate", 0) == 2
        for stream in streams:
            launch(cuda, spin, (out, u32(1)), stream=stream)
            launch(cuda, spin, (out, u32(1)), stream=0)
        for stream in streams:
            cuda.cuStreamDestroy(stream)
    cuda.cuCtxSynchronize()
    assert read_u32(cuda, out) >= 3 * 127
    for _ in range(3):
        events = [cuda.cuEventCreate(0) for _ in range(4096)]
        for event in events:
            cuda.cuEventRecord(event, 0)
        extra = cuda.cuEventCreate(0)
        assert cuda.code("cuEventRecord", extra, 0) == 2
        cuda.cuStreamSynchronize(0)
        cuda.cuEventRecord(events[7], 0)  # has a timestamp that no other event uses
        cuda.cuEventSynchronize(events[7])
        assert cuda.cuEventElapsedTime(events[0], events[7]) > 0
        for event in [*events, extra]:
            cuda.cuEventDestroy(event)
