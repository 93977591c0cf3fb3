"""External memory: descriptors of this library's own exported memory."""

import os

import numpy as np
import pytest

from support.programs.steps import PRELUDE, Process

INVALID_VALUE, INVALID_HANDLE, NOT_SUPPORTED = 1, 400, 801
OPAQUE_FD, NVSCIBUF = 1, 8
UNIT = 2 << 20

IMPORTER = (
    PRELUDE
    + """
class Memory(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handle", ctypes.c_uint64 * 2), ("size", ctypes.c_uint64),
                ("flags", ctypes.c_uint)]
class Buffer(ctypes.Structure):
    _fields_ = [("offset", ctypes.c_uint64), ("size", ctypes.c_uint64), ("flags", ctypes.c_uint)]
memory, number = ctypes.c_void_p(), int(sys.argv[1])
wanted = Memory(1, (number, 0), 2 << 20, 0)
assert lib.cuImportExternalMemory(ctypes.byref(memory), ctypes.byref(wanted)) == 0
assert not os.path.exists(f"/proc/self/fd/{number}"), "the driver owns the descriptor"
assert lib.cuExternalMemoryGetMappedBuffer(
    ctypes.byref(pointer), memory, ctypes.byref(Buffer(4096, 100, 0))) == 0
assert read(100) == b"P" * 100
assert lib.cuMemsetD8_v2(pointer, 81, ctypes.c_size_t(100)) == 0
assert lib.cuCtxSynchronize() == 0
assert lib.cuDestroyExternalMemory(memory) == 0
assert lib.cuDestroyExternalMemory(memory) == 400
assert read(100) == b"Q" * 100, "a buffer stays until it is freed"
assert lib.cuMemFree_v2(pointer) == 0
assert lib.cuMemFree_v2(pointer) == 1
step()
"""
)


@pytest.fixture
def shareable(cuda):
    """Physical memory, and a descriptor of it."""
    properties = cuda.CUmemAllocationProp()
    properties.type = cuda.CUmemAllocationType(1)
    properties.location.type = cuda.CUmemLocationType(1)
    properties.requestedHandleTypes = cuda.CUmemAllocationHandleType(1)
    handle = cuda.cuMemCreate(UNIT, properties, 0)
    kind = cuda.CUmemAllocationHandleType(1)
    descriptor = int(cuda.cuMemExportToShareableHandle(handle, kind, 0))
    yield handle, descriptor
    cuda.cuMemRelease(handle)


def handle_of(cuda, descriptor: int, size=UNIT, kind=OPAQUE_FD, flags=0):
    one = cuda.CUDA_EXTERNAL_MEMORY_HANDLE_DESC()
    one.type = cuda.CUexternalMemoryHandleType(kind)
    one.handle.fd, one.size, one.flags = descriptor, size, flags
    return one


def part(cuda, offset: int, size: int, flags=0):
    one = cuda.CUDA_EXTERNAL_MEMORY_BUFFER_DESC()
    one.offset, one.size, one.flags = offset, size, flags
    return one


def test_another_process_imports_memory(cuda, environment, shareable):
    handle, descriptor = shareable
    start = int(cuda.cuMemAddressReserve(UNIT, 0, 0, 0))
    cuda.cuMemMap(start, UNIT, 0, handle, 0)
    access = cuda.CUmemAccessDesc()
    access.location.type, access.flags = cuda.CUmemLocationType(1), cuda.CUmemAccess_flags(3)
    cuda.cuMemSetAccess(start, UNIT, [access], 1)
    cuda.cuMemsetD8(start, ord("P"), UNIT)
    cuda.cuCtxSynchronize()
    other = Process(environment, IMPORTER, str(descriptor), passed=(descriptor,))
    assert other.reply() == "ok"
    assert other.end() == 0
    back = np.zeros(5000, np.uint8)
    cuda.cuMemcpyDtoH(back, start, back.nbytes)
    assert bytes(back[4090:4200]) == b"P" * 6 + b"Q" * 100 + b"P" * 4
    os.close(descriptor)
    cuda.cuMemUnmap(start, UNIT)
    cuda.cuMemAddressFree(start, UNIT)


def test_buffers_of_one_process_share_memory_and_are_freed_by_address(cuda, shareable):
    free = int(cuda.cuMemGetInfo()[0])
    memory = cuda.cuImportExternalMemory(handle_of(cuda, shareable[1]))
    buffers = [
        int(cuda.cuExternalMemoryGetMappedBuffer(memory, part(cuda, offset, UNIT - offset)))
        for offset in (0, 512)
    ]
    cuda.cuMemsetD8(buffers[0] + 512, 7, 16)
    back = np.zeros(16, np.uint8)
    cuda.cuMemcpyDtoH(back, buffers[1], 16)
    assert (back == 7).all()
    cuda.cuDestroyExternalMemory(memory)
    for buffer in buffers:
        cuda.cuMemFree(buffer)
        assert cuda.code("cuMemsetD8", buffer, 0, 1) == INVALID_VALUE
    assert int(cuda.cuMemGetInfo()[0]) == free


def test_what_is_no_exported_memory_is_refused(cuda, shareable):
    descriptor = shareable[1]
    reading, writing = os.pipe()
    for wrong in (
        handle_of(cuda, reading), handle_of(cuda, -1), handle_of(cuda, descriptor, UNIT // 2),
        handle_of(cuda, descriptor, 2 * UNIT), handle_of(cuda, descriptor, flags=2),
    ):  # fmt: skip
        assert cuda.code("cuImportExternalMemory", wrong) == INVALID_VALUE
    os.close(reading)
    os.close(writing)
    scibuf = handle_of(cuda, 0, kind=NVSCIBUF)
    assert cuda.code("cuImportExternalMemory", scibuf) == NOT_SUPPORTED
    memory = cuda.cuImportExternalMemory(handle_of(cuda, descriptor))
    for wrong in (
        part(cuda, 0, 0), part(cuda, 1, UNIT), part(cuda, UNIT + 1, 1), part(cuda, 2**64 - 1, 2),
        part(cuda, 0, UNIT, 1),
    ):  # fmt: skip
        assert cuda.code("cuExternalMemoryGetMappedBuffer", memory, wrong) == INVALID_VALUE
    cuda.cuDestroyExternalMemory(memory)
    whole = part(cuda, 0, UNIT)
    assert cuda.code("cuExternalMemoryGetMappedBuffer", memory, whole) == INVALID_HANDLE
