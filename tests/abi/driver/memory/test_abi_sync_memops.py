"""CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, and launches on several devices."""

import ctypes

import pytest

from support.kernels import ptx_kernels

INVALID_VALUE, NOT_READY, NOT_SUPPORTED = 1, 600, 801
SYNC_MEMOPS, BUFFER_ID = 6, 7
TURNS = 4000
UNIT = 2 << 20


def set_attribute(pointer: int, value: int, attribute: int = SYNC_MEMOPS) -> int:
    wanted = ctypes.c_uint(value)
    library = ctypes.CDLL("libcuda.so.1")
    return library.cuPointerSetAttribute(ctypes.byref(wanted), attribute, ctypes.c_uint64(pointer))


@pytest.fixture
def is_done_after(cuda):
    """Return a function which reports whether a kernel has ended when a call returns."""
    image = ptx_kernels.SPIN.encode() + b"\0"
    spin = cuda.cuModuleGetFunction(cuda.cuModuleLoadData(image), b"spin")
    output = int(cuda.cuMemAlloc(64))

    def call_behind_kernel(call: str, *arguments) -> bool:
        values = (output, TURNS), (ctypes.c_uint64, ctypes.c_uint32)
        cuda.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, 0, values, 0)
        getattr(cuda, call)(*arguments)
        done = cuda.code("cuStreamQuery", 0) == 0
        cuda.cuCtxSynchronize()
        return done

    return call_behind_kernel


def test_the_host_waits_for_synchronous_copies_if_the_attribute_is_set(cuda, is_done_after):
    first, second, third = (int(cuda.cuMemAlloc(64)) for _ in range(3))
    name = cuda.CUpointer_attribute(SYNC_MEMOPS)
    copy, fill = ("cuMemcpyDtoD", second, first, 64), ("cuMemsetD8", second, 0, 64)
    assert not bool(cuda.cuPointerGetAttribute(name, second))
    assert not is_done_after(*copy)
    assert not is_done_after(*fill)
    assert set_attribute(second, 1) == 0
    assert bool(cuda.cuPointerGetAttribute(name, second + 8))
    assert not bool(cuda.cuPointerGetAttribute(name, first))
    assert is_done_after(*copy)
    assert is_done_after("cuMemcpyDtoD", first, second, 64)
    assert is_done_after(*fill)
    assert not is_done_after("cuMemcpyDtoD", first, third, 64), "neither has the attribute"
    assert not is_done_after("cuMemsetD8", first, 0, 64)
    assert set_attribute(second, 0) == 0
    assert not bool(cuda.cuPointerGetAttribute(name, second))
    assert not is_done_after(*fill)


@pytest.mark.parametrize(
    ("allocate", "free", "more"),
    [("cuMemAlloc", "cuMemFree", ()), ("cuMemAllocAsync", "cuMemFreeAsync", (0,))],
    ids=["plain", "pool"],
)
def test_freed_memory_loses_the_attribute(cuda, allocate, free, more):
    """The next small allocation has the same address and the same id."""
    name = cuda.CUpointer_attribute(SYNC_MEMOPS)
    freed = int(getattr(cuda, allocate)(64, *more))
    assert set_attribute(freed, 1) == 0
    assert bool(cuda.cuPointerGetAttribute(name, freed))
    getattr(cuda, free)(freed, *more)
    pointer = int(getattr(cuda, allocate)(64, *more))
    assert pointer == freed
    assert not bool(cuda.cuPointerGetAttribute(name, pointer))


def test_memory_at_reserved_addresses_loses_the_attribute_when_it_is_unmapped(cuda):
    name = cuda.CUpointer_attribute(SYNC_MEMOPS)
    properties, access = cuda.CUmemAllocationProp(), cuda.CUmemAccessDesc()
    properties.type = cuda.CUmemAllocationType(1)
    properties.location.type = access.location.type = cuda.CUmemLocationType(1)
    access.flags = cuda.CUmemAccess_flags(3)
    start = int(cuda.cuMemAddressReserve(UNIT, 0, 0, 0))
    handle = cuda.cuMemCreate(UNIT, properties, 0)
    for value in (1, 0):
        cuda.cuMemMap(start, UNIT, 0, handle, 0)
        cuda.cuMemSetAccess(start, UNIT, [access], 1)
        assert not bool(cuda.cuPointerGetAttribute(name, start))
        assert set_attribute(start, value) == 0
        assert int(cuda.cuPointerGetAttribute(name, start)) == value
        cuda.cuMemUnmap(start, UNIT)


def test_only_this_attribute_of_device_memory_is_set(cuda):
    pointer = int(cuda.cuMemAlloc(64))
    assert set_attribute(pointer, 1, BUFFER_ID) == INVALID_VALUE
    assert set_attribute(int(cuda.cuMemHostAlloc(64, 0)), 1) == INVALID_VALUE
    assert set_attribute(4096, 1) == INVALID_VALUE
    library = ctypes.CDLL("libcuda.so.1")
    given = None, SYNC_MEMOPS, ctypes.c_uint64(pointer)
    assert library.cuPointerSetAttribute(*given) == INVALID_VALUE


class Launch(ctypes.Structure):
    """``CUDA_LAUNCH_PARAMS``."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("shape", ctypes.c_uint * 7),
        ("stream", ctypes.c_void_p),
        ("parameters", ctypes.POINTER(ctypes.c_void_p)),
    )


def test_a_cooperative_launch_on_several_devices_needs_one(cuda):
    """With one device it is a cooperative launch; in CUDA, the stream cannot be a default one."""
    library = ctypes.CDLL("libcuda.so.1")
    image = ptx_kernels.SPIN.encode() + b"\0"
    spin = cuda.cuModuleGetFunction(cuda.cuModuleLoadData(image), b"spin")
    memory = int(cuda.cuMemAlloc(64))
    cuda.cuMemsetD8(memory, 0, 64)
    values = ctypes.c_uint64(memory), ctypes.c_uint32(5)
    places = (ctypes.c_void_p * 2)(*(ctypes.addressof(value) for value in values))
    stream = int(cuda.cuStreamCreate(0))

    def launch(handle: int, devices: int, flags: int = 0) -> int:
        one = Launch(int(spin), (1,) * 6 + (0,), handle, places)
        both = (Launch * 2)(one, one)
        return library.cuLaunchCooperativeKernelMultiDevice(both, devices, flags)

    assert launch(stream, 1, 3) == 0
    cuda.cuCtxSynchronize()
    back = (ctypes.c_uint32 * 1)()
    cuda.cuMemcpyDtoH(ctypes.addressof(back), memory, 4)
    assert back[0] == 5
    for handle in (0, 1, 2):
        assert launch(handle, 1) == INVALID_VALUE
    assert launch(stream, 0) == INVALID_VALUE
    assert launch(stream, 1, 4) == INVALID_VALUE
    assert launch(stream, 2) == NOT_SUPPORTED
    assert library.cuLaunchCooperativeKernelMultiDevice(None, 1, 0) == INVALID_VALUE
