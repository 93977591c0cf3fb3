"""Managed memory, advice about it, and managed variables of modules, through cuda.bindings."""

import ctypes

import pytest

from support.kernels import ptx_kernels

INVALID_VALUE, INVALID_DEVICE, NOT_FOUND, NOT_SUPPORTED = 1, 101, 500, 801
MIB = 1 << 20
GLOBAL, HOST, SINGLE = 1, 2, 4


def place(cuda, kind: int, number: int = 0):
    location = cuda.CUmemLocation()
    location.type, location.id = cuda.CUmemLocationType(kind), number
    return location


def attribute(cuda, name: str, size: int, pointer: int, count: int):
    which = getattr(cuda.CUmem_range_attribute, f"CU_MEM_RANGE_ATTRIBUTE_{name}")
    found = cuda.cuMemRangeGetAttribute(size, which, pointer, count)
    return [int(one) for one in found] if isinstance(found, list) else int(found)


@pytest.mark.parametrize("size", [1000, 3 * MIB])
def test_host_and_device_access_the_same_memory(cuda, size):
    free = int(cuda.cuMemGetInfo()[0])
    pointer = int(cuda.cuMemAllocManaged(size, GLOBAL))
    assert int(cuda.cuMemGetInfo()[0]) < free, "it is charged to the slice"
    ctypes.memset(pointer, 65, size)
    device = int(cuda.cuMemAlloc(size))
    cuda.cuMemcpyDtoD(device, pointer, size)
    cuda.cuMemsetD8(pointer, 66, size)
    assert ctypes.string_at(pointer, size) == b"B" * size
    cuda.cuMemcpyHtoD(pointer, (ctypes.c_char * size).from_buffer_copy(b"C" * size), size)
    assert ctypes.string_at(pointer, size) == b"C" * size
    cuda.cuMemcpyDtoH(pointer, device, size)
    assert ctypes.string_at(pointer, size) == b"A" * size
    ask = cuda.CUpointer_attribute
    assert int(cuda.cuPointerGetAttribute(ask.CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer)) == 1
    assert int(cuda.cuPointerGetAttribute(ask.CU_POINTER_ATTRIBUTE_IS_MANAGED, device)) == 0
    assert int(cuda.cuPointerGetAttribute(ask.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer)) == 2
    assert (
        int(cuda.cuPointerGetAttribute(ask.CU_POINTER_ATTRIBUTE_HOST_POINTER, pointer)) == pointer
    )
    assert cuda.code("cuMemFreeHost", pointer) == INVALID_VALUE
    cuda.cuMemFree(pointer)
    assert cuda.code("cuMemFree", pointer) == INVALID_VALUE


def test_the_host_accesses_it_while_a_kernel_runs(cuda):
    """CONCURRENT_MANAGED_ACCESS: the kernel ends when the host stores 1."""
    assert [int(cuda.cuDeviceGetAttribute(cuda.CUdevice_attribute(n), 0)) for n in (83, 89)] == [
        1,
        1,
    ]
    flag = int(cuda.cuMemAllocManaged(4, GLOBAL))
    ctypes.memset(flag, 0, 4)
    image = ptx_kernels.ENDLESS.encode() + b"\0"
    endless = cuda.cuModuleGetFunction(cuda.cuModuleLoadData(image), b"endless")
    cuda.cuLaunchKernel(endless, 1, 1, 1, 1, 1, 1, 0, 0, ((flag,), (ctypes.c_void_p,)), 0)
    assert cuda.code("cuStreamQuery", 0) == 600
    ctypes.memset(flag, 1, 4)
    cuda.cuStreamSynchronize(0)


def test_advice_is_reported_for_the_whole_range(cuda):
    pointer = int(cuda.cuMemAllocManaged(8192, GLOBAL))
    advice = cuda.CUmem_advise
    device, host = place(cuda, 1), place(cuda, 2)
    cuda.cuMemAdvise(pointer, 4096, advice.CU_MEM_ADVISE_SET_READ_MOSTLY, device)
    cuda.cuMemAdvise(pointer, 8192, advice.CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host)
    cuda.cuMemAdvise(pointer, 8192, advice.CU_MEM_ADVISE_SET_ACCESSED_BY, device)
    cuda.cuMemPrefetchAsync(pointer + 4096, 4096, device, 0, 0)
    seen = {
        (name, part): attribute(cuda, name, 4, pointer + begin, count)
        for name in ("READ_MOSTLY", "PREFERRED_LOCATION", "LAST_PREFETCH_LOCATION")
        for part, begin, count in (("all", 0, 8192), ("low", 0, 4096), ("high", 4096, 4096))
    }
    assert seen == {
        ("READ_MOSTLY", "all"): 0,
        ("READ_MOSTLY", "low"): 1,
        ("READ_MOSTLY", "high"): 0,
        ("PREFERRED_LOCATION", "all"): -1,
        ("PREFERRED_LOCATION", "low"): -1,
        ("PREFERRED_LOCATION", "high"): -1,
        ("LAST_PREFETCH_LOCATION", "all"): -2,
        ("LAST_PREFETCH_LOCATION", "low"): -2,
        ("LAST_PREFETCH_LOCATION", "high"): 0,
    }
    cuda.cuMemDiscardAndPrefetchBatchAsync(
        [cuda.CUdeviceptr(pointer)], [8192], 1, [host], [0], 1, 0, 0
    )
    assert attribute(cuda, "LAST_PREFETCH_LOCATION", 4, pointer, 8192) == -1
    assert attribute(cuda, "ACCESSED_BY", 8, pointer, 8192) == [0, -2]
    cuda.cuMemAdvise(pointer, 8192, advice.CU_MEM_ADVISE_UNSET_ACCESSED_BY, device)
    assert attribute(cuda, "ACCESSED_BY", 8, pointer, 8192) == [-2, -2]


def test_wrong_uses_are_refused(cuda):
    managed, device = int(cuda.cuMemAllocManaged(4096, HOST)), int(cuda.cuMemAlloc(4096))
    advice = cuda.CUmem_advise.CU_MEM_ADVISE_SET_PREFERRED_LOCATION
    for flags in (0, 3, SINGLE):
        assert cuda.code("cuMemAllocManaged", 4096, flags) == INVALID_VALUE
    assert cuda.code("cuMemAllocManaged", 0, GLOBAL) == INVALID_VALUE
    for pointer, count in ((device, 4096), (managed, 4097), (managed, 0), (id(device), 1)):
        assert cuda.code("cuMemAdvise", pointer, count, advice, place(cuda, 1)) == INVALID_VALUE
        assert cuda.code("cuMemPrefetchAsync", pointer, count, place(cuda, 1), 0, 0) == 1
    assert cuda.code("cuMemAdvise", managed, 1, advice, place(cuda, 1, 7)) == INVALID_DEVICE
    stream = cuda.cuStreamCreate(1)
    discard = "cuMemDiscardBatchAsync"
    cuda.cuMemDiscardBatchAsync([cuda.CUdeviceptr(managed)], [4096], 1, 0, stream)
    assert (
        cuda.code(
            discard,
            [cuda.CUdeviceptr(managed), cuda.CUdeviceptr(device)],
            [4096, 4096],
            2,
            0,
            stream,
        )
        == INVALID_VALUE
    )
    assert cuda.code(discard, [cuda.CUdeviceptr(managed)], [4096], 1, 1, stream) == INVALID_VALUE, (
        "flags"
    )
    cuda.cuStreamAttachMemAsync(stream, managed, 0, SINGLE)
    cuda.cuStreamAttachMemAsync(0, managed, 4096, GLOBAL)
    assert cuda.code("cuStreamAttachMemAsync", 0, managed, 0, SINGLE) == INVALID_VALUE
    assert cuda.code("cuStreamAttachMemAsync", stream, managed, 5, GLOBAL) == INVALID_VALUE
    assert cuda.code("cuStreamAttachMemAsync", stream, device, 0, GLOBAL) == INVALID_VALUE


VARIABLES = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .global .attribute(.managed) .align 4 .u32 words[3] = {5, 6, 7};
.global .attribute(.managed) .align 8 .u64 zero;
.visible .global .align 4 .u32 plain = 9;
.visible .global .attribute(.managed) .align 8 .u64 refused = words;
.visible .entry add(.param .u64 out)
{
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.global.u32 %r1, [words+4];
  add.u32 %r1, %r1, 100;
  st.global.u32 [words+4], %r1;
  mov.u64 %rd1, words;
  ld.param.u64 %rd2, [out];
  st.global.u64 [%rd2], %rd1;
  cvta.global.u64 %rd3, zero;
  st.u64 [%rd3], %rd1;
  ret;
}
"""


def launch_add(cuda, function, out: int) -> None:
    cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, ((out,), (ctypes.c_void_p,)), 0)
    cuda.cuStreamSynchronize(0)


def test_host_and_kernels_share_managed_variables(cuda):
    out = int(cuda.cuMemAllocManaged(8, GLOBAL))
    module = cuda.cuModuleLoadData(VARIABLES)
    pointer, size = map(int, cuda.cuModuleGetGlobal(module, b"words"))
    words = (ctypes.c_uint32 * 3).from_address(pointer)
    assert (size, list(words)) == (12, [5, 6, 7])
    words[1] = 60
    launch_add(cuda, cuda.cuModuleGetFunction(module, b"add"), out)
    assert list(words) == [5, 160, 7]
    assert ctypes.c_uint64.from_address(out).value == pointer
    zero = int(cuda.cuModuleGetGlobal(module, b"zero")[0])
    assert ctypes.c_uint64.from_address(zero).value == pointer
    ask = cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_IS_MANAGED
    assert int(cuda.cuPointerGetAttribute(ask, pointer)) == 1
    assert cuda.code("cuMemFree", pointer) == INVALID_VALUE, "it belongs to the module"
    plain = int(cuda.cuModuleGetGlobal(module, b"plain")[0])
    assert int(cuda.cuPointerGetAttribute(ask, plain)) == 0
    cuda.cuModuleUnload(module)
    cuda.cuMemFree(out)
    assert cuda.code("cuMemAdvise", pointer, 4, cuda.CUmem_advise(1), place(cuda, 1)) == 1


def test_the_memory_of_managed_variables_is_released_with_their_module(cuda):
    large = VARIABLES.replace(b"words[3] = {5, 6, 7}", b"words[500000] = {5, 6, 7}")
    assert large != VARIABLES
    left = []
    for _ in range(4):
        cuda.cuModuleUnload(cuda.cuModuleLoadData(large))
        left.append(int(cuda.cuMemGetInfo()[0]))
    assert len(set(left)) == 1


def test_libraries_know_which_variables_are_managed(cuda):
    library = cuda.cuLibraryLoadData(VARIABLES, [], [], 0, [], [], 0)
    pointer, size = map(int, cuda.cuLibraryGetManaged(library, b"words"))
    assert size == 12
    assert list(map(int, cuda.cuLibraryGetGlobal(library, b"words"))) == [pointer, size]
    assert cuda.code("cuLibraryGetManaged", library, b"plain") == NOT_FOUND
    assert cuda.code("cuLibraryGetManaged", library, b"none") == NOT_FOUND
    assert cuda.code("cuLibraryGetManaged", library, b"refused") == NOT_SUPPORTED
    out = int(cuda.cuMemAllocManaged(8, GLOBAL))
    kernel = cuda.cuKernelGetFunction(cuda.cuLibraryGetKernel(library, b"add"))
    launch_add(cuda, kernel, out)
    assert (ctypes.c_uint32 * 3).from_address(pointer)[1] == 106
    cuda.cuLibraryUnload(library)
