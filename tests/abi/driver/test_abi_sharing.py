"""Memory shared between processes of one slice: IPC handles, pools and physical memory."""

import ctypes
import os

import pytest

from support.programs.steps import PRELUDE, Process

INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE = 1, 201, 400
MIB = 1 << 20
FD = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

IPC = (
    PRELUDE
    + """
name = step()
while name:
    status = lib.cuIpcOpenMemHandle_v2(ctypes.byref(pointer), raw(name), 1)
    if status:
        print(status, end=" ")
    else:
        first = pointer.value
        assert lib.cuIpcOpenMemHandle_v2(ctypes.byref(pointer), raw(name), 1) == 0
        assert pointer.value == first
        assert lib.cuIpcCloseMemHandle(pointer) == 0
        assert read(1000) == b"A" * 1000
        assert lib.cuMemFree_v2(pointer) == 1
        assert lib.cuMemsetD8_v2(pointer, 66, ctypes.c_size_t(1000)) == 0
        assert lib.cuCtxSynchronize() == 0
        before = used()
        if step() == "exporter frees":
            assert step() == "freed"
            assert used() == before, "it stays charged"
            assert read(1000) == b"B" * 1000
        assert lib.cuIpcCloseMemHandle(pointer) == 0
        assert lib.cuIpcCloseMemHandle(pointer) == 1
        assert used() >= before
    name = step()
"""
)
POOLS = (
    PRELUDE
    + """
pool = ctypes.c_void_p()
assert lib.cuMemPoolImportFromShareableHandle(
    ctypes.byref(pool), ctypes.c_void_p(int(sys.argv[1])), 1, ctypes.c_ulonglong(0)) == 0
name = step()
status = lib.cuMemPoolImportPointer(ctypes.byref(pointer), pool, ctypes.byref(raw(name)))
assert status == 0, status
assert read(100) == b"A" * 100
assert lib.cuMemAllocFromPoolAsync(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(8), pool, None) == 1
wrong = bytearray.fromhex(name)
wrong[60] ^= 1
assert lib.cuMemPoolImportPointer(ctypes.byref(ctypes.c_uint64()), pool, ctypes.byref(raw(wrong.hex()))) == 1
assert lib.cuMemFreeAsync(pointer, None) == 0
assert lib.cuMemFreeAsync(pointer, None) == 1
current = ctypes.c_void_p()
assert lib.cuCtxPopCurrent_v2(ctypes.byref(current)) == 0
assert lib.cuMemPoolImportPointer(ctypes.byref(pointer), pool, ctypes.byref(raw(name))) == 0
assert lib.cuCtxPushCurrent_v2(current) == 0
assert read(100) == b"A" * 100
assert lib.cuMemFree_v2(pointer) == 0
physical = ctypes.c_uint64()
number = int(sys.argv[2])
assert lib.cuMemImportFromShareableHandle(ctypes.byref(physical), ctypes.c_void_p(number), 1) == 0
size = ctypes.c_size_t(2 << 20)
assert lib.cuMemExportToShareableHandle(ctypes.byref(ctypes.c_int()), physical, 1, ctypes.c_ulonglong(0)) == 801
assert lib.cuMemAddressReserve(ctypes.byref(pointer), size, ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_ulonglong(0)) == 0
assert lib.cuMemMap(pointer, size, ctypes.c_size_t(0), physical, ctypes.c_ulonglong(0)) == 0
access = (ctypes.c_int * 3)(1, 0, 3)
assert lib.cuMemSetAccess(pointer, size, access, ctypes.c_size_t(1)) == 0
assert read(100) == b"P" * 100
step()
"""
)


def name_of(cuda, pointer: int) -> str:
    handle = cuda.cuIpcGetMemHandle(pointer)
    return ctypes.string_at(handle.getPtr(), 64).hex()


def test_another_process_opens_memory(cuda, environment):
    small, large = int(cuda.cuMemAlloc(1000)), int(cuda.cuMemAlloc(3 * MIB))
    for pointer in (small, large):
        cuda.cuMemsetD8(pointer, 65, 1000)
    names = [name_of(cuda, pointer) for pointer in (small, large)]
    assert names[0] == name_of(cuda, small), "the handle of an allocation is always the same"
    other = Process(environment, IPC)
    assert other.reply() == "ok"
    assert other.do(names[0]) == "ok"
    assert other.do("close") == "ok"
    target = (ctypes.c_char * 1000)()
    cuda.cuMemcpyDtoH(target, small, 1000)
    assert target.raw == b"B" * 1000
    assert other.do(names[1]) == "ok"
    assert other.do("exporter frees") == "ok"
    cuda.cuMemFree(large)
    assert other.do("freed") == "ok"
    assert other.do(names[1]) == f"{INVALID_HANDLE} ok", "a replayed handle opens nothing"
    forged = bytearray.fromhex(names[0])
    forged[3] ^= 1
    longer = bytearray.fromhex(names[0])
    longer[40] ^= 1
    for wrong in (forged, longer, bytes(64)):
        assert other.do(wrong.hex()) == f"{INVALID_HANDLE} ok"
    cuda.cuMemFree(small)
    assert other.do(names[0]) == f"{INVALID_HANDLE} ok"
    assert other.end() == 0


def test_the_exporter_and_other_memory_are_refused(cuda):
    pointer, pinned = int(cuda.cuMemAlloc(64)), int(cuda.cuMemHostAlloc(64, 0))
    handle = cuda.cuIpcGetMemHandle(pointer)
    assert cuda.code("cuIpcOpenMemHandle", handle, 1) == INVALID_CONTEXT
    assert cuda.code("cuIpcOpenMemHandle", handle, 2) == INVALID_VALUE
    for wrong in (pinned, int(cuda.cuMemAllocAsync(64, 0)), 64):
        assert cuda.code("cuIpcGetMemHandle", wrong) == INVALID_VALUE


def test_pools_and_physical_memory_are_imported(cuda, environment):
    props = cuda.CUmemPoolProps()
    props.allocType = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    props.handleTypes = cuda.CUmemAllocationHandleType(FD)
    props.location = location = cuda.CUmemLocation()
    location.type, location.id = cuda.CUmemLocationType(1), 0
    props.location = location
    pool = cuda.cuMemPoolCreate(props)
    ended = cuda.cuCtxCreate(None, 0, 0)
    first = int(cuda.cuMemPoolExportToShareableHandle(pool, props.handleTypes, 0))
    cuda.cuCtxDestroy(ended)
    exported = int(cuda.cuMemPoolExportToShareableHandle(pool, props.handleTypes, 0))
    assert os.pread(exported, 72, 0) != os.pread(first, 72, 0), "that context's name has ended"
    os.close(first)
    pointer = int(cuda.cuMemAllocFromPoolAsync(100, pool, 0))
    cuda.cuMemsetD8(pointer, 65, 100)
    wanted = cuda.CUmemAllocationProp()
    wanted.type, wanted.location = props.allocType, location
    wanted.requestedHandleTypes = props.handleTypes
    memory = cuda.cuMemCreate(2 * MIB, wanted, 0)
    place = cuda.cuMemAddressReserve(2 * MIB, 0, 0, 0)
    cuda.cuMemMap(place, 2 * MIB, 0, memory, 0)
    access = cuda.CUmemAccessDesc()
    access.location, access.flags = location, cuda.CUmemAccess_flags(3)
    cuda.cuMemSetAccess(place, 2 * MIB, [access], 1)
    cuda.cuMemsetD8(place, 80, 100)
    cuda.cuCtxSynchronize()
    physical = int(cuda.cuMemExportToShareableHandle(memory, props.handleTypes, 0))
    again = cuda.cuMemImportFromShareableHandle(physical, props.handleTypes)
    assert int(again) == int(memory), "the exporter gets its own memory"
    cuda.cuMemRelease(again)
    exported_pointer = cuda.cuMemPoolExportPointer(pointer)
    data = ctypes.string_at(exported_pointer.getPtr(), 64)
    passed = (exported, physical)
    other = Process(environment, POOLS, *map(str, passed), passed=passed)
    assert other.reply() == "ok"
    assert other.do(data.hex()) == "ok"
    assert other.end() == 0
    for descriptor in passed:
        os.close(descriptor)
    with open("/dev/null", "rb") as wrong:
        number, kind = wrong.fileno(), props.handleTypes
        assert cuda.code("cuMemPoolImportFromShareableHandle", number, kind, 0) == INVALID_VALUE
        assert cuda.code("cuMemImportFromShareableHandle", number, kind) == INVALID_VALUE


@pytest.mark.parametrize("which", ["1"])
def test_another_slice_opens_nothing(cuda, environment, which):
    pointer = int(cuda.cuMemAlloc(1000))
    other = Process({**environment, "CUDA_VISIBLE_DEVICES": which}, IPC)
    assert other.reply() == "ok"
    assert other.do(name_of(cuda, pointer)) == f"{INVALID_HANDLE} ok"
    assert other.end() == 0
