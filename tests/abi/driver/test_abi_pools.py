"""Stream-ordered allocation and memory pools, through cuda.bindings."""

import ctypes

import numpy as np
import pytest

from support.kernels import ptx_kernels

INVALID_VALUE, OUT_OF_MEMORY, INVALID_DEVICE, NOT_SUPPORTED = 1, 2, 101, 801
MIB = 1 << 20


def attribute(cuda, pool, name: str, value: int | None = None) -> int:
    """Set an attribute of a pool if a value is given; return the attribute."""
    which = getattr(cuda.CUmemPool_attribute, f"CU_MEMPOOL_ATTR_{name}")
    if value is not None:
        kind = cuda.cuuint64_t if "REUSE" not in name else ctypes.c_int
        cuda.cuMemPoolSetAttribute(pool, which, kind(value) if kind is not ctypes.c_int else value)
    return int(cuda.cuMemPoolGetAttribute(pool, which))


def new_pool(cuda, location=1, number=0, kind=1, most=0):
    props = cuda.CUmemPoolProps()
    props.allocType = cuda.CUmemAllocationType(kind)
    props.location.type = cuda.CUmemLocationType(location)
    props.location.id = number
    props.maxSize = most
    return cuda.cuMemPoolCreate(props)


@pytest.fixture
def pool(cuda):
    """A pool that releases nothing by itself."""
    made = new_pool(cuda)
    attribute(cuda, made, "RELEASE_THRESHOLD", (1 << 64) - 1)
    yield made
    cuda.cuMemPoolDestroy(made)


@pytest.fixture
def busy(cuda):
    """A stream whose kernel runs until the test sets a flag."""
    flag = int(cuda.cuMemHostAlloc(4, 0))
    ctypes.memset(flag, 0, 4)
    image = ptx_kernels.ENDLESS.encode() + b"\0"
    endless = cuda.cuModuleGetFunction(cuda.cuModuleLoadData(image), b"endless")
    stream = cuda.cuStreamCreate(1)
    cuda.cuLaunchKernel(endless, 1, 1, 1, 1, 1, 1, 0, stream, ((flag,), (ctypes.c_void_p,)), 0)
    yield stream, lambda: ctypes.memset(flag, 1, 4)
    ctypes.memset(flag, 1, 4)
    cuda.cuStreamSynchronize(stream)


def test_memory_is_allocated_used_and_freed_in_the_order_of_a_stream(cuda):
    stream = cuda.cuStreamCreate(1)
    data = np.arange(5000, dtype=np.uint8)
    back = np.zeros_like(data)
    pointer = int(cuda.cuMemAllocAsync(5000, stream))
    cuda.cuMemcpyHtoDAsync(pointer, data, 5000, stream)
    cuda.cuMemcpyDtoHAsync(back, pointer, 5000, stream)
    cuda.cuMemFreeAsync(pointer, stream)
    cuda.cuStreamSynchronize(stream)
    assert (back == data).all()
    assert cuda.code("cuMemFreeAsync", pointer, stream) == INVALID_VALUE
    assert cuda.code("cuMemFree", pointer) == INVALID_VALUE
    assert cuda.code("cuMemcpyDtoH", back, pointer, 1) == INVALID_VALUE, "it is freed"
    assert int(cuda.cuMemAllocAsync(0, stream)) == 0
    cuda.cuMemFreeAsync(0, stream)
    assert cuda.code("cuMemAllocAsync", 1 << 45, stream) == OUT_OF_MEMORY


@pytest.mark.parametrize("size", [1000, 3 * MIB])
def test_the_same_stream_reuses_memory_without_waiting(cuda, pool, busy, size):
    stream, end = busy
    first = int(cuda.cuMemAllocFromPoolAsync(size, pool, stream))
    cuda.cuMemFreeAsync(first, stream)
    second = int(cuda.cuMemAllocFromPoolAsync(size - 3, pool, stream))
    assert second == first
    assert cuda.cuMemGetAddressRange(second)[1] == size - 3
    assert cuda.code("cuStreamQuery", stream) == 600, "the kernel still runs"
    other = cuda.cuStreamCreate(1)
    cuda.cuMemFreeAsync(second, stream)
    third = int(cuda.cuMemAllocFromPoolAsync(size, pool, other))
    assert third != first, "work of the first stream may still use it"
    end()
    cuda.cuStreamSynchronize(stream)
    assert int(cuda.cuMemAllocFromPoolAsync(size, pool, other)) == first
    attribute(cuda, pool, "REUSE_ALLOW_OPPORTUNISTIC", 0)
    cuda.cuMemFreeAsync(third, stream)
    assert int(cuda.cuMemAllocFromPoolAsync(size, pool, other)) != third
    for pointer in (first,):
        cuda.cuMemFree(pointer)


def test_another_stream_waits_for_memory_if_there_is_no_other(cuda, busy):
    stream, end = busy
    other = cuda.cuStreamCreate(1)
    small = new_pool(cuda, most=4 * MIB)
    first = int(cuda.cuMemAllocFromPoolAsync(4 * MIB, small, stream))
    assert cuda.code("cuMemAllocFromPoolAsync", 4 * MIB, small, other) == OUT_OF_MEMORY
    cuda.cuMemFreeAsync(first, stream)
    assert int(cuda.cuMemAllocFromPoolAsync(4 * MIB, small, other)) == first
    cuda.cuMemsetD8Async(first, 1, 4 * MIB, other)
    assert cuda.code("cuStreamQuery", other) == 600, "the new owner's work follows the old one's"
    end()
    cuda.cuStreamSynchronize(other)
    cuda.cuMemFree(first)
    cuda.cuMemPoolDestroy(small)


def test_unused_memory_is_kept_up_to_the_threshold(cuda):
    free = int(cuda.cuMemGetInfo()[0])
    mine = new_pool(cuda)
    stream = cuda.cuStreamCreate(1)
    for threshold, kept in ((0, 0), (4 * MIB, 4 * MIB), ((1 << 64) - 1, 12 * MIB)):
        attribute(cuda, mine, "RELEASE_THRESHOLD", threshold)
        pointers = [int(cuda.cuMemAllocFromPoolAsync(4 * MIB, mine, stream)) for _ in range(3)]
        assert attribute(cuda, mine, "USED_MEM_CURRENT") == 12 * MIB
        assert attribute(cuda, mine, "RESERVED_MEM_CURRENT") == 12 * MIB
        assert int(cuda.cuMemGetInfo()[0]) == free - 12 * MIB
        for pointer in pointers:
            cuda.cuMemFreeAsync(pointer, stream)
        assert attribute(cuda, mine, "USED_MEM_CURRENT") == 0
        cuda.cuStreamSynchronize(stream)
        assert attribute(cuda, mine, "RESERVED_MEM_CURRENT") == kept
        assert int(cuda.cuMemGetInfo()[0]) == free - kept
    assert attribute(cuda, mine, "RESERVED_MEM_HIGH") == 12 * MIB
    cuda.cuMemPoolTrimTo(mine, 5 * MIB)
    assert attribute(cuda, mine, "RESERVED_MEM_CURRENT") == 4 * MIB
    assert attribute(cuda, mine, "RESERVED_MEM_HIGH", 0) == 4 * MIB
    cuda.cuMemPoolDestroy(mine)
    assert int(cuda.cuMemGetInfo()[0]) == free


def test_a_destroyed_pool_lives_until_its_last_allocation_is_freed(cuda):
    mine, stream = new_pool(cuda), cuda.cuStreamCreate(0)
    free = int(cuda.cuMemGetInfo()[0])
    pointer = int(cuda.cuMemAllocFromPoolAsync(4 * MIB, mine, stream))
    cuda.cuMemPoolDestroy(mine)
    assert cuda.code("cuMemAllocFromPoolAsync", 1, mine, stream) == INVALID_VALUE
    assert cuda.code("cuMemPoolDestroy", mine) == INVALID_VALUE
    cuda.cuMemsetD8Async(pointer, 7, 4 * MIB, stream)
    cuda.cuMemFreeAsync(pointer, stream)
    cuda.cuStreamSynchronize(stream)
    assert int(cuda.cuMemGetInfo()[0]) == free


def test_pools_of_devices(cuda, pool):
    default = cuda.cuDeviceGetDefaultMemPool(0)
    assert int(cuda.cuDeviceGetMemPool(0)) == int(default)
    assert cuda.code("cuMemPoolDestroy", default) == INVALID_VALUE
    cuda.cuDeviceSetMemPool(0, pool)
    pointer = int(cuda.cuMemAllocAsync(1000, 0))
    which = cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE
    assert int(cuda.cuPointerGetAttribute(which, pointer)) == int(pool)
    assert int(cuda.cuPointerGetAttribute(which, cuda.cuMemAlloc(4))) == 0
    cuda.cuMemFreeAsync(pointer, 0)
    other = new_pool(cuda)
    cuda.cuDeviceSetMemPool(0, other)
    cuda.cuMemPoolDestroy(other)
    assert int(cuda.cuDeviceGetMemPool(0)) == int(default)
    for name in ("cuDeviceGetMemPool", "cuDeviceGetDefaultMemPool"):
        assert cuda.code(name, 9) == INVALID_DEVICE
    assert cuda.code("cuDeviceSetMemPool", 0, 0) == INVALID_VALUE
    assert int(cuda.cuDeviceGetAttribute(cuda.CUdevice_attribute(115), 0)) == 1


def test_access_to_a_pool_is_its_own_devices(cuda, pool):
    place = cuda.CUmemLocation()
    place.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    place.id = 0
    assert int(cuda.cuMemPoolGetAccess(pool, place)) == 3
    access = cuda.CUmemAccessDesc()
    access.location = place
    access.flags = cuda.CUmemAccess_flags(3)
    cuda.cuMemPoolSetAccess(pool, [access], 1)
    access.flags = cuda.CUmemAccess_flags(0)
    assert cuda.code("cuMemPoolSetAccess", pool, [access], 1) == INVALID_DEVICE
    place.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_HOST
    assert int(cuda.cuMemPoolGetAccess(pool, place)) == 0


@pytest.mark.parametrize(("location", "kind"), [(2, 1), (3, 1), (1, 2), (2, 2)])
def test_pools_of_memory_that_the_host_accesses(cuda, location, kind):
    mine, stream = new_pool(cuda, location, 0, kind), cuda.cuStreamCreate(1)
    pointer = int(cuda.cuMemAllocFromPoolAsync(1000, mine, stream))
    cuda.cuMemsetD8Async(pointer, 65, 1000, stream)
    cuda.cuStreamSynchronize(stream)
    assert ctypes.string_at(pointer, 1000) == b"A" * 1000
    cuda.cuMemFreeAsync(pointer, stream)
    cuda.cuMemPoolDestroy(mine)


def test_pools_that_cannot_be_are_refused(cuda):
    props = cuda.CUmemPoolProps()
    assert cuda.code("cuMemPoolCreate", props) == INVALID_VALUE
    props.allocType = cuda.CUmemAllocationType(1)
    props.location.type = cuda.CUmemLocationType(1)
    props.location.id = 9
    assert cuda.code("cuMemPoolCreate", props) == INVALID_DEVICE
    props.location.id = 0
    props.handleTypes = cuda.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_WIN32
    assert cuda.code("cuMemPoolCreate", props) == NOT_SUPPORTED


def test_a_destroyed_context_takes_its_blocks_along(cuda, pool):
    used = attribute(cuda, pool, "USED_MEM_CURRENT")
    other = cuda.cuCtxCreate(None, 0, 0)
    pointer = int(cuda.cuMemAllocFromPoolAsync(4 * MIB, pool, 0))
    cuda.cuMemFreeAsync(cuda.cuMemAllocFromPoolAsync(100, pool, 0), 0)
    cuda.cuCtxDestroy(other)
    assert attribute(cuda, pool, "USED_MEM_CURRENT") == used
    assert attribute(cuda, pool, "RESERVED_MEM_CURRENT") == used
    assert cuda.code("cuMemFree", pointer) == INVALID_VALUE


def test_memory_of_no_pool_can_be_freed_in_a_stream(cuda):
    pointer = int(cuda.cuMemAlloc(100))
    cuda.cuMemsetD8Async(pointer, 1, 100, 0)
    cuda.cuMemFreeAsync(pointer, 0)
    assert cuda.code("cuMemFree", pointer) == INVALID_VALUE


def test_a_captured_stream_allocates_memory_of_its_graph(cuda, pool):
    attribute = cuda.CUgraphMem_attribute
    used, high = attribute(0), attribute(1)
    before = int(cuda.cuDeviceGetGraphMemAttribute(0, used))
    stream = cuda.cuStreamCreate(1)
    outside = int(cuda.cuMemAllocAsync(100, stream))
    cuda.cuStreamBeginCapture(stream, cuda.CUstreamCaptureMode(2))
    kept = int(cuda.cuMemAllocAsync(4 * MIB, stream))
    inner = int(cuda.cuMemAllocFromPoolAsync(100, pool, stream))
    assert int(cuda.cuMemAllocAsync(0, stream)) == 0
    cuda.cuMemsetD8Async(inner, 7, 100, stream)
    cuda.cuMemcpyDtoDAsync(kept, inner, 100, stream)
    cuda.cuMemFreeAsync(inner, stream)
    assert cuda.code("cuMemFreeAsync", outside, stream) == INVALID_VALUE, "not of a graph"
    graph = cuda.cuStreamEndCapture(stream)
    executable = cuda.cuGraphInstantiate(graph, 0)
    cuda.cuGraphDestroy(graph)
    assert cuda.code("cuMemFreeAsync", kept, stream) == INVALID_VALUE, "no launch allocated it"
    free = [cuda.cuMemFreeAsync, lambda pointer, _: cuda.cuMemFree(pointer), None]
    back = np.zeros(100, dtype=np.uint8)
    for function in free:
        cuda.cuGraphLaunch(executable, stream)
        back[:] = 0
        cuda.cuMemcpyDtoHAsync(back, kept, 100, stream)
        cuda.cuStreamSynchronize(stream)
        assert (back == 7).all()
        if function:
            function(kept, stream)
    cuda.cuGraphExecDestroy(executable)
    cuda.cuMemcpyDtoH(back, kept, 100)  # the program has yet to free it
    assert int(cuda.cuDeviceGetGraphMemAttribute(0, used)) == before + 4 * MIB
    cuda.cuMemFreeAsync(kept, stream)
    assert cuda.code("cuMemFree", kept) == INVALID_VALUE
    cuda.cuDeviceGraphMemTrim(0)
    assert int(cuda.cuDeviceGetGraphMemAttribute(0, used)) == before
    assert int(cuda.cuDeviceGetGraphMemAttribute(0, high)) >= before + 4 * MIB
    cuda.cuDeviceSetGraphMemAttribute(0, high, cuda.cuuint64_t(0))
    assert int(cuda.cuDeviceGetGraphMemAttribute(0, high)) == before
    assert cuda.code("cuDeviceSetGraphMemAttribute", 0, used, cuda.cuuint64_t(0)) == INVALID_VALUE
    assert cuda.code("cuMemcpyDtoH", back, kept, 1) == INVALID_VALUE, "it is freed"
    cuda.cuMemFreeAsync(outside, stream)


def test_a_graph_can_allocate_managed_memory(cuda):
    managed = new_pool(cuda, location=0, kind=2)
    stream = cuda.cuStreamCreate(1)
    cuda.cuStreamBeginCapture(stream, cuda.CUstreamCaptureMode(2))
    pointer = int(cuda.cuMemAllocFromPoolAsync(64, managed, stream))
    cuda.cuMemsetD8Async(pointer, 65, 64, stream)
    executable = cuda.cuGraphInstantiate(cuda.cuStreamEndCapture(stream), 0)
    cuda.cuGraphLaunch(executable, stream)
    cuda.cuStreamSynchronize(stream)
    assert ctypes.string_at(pointer, 64) == b"A" * 64
    cuda.cuMemFreeAsync(pointer, stream)
    cuda.cuMemPoolDestroy(managed)
