"""Virtual memory management: addresses and memory that are allocated separately."""

import ctypes
import subprocess
import sys
import threading

import numpy as np
import pytest

from support.kernels import ptx_kernels

INVALID_VALUE, INVALID_DEVICE, INVALID_CONTEXT, DESTROYED, NOT_SUPPORTED = 1, 101, 201, 709, 801
MIB = 1 << 20
UNIT = 2 * MIB


@pytest.fixture
def properties(cuda):
    found = cuda.CUmemAllocationProp()
    found.type = cuda.CUmemAllocationType(1)
    found.location.type, found.location.id = cuda.CUmemLocationType(1), 0
    return found


def set_access(cuda, pointer: int, size: int, flags: int) -> int:
    access = cuda.CUmemAccessDesc()
    access.location.type, access.location.id = cuda.CUmemLocationType(1), 0
    access.flags = cuda.CUmemAccess_flags(flags)
    return cuda.code("cuMemSetAccess", pointer, size, [access], 1)


def get_access(cuda, pointer: int) -> int:
    place = cuda.CUmemLocation()
    place.type = cuda.CUmemLocationType(1)
    return int(cuda.cuMemGetAccess(place, pointer))


def test_memory_is_mapped_at_reserved_addresses(cuda, properties):
    """Adjacent mappings are one range for copies, and kernels access them."""
    assert int(cuda.cuDeviceGetAttribute(cuda.CUdevice_attribute(102), 0)) == 1
    option = cuda.CUmemAllocationGranularity_flags(0)
    assert int(cuda.cuMemGetAllocationGranularity(properties, option)) == UNIT
    free = int(cuda.cuMemGetInfo()[0])
    start = int(cuda.cuMemAddressReserve(16 * UNIT, 0, 0, 0))
    assert int(cuda.cuMemGetInfo()[0]) == free, "addresses are not memory"
    handles = [cuda.cuMemCreate(size, properties, 0) for size in (UNIT, 2 * UNIT)]
    assert int(cuda.cuMemGetInfo()[0]) == free - 3 * UNIT
    cuda.cuMemMap(start, UNIT, 0, handles[0], 0)
    cuda.cuMemMap(start + UNIT, 2 * UNIT, 0, handles[1], 0)
    assert cuda.code("cuMemMap", start, UNIT, 0, handles[0], 0) == INVALID_VALUE
    assert cuda.code("cuMemsetD8", start, 1, 1) == INVALID_VALUE, "no access yet"
    assert get_access(cuda, start) == 0
    assert set_access(cuda, start, 3 * UNIT, 3) == 0
    assert get_access(cuda, start + UNIT) == 3
    data = np.random.default_rng(1).integers(0, 256, 3 * UNIT, np.uint8)
    back = np.zeros_like(data)
    cuda.cuMemcpyHtoD(start, data, data.nbytes)
    other = int(cuda.cuMemAlloc(data.nbytes))
    cuda.cuMemcpyDtoDAsync(other, start, data.nbytes, 0)
    cuda.cuMemsetD8Async(start + UNIT - 5, 7, 10, 0)
    cuda.cuMemcpyDtoH(back, other, data.nbytes)
    assert (back == data).all()
    data[UNIT - 5 : UNIT + 5] = 7
    cuda.cuMemcpyDtoH(back, start, data.nbytes)
    assert (back == data).all()
    spin = cuda.cuModuleGetFunction(
        cuda.cuModuleLoadData(ptx_kernels.SPIN.encode() + b"\0"), b"spin"
    )
    values = (start + UNIT, 10), (ctypes.c_uint64, ctypes.c_uint32)
    cuda.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, 0, values, 0)
    cuda.cuCtxSynchronize()
    cuda.cuMemcpyDtoH(back, start + UNIT, 64)
    for handle in handles:
        cuda.cuMemRelease(handle)
    cuda.cuMemFree(other)
    assert int(cuda.cuMemGetInfo()[0]) == free - 3 * UNIT, "it is still mapped"
    assert cuda.code("cuMemAddressFree", start, 16 * UNIT) == INVALID_VALUE, "it is in use"
    assert cuda.code("cuMemFree", start) == INVALID_VALUE
    cuda.cuMemUnmap(start, 3 * UNIT)
    assert int(cuda.cuMemGetInfo()[0]) == free
    assert cuda.code("cuMemcpyDtoH", back, start, 1) == INVALID_VALUE
    cuda.cuMemAddressFree(start, 16 * UNIT)
    assert cuda.code("cuMemAddressFree", start, 16 * UNIT) == INVALID_VALUE


def test_memory_can_have_two_addresses(cuda, properties):
    start = int(cuda.cuMemAddressReserve(4 * UNIT, 8 * UNIT, 0, 0))
    assert start % (8 * UNIT) == 0
    handle = cuda.cuMemCreate(UNIT, properties, 0)
    for place in (start, start + 2 * UNIT):
        cuda.cuMemMap(place, UNIT, 0, handle, 0)
        assert set_access(cuda, place, UNIT, 3) == 0
    cuda.cuMemsetD8(start, 0x5A, UNIT)
    back = np.zeros(UNIT, np.uint8)
    cuda.cuMemcpyDtoH(back, start + 2 * UNIT, UNIT)
    assert (back == 0x5A).all()
    again = cuda.cuMemRetainAllocationHandle(start + 5)
    assert int(again) == int(handle)
    cuda.cuMemRelease(handle)
    found = cuda.cuMemGetAllocationPropertiesFromHandle(again)
    assert (int(found.type), int(found.location.type)) == (1, 1)
    cuda.cuMemRelease(again)
    assert cuda.code("cuMemRelease", again) == INVALID_VALUE
    cuda.cuMemUnmap(start, UNIT)
    again = cuda.cuMemRetainAllocationHandle(start + 2 * UNIT)
    cuda.cuMemUnmap(start + 2 * UNIT, UNIT)
    cuda.cuMemMap(start + UNIT, UNIT, 0, again, 0)
    assert set_access(cuda, start + UNIT, UNIT, 3) == 0
    cuda.cuMemcpyDtoH(back, start + UNIT, UNIT)
    assert (back == 0x5A).all(), "the memory keeps its content while it has a handle"
    assert set_access(cuda, start + UNIT, UNIT, 0) == 0
    assert cuda.code("cuMemcpyDtoH", back, start + UNIT, 1) == INVALID_VALUE
    cuda.cuMemUnmap(start + UNIT, UNIT)
    cuda.cuMemRelease(again)
    cuda.cuMemAddressFree(start, 4 * UNIT)


def test_memory_needs_no_current_context(cuda, properties):
    """The properties state the device, so its open context gets the memory."""
    current = cuda.cuCtxPopCurrent()
    handle = cuda.cuMemCreate(UNIT, properties, 0)
    start = int(cuda.cuMemAddressReserve(UNIT, 0, 0, 0))
    cuda.cuMemMap(start, UNIT, 0, handle, 0)
    assert set_access(cuda, start, UNIT, 3) == 0
    assert cuda.code("cuMemsetD8", start, 0x5A, UNIT) == INVALID_CONTEXT
    cuda.cuCtxPushCurrent(current)
    cuda.cuMemsetD8(start, 0x5A, UNIT)
    back = np.zeros(UNIT, np.uint8)
    cuda.cuMemcpyDtoH(back, start, UNIT)
    assert (back == 0x5A).all()
    cuda.cuMemUnmap(start, UNIT)
    cuda.cuMemAddressFree(start, UNIT)
    cuda.cuMemRelease(handle)
    properties.location.id = 7
    assert cuda.code("cuMemCreate", UNIT, properties, 0) == INVALID_DEVICE


def test_memory_is_created_where_a_destroyed_context_is_current(cuda, properties):
    created = threading.Event()
    destroyed = threading.Event()
    contexts, codes = [], []

    def use() -> None:
        contexts.append(cuda.cuCtxCreate(None, 0, 0))
        created.set()
        destroyed.wait(60)
        codes.append(cuda.code("cuMemsetD8", 4096, 0, 1))
        cuda.cuMemRelease(cuda.cuMemCreate(UNIT, properties, 0))
        cuda.cuMemAddressFree(cuda.cuMemAddressReserve(UNIT, 0, 0, 0), UNIT)
        codes.append(0)

    user = threading.Thread(target=use)
    user.start()
    assert created.wait(60)
    cuda.cuCtxDestroy(*contexts)
    destroyed.set()
    user.join()
    assert codes == [DESTROYED, 0]


WITHOUT_CONTEXT = """
from cuda.bindings import driver as d
def call(name, *given):
    code, *found = getattr(d, name)(*given)
    assert int(code) == 0, (name, code)
    return found[0] if found else None
call("cuInit", 0)
properties = d.CUmemAllocationProp()
properties.type, properties.location.type = d.CUmemAllocationType(1), d.CUmemLocationType(1)
properties.requestedHandleTypes = d.CUmemAllocationHandleType(1)
UNIT = 2 << 20
reserved = [call("cuMemAddressReserve", UNIT, 0, 0, 0) for _ in range(2)]
handle = call("cuMemCreate", UNIT, properties, 0)
descriptor = call("cuMemExportToShareableHandle", handle, d.CUmemAllocationHandleType(1), 0)
again = call("cuMemImportFromShareableHandle", int(descriptor), d.CUmemAllocationHandleType(1))
assert int(again) == int(handle)
access = d.CUmemAccessDesc()
access.location.type, access.flags = d.CUmemLocationType(1), d.CUmemAccess_flags(3)
for start in reserved:
    call("cuMemMap", start, UNIT, 0, again, 0)
    call("cuMemSetAccess", start, UNIT, [access], 1)
state = d.cuDevicePrimaryCtxGetState(0)
call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", 0))
call("cuMemsetD8", reserved[0], 0x5A, UNIT)
back = bytearray(UNIT)
call("cuMemcpyDtoH", back, reserved[1], UNIT)
print(back == b"\x5a" * UNIT, state[2])
"""

# Other code of the process uses the primary context meanwhile. At last, its memory is freed with it.
OUTLIVES = """
free = d.cuMemGetInfo()[1]
plain = call("cuMemAlloc", UNIT)
call("cuDevicePrimaryCtxRelease", 0)
states = [d.cuDevicePrimaryCtxGetState(0)[2], int(d.cuDevicePrimaryCtxRelease(0)[0])]
call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", 0))
call("cuMemcpyDtoH", back, reserved[0], UNIT)
print(back == b"\x5a" * UNIT, states)
call("cuDevicePrimaryCtxRelease", 0)
call("cuMemRelease", handle)
call("cuMemRelease", again)
call("cuMemUnmap", reserved[0], UNIT)
alive = int(d.cuMemGetInfo()[0])
call("cuMemUnmap", reserved[1], UNIT)
print(alive, int(d.cuMemGetInfo()[0]))
call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", 0))
print(d.cuMemGetInfo()[1] == free + UNIT, int(d.cuMemFree(plain)[0]))
"""

RESET = """
call("cuDevicePrimaryCtxReset", 0)
call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", 0))
print(int(d.cuMemcpyDtoH(back, reserved[0], UNIT)[0]))
"""


def run_without_context(environment, more: str = "") -> list[str]:
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_CONTEXT + more],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_memory_of_a_program_without_contexts_is_in_the_primary_context(environment):
    """The context stays inactive, because the program has not retained it."""
    assert run_without_context(environment) == ["True 0"]


def test_memory_outlives_the_last_release_of_the_primary_context(environment):
    """The context is closed when the last mapping of the memory is removed."""
    found = run_without_context(environment, OUTLIVES)[1:]
    assert found == [f"True [0, {INVALID_CONTEXT}]", f"0 {DESTROYED}", f"True {INVALID_VALUE}"]


def test_a_reset_of_the_primary_context_frees_the_memory(environment):
    assert run_without_context(environment, RESET)[1:] == [str(INVALID_VALUE)]


def test_new_memory_is_zero(cuda, properties):
    """No program sees what an earlier owner has left."""
    start = int(cuda.cuMemAddressReserve(UNIT, 0, 0, 0))
    for _ in range(2):
        handle = cuda.cuMemCreate(UNIT, properties, 0)
        cuda.cuMemMap(start, UNIT, 0, handle, 0)
        cuda.cuMemRelease(handle)
        assert set_access(cuda, start, UNIT, 3) == 0
        back = np.ones(UNIT, np.uint8)
        cuda.cuMemcpyDtoH(back, start, UNIT)
        assert not back.any()
        cuda.cuMemsetD8(start, 1, UNIT)
        cuda.cuMemUnmap(start, UNIT)
    cuda.cuMemAddressFree(start, UNIT)


def test_wrong_uses_are_refused(cuda, properties):
    start = int(cuda.cuMemAddressReserve(4 * UNIT, 0, 0, 0))
    handle = cuda.cuMemCreate(2 * UNIT, properties, 0)
    for size, alignment in ((0, 0), (UNIT + 4096, 0), (UNIT, 3)):
        assert cuda.code("cuMemAddressReserve", size, alignment, 0, 0) == INVALID_VALUE
    for arguments in (
        (start, UNIT + 1, 0),
        (start, UNIT, UNIT),
        (start + 5, UNIT, 0),
        (start + 3 * UNIT, 2 * UNIT, 0),
        (start, 3 * UNIT, 0),
        (start - UNIT, UNIT, 0),
        (0x1000, UNIT, 0),
    ):
        assert cuda.code("cuMemMap", *arguments, handle, 0) == INVALID_VALUE, arguments
    cuda.cuMemMap(start, 2 * UNIT, 0, handle, 0)
    for where, size in ((start, UNIT), (start, 3 * UNIT), (start + UNIT, UNIT), (start, 0)):
        assert set_access(cuda, where, size, 3) == INVALID_VALUE
        assert cuda.code("cuMemUnmap", where, size) == INVALID_VALUE
    assert set_access(cuda, start, 2 * UNIT, 1) == NOT_SUPPORTED
    assert cuda.code("cuMemCreate", UNIT + 1, properties, 0) == INVALID_VALUE
    properties.location.type = cuda.CUmemLocationType(2)
    assert cuda.code("cuMemCreate", UNIT, properties, 0) == NOT_SUPPORTED
    cuda.cuMemUnmap(start, 2 * UNIT)
    cuda.cuMemRelease(handle)
    cuda.cuMemAddressFree(start, 4 * UNIT)


def test_a_destroyed_context_takes_its_memory_along(cuda, properties):
    start = int(cuda.cuMemAddressReserve(UNIT, 0, 0, 0))
    free = int(cuda.cuMemGetInfo()[0])
    other = cuda.cuCtxCreate(None, 0, 0)
    handle = cuda.cuMemCreate(UNIT, properties, 0)
    cuda.cuMemMap(start, UNIT, 0, handle, 0)
    assert set_access(cuda, start, UNIT, 3) == 0
    cuda.cuCtxDestroy(other)
    assert int(cuda.cuMemGetInfo()[0]) == free
    assert cuda.code("cuMemsetD8", start, 1, 1) == INVALID_VALUE
    cuda.cuMemUnmap(start, UNIT)
    cuda.cuMemRelease(handle)
    cuda.cuMemAddressFree(start, UNIT)
