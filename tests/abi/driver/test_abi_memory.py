"""Allocation, copies, fills and pointer attributes, through cuda.bindings."""

import ctypes
import random
import threading

import numpy as np
import pytest

from support.kernels import ptx_kernels

INVALID_VALUE = 1
OUT_OF_MEMORY = 2
MIB = 1 << 20


def to_host(cuda, pointer: int, count: int) -> bytes:
    buffer = np.zeros(count, np.uint8)
    cuda.cuMemcpyDtoH(buffer, pointer, count)
    return buffer.tobytes()


@pytest.mark.parametrize("size", [1, 255, 257, 4096, MIB - 1, MIB, 5 * MIB + 3])
def test_what_is_copied_in_comes_back(cuda, size):
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    pointer = cuda.cuMemAlloc(size)
    cuda.cuMemcpyHtoD(pointer, data, size)
    assert to_host(cuda, pointer, size) == data.tobytes()
    cuda.cuMemFree(pointer)


def mappings(address: int, size: int) -> set[str]:
    """Return the permissions of all mappings in a range; a gap is "hole"."""
    found = set()
    with open("/proc/self/maps") as lines:
        for line in lines:
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            if start < address + size and end > address:
                if start > address:
                    found.add("hole")
                found.add(line.split()[1])
                size -= end - address
                address = end
    return found | ({"hole"} if size > 0 else set())


def memory_files() -> int:
    with open("/proc/self/maps") as lines:
        return sum("memfd:" in line for line in lines)


@pytest.mark.parametrize("name", ["cuMemAlloc", "cuMemHostAlloc"])
def test_freed_memory_leaves_no_hole_in_the_aperture(cuda, name):
    """A hole would let another mapping get device addresses."""
    size = 4 * MIB
    files = memory_files()
    pointer = int(cuda.cuMemAlloc(size) if name == "cuMemAlloc" else cuda.cuMemHostAlloc(size, 0))
    assert mappings(pointer, size) == {"---p" if name == "cuMemAlloc" else "rw-s"}
    assert memory_files() == files + 1
    cuda.cuMemFree(pointer) if name == "cuMemAlloc" else cuda.cuMemFreeHost(pointer)
    assert mappings(pointer, size) == {"---p"}
    assert memory_files() == files, "the client still maps it"


@pytest.mark.parametrize("size", [100, 3 * MIB])
def test_pinned_memory_keeps_its_flags(cuda, size):
    """Allocations with different flags do not share a chunk, those with equal flags do."""
    portable, mapped, combined = 1, 2, 4
    flags = [0, portable, 0, combined, portable, portable | combined, 0]
    pointers = [int(cuda.cuMemHostAlloc(size, flag)) for flag in flags]
    assert [cuda.cuMemHostGetFlags(one) for one in pointers] == [one | mapped for one in flags]
    if size < MIB:
        assert len({one // (2 * MIB) for one in pointers}) == len(set(flags))
    for pointer in pointers:
        cuda.cuMemFreeHost(pointer)


@pytest.mark.parametrize("width", [1, 2, 4])
def test_fills_begin_at_multiples_of_their_width(cuda, width):
    pointer = int(cuda.cuMemAlloc(64))
    for offset in range(8):
        code = cuda.code(f"cuMemsetD{8 * width}", pointer + offset, 1, 3)
        assert code == (0 if offset % width == 0 else INVALID_VALUE), offset


@pytest.mark.parametrize("size", [4096, 1 * MIB])
def test_asynchronous_copies_of_pinned_memory_do_not_wait(cuda, size):
    """The kernel before them in the stream ends only after they have returned."""
    flag, pinned = int(cuda.cuMemHostAlloc(4, 0)), int(cuda.cuMemHostAlloc(size, 0))
    device = [int(cuda.cuMemAlloc(size)) for _ in range(2)]
    ctypes.memset(flag, 0, 4)
    ctypes.memset(pinned, 65, size)
    image = ptx_kernels.ENDLESS.encode() + b"\0"
    endless = cuda.cuModuleGetFunction(cuda.cuModuleLoadData(image), b"endless")
    cuda.cuLaunchKernel(endless, 1, 1, 1, 1, 1, 1, 0, 0, ((flag,), (ctypes.c_void_p,)), 0)
    gave_up = threading.Timer(20, ctypes.memset, (flag, 1, 4))  # or a call that waits never returns
    gave_up.start()
    cuda.cuMemcpyHtoDAsync(device[0], pinned, size, 0)
    cuda.cuMemcpyDtoDAsync(device[1], device[0], size, 0)
    cuda.cuMemsetD8Async(device[0], 66, size, 0)
    cuda.cuMemcpyDtoHAsync(pinned, device[0], size, 0)
    assert ctypes.string_at(pinned, 1) == b"A", "the copies wait for the kernel"
    assert cuda.code("cuStreamQuery", 0) == 600
    gave_up.cancel()
    ctypes.memset(flag, 1, 4)
    cuda.cuStreamSynchronize(0)
    assert ctypes.string_at(pinned, size) == b"B" * size
    assert to_host(cuda, device[1], size) == b"A" * size


def test_the_memory_of_a_destroyed_context_is_free_at_once(cuda):
    free = cuda.cuMemGetInfo()[0]
    for _ in range(5):
        other = cuda.cuCtxCreate(None, 0, 0)
        for _ in range(4):
            cuda.cuMemAlloc(4 * MIB)
        cuda.cuModuleLoadData(ptx_kernels.ENDLESS.encode() + b"\0")
        assert cuda.cuMemGetInfo()[0] <= free - 16 * MIB
        cuda.cuCtxDestroy(other)
        assert cuda.cuMemGetInfo()[0] == free


def test_one_empty_chunk_of_small_blocks_is_kept(cuda):
    free = cuda.cuMemGetInfo()[0]
    for _ in range(2):
        cuda.cuMemFree(cuda.cuMemAlloc(256))
        assert cuda.cuMemGetInfo()[0] == free - 2 * MIB
    pointers = [cuda.cuMemAlloc(MIB - 1) for _ in range(6)]  # two of them fill a chunk
    assert cuda.cuMemGetInfo()[0] == free - 6 * MIB
    for pointer in pointers:
        cuda.cuMemFree(pointer)
    assert cuda.cuMemGetInfo()[0] == free - 2 * MIB


@pytest.mark.parametrize("size", [64, 3 * MIB])
@pytest.mark.parametrize("name", ["cuMemAlloc", "cuMemHostAlloc"])
def test_memory_is_not_freed_before_its_kernel_has_ended(cuda, name, size):
    image = ptx_kernels.SPIN.encode() + b"\0"
    spin = cuda.cuModuleGetFunction(cuda.cuModuleLoadData(image), b"spin")
    out = int(cuda.cuMemAlloc(size) if name == "cuMemAlloc" else cuda.cuMemHostAlloc(size, 0))
    values = (out, 5000), (ctypes.c_uint64, ctypes.c_uint32)
    cuda.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, 0, values, 0)
    done = cuda.cuEventCreate(2)
    cuda.cuEventRecord(done, 0)
    cuda.cuMemFree(out) if name == "cuMemAlloc" else cuda.cuMemFreeHost(out)
    assert cuda.code("cuEventQuery", done) == 0


def test_fresh_memory_of_a_chunk_is_zero(cuda):
    pointer = cuda.cuMemAlloc(4 * MIB)
    assert to_host(cuda, pointer, 4 * MIB) == bytes(4 * MIB)


def test_allocations_are_aligned_and_disjoint(cuda):
    random.seed(1)
    live: dict[int, int] = {}
    for _ in range(400):
        if live and random.random() < 0.4:
            pointer = random.choice(list(live))
            del live[pointer]
            cuda.cuMemFree(pointer)
            continue
        size = random.choice([1, 100, 256, 300, 5000, 70_000, 600_000])
        pointer = int(cuda.cuMemAlloc(size))
        assert pointer % 512 == 0
        assert all(pointer + size <= p or p + s <= pointer for p, s in live.items())
        live[pointer] = size
    for pointer in live:
        cuda.cuMemFree(pointer)


def test_wrong_frees_are_refused_and_harm_nothing(cuda):
    pointer = int(cuda.cuMemAlloc(1000))
    other = int(cuda.cuMemAlloc(1000))
    large = int(cuda.cuMemAlloc(3 * MIB))
    pinned = int(cuda.cuMemHostAlloc(1000, 0))
    for wrong in (pointer + 256, pointer + 1, large + 2 * MIB, 0x1234, 1 << 60, pinned):
        assert cuda.code("cuMemFree", wrong) == INVALID_VALUE, hex(wrong)
    cuda.cuMemFree(pointer)
    assert cuda.code("cuMemFree", pointer) == INVALID_VALUE
    cuda.cuMemFree(large)
    assert cuda.code("cuMemFree", large) == INVALID_VALUE
    assert cuda.code("cuMemFreeHost", other) == INVALID_VALUE
    cuda.cuMemFree(0)
    data = np.full(1000, 7, np.uint8)
    cuda.cuMemcpyHtoD(other, data, 1000)
    assert to_host(cuda, other, 1000) == data.tobytes()


def test_a_freed_large_block_is_not_handed_out_at_once(cuda):
    first = int(cuda.cuMemAlloc(4 * MIB))
    cuda.cuMemFree(first)
    assert int(cuda.cuMemAlloc(4 * MIB)) != first


def test_copies_outside_of_an_allocation_are_refused(cuda):
    pointer = int(cuda.cuMemAlloc(1000))
    data = np.zeros(4096, np.uint8)
    for where, count in (
        (pointer, 1001),
        (pointer + 999, 2),
        (pointer - 1, 1),
        (pointer + 1000, 1),
    ):
        assert cuda.code("cuMemcpyHtoD", where, data, count) == INVALID_VALUE
        assert cuda.code("cuMemcpyDtoH", data, where, count) == INVALID_VALUE
        assert cuda.code("cuMemsetD8", where, 0, count) == INVALID_VALUE
    cuda.cuMemcpyHtoD(pointer, data, 1000)
    cuda.cuMemcpyHtoD(pointer, data, 0)


def test_host_addresses_are_no_device_addresses(cuda):
    data = np.zeros(4096, np.uint8)
    pointer = int(cuda.cuMemAlloc(4096))
    assert cuda.code("cuMemcpyHtoD", data.ctypes.data, data, 16) == INVALID_VALUE
    assert cuda.code("cuMemcpyDtoH", data, data.ctypes.data, 16) == INVALID_VALUE
    assert cuda.code("cuMemcpyDtoD", pointer, data.ctypes.data, 16) == INVALID_VALUE
    assert cuda.code("cuMemcpyHtoD", pointer, pointer, 16) == INVALID_VALUE
    assert cuda.code("cuMemsetD8", data.ctypes.data, 1, 16) == INVALID_VALUE
    assert cuda.code("cuMemcpyHtoD", 0, data, 16) == INVALID_VALUE


def test_zero_bytes_and_too_many(cuda):
    assert cuda.code("cuMemAlloc", 0) == INVALID_VALUE
    for name, flags in (("cuMemHostAlloc", (0,)), ("cuMemAllocHost", ())):
        assert int(getattr(cuda, name)(0, *flags)) == 0  # no memory, and no error
    assert cuda.code("cuMemHostAlloc", 0, 64) == INVALID_VALUE
    cuda.cuMemFreeHost(0)
    cuda.cuMemFree(0)
    assert cuda.code("cuMemAlloc", 1 << 45) == OUT_OF_MEMORY
    free, total = cuda.cuMemGetInfo()
    assert cuda.code("cuMemAlloc", total + MIB) == OUT_OF_MEMORY
    assert cuda.cuMemGetInfo()[0] == free


def test_memory_is_counted_and_comes_back(cuda):
    free, total = cuda.cuMemGetInfo()
    assert 0 < free <= total == int(cuda.cuDeviceTotalMem(0))
    pointer = cuda.cuMemAlloc(64 * MIB)
    assert free - int(cuda.cuMemGetInfo()[0]) >= 64 * MIB
    cuda.cuMemFree(pointer)
    assert int(cuda.cuMemGetInfo()[0]) == free


@pytest.mark.parametrize(("name", "width"), [("D8", 1), ("D16", 2), ("D32", 4)])
@pytest.mark.parametrize("form", ["", "Async"])
def test_fills(cuda, name, width, form):
    pointer = int(cuda.cuMemAlloc(4096))
    cuda.cuMemsetD8(pointer, 0xEE, 4096)
    value = 0x81726354 & ((1 << 8 * width) - 1)
    arguments = (pointer + 8, value, 100) + ((0,) if form else ())
    getattr(cuda, f"cuMemset{name}{form}")(*arguments)
    expected = b"\xee" * 8 + value.to_bytes(width, "little") * 100
    expected += b"\xee" * (4096 - len(expected))
    assert to_host(cuda, pointer, 4096) == expected
    if width > 1:
        assert cuda.code(f"cuMemset{name}", pointer + 1, 0, 1) == INVALID_VALUE


def test_copies_inside_the_device(cuda):
    a, b = int(cuda.cuMemAlloc(3 * MIB)), int(cuda.cuMemAlloc(3 * MIB))
    data = np.arange(3 * MIB // 4, dtype=np.uint32)
    cuda.cuMemcpyHtoD(a, data, data.nbytes)
    cuda.cuMemcpyDtoD(b + 4, a, data.nbytes - 4)
    assert to_host(cuda, b, data.nbytes) == bytes(4) + data[:-1].tobytes()
    stream = cuda.cuStreamCreate(1)
    cuda.cuMemcpyDtoDAsync(b, a + 8, 64, stream)
    cuda.cuStreamSynchronize(stream)
    assert to_host(cuda, b, 64) == data[2:18].tobytes()


@pytest.mark.parametrize("size", [64, 200_000, 4 * MIB])
def test_any_to_any(cuda, size):
    """cuMemcpy and cuMemcpyAsync determine the kinds of memory themselves."""
    pattern = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    inverse = ~pattern
    stream = cuda.cuStreamCreate(0)
    ends = {
        "device": int(cuda.cuMemAlloc(size)),
        "pinned": int(cuda.cuMemHostAlloc(size, 0)),
        "pageable": np.zeros(size, np.uint8),
    }
    address = {k: v if isinstance(v, int) else v.ctypes.data for k, v in ends.items()}
    for source in address.values():
        for target in address.values():
            if source == target:
                continue
            for asynchronous in (False, True):
                cuda.cuMemcpy(source, pattern.ctypes.data, size)
                cuda.cuMemcpy(target, inverse.ctypes.data, size)
                if asynchronous:
                    cuda.cuMemcpyAsync(target, source, size, stream)
                    cuda.cuStreamSynchronize(stream)
                else:
                    cuda.cuMemcpy(target, source, size)
                    cuda.cuStreamSynchronize(0)
                back = np.zeros(size, np.uint8)
                cuda.cuMemcpy(back.ctypes.data, target, size)
                assert (back == pattern).all()


def test_pinned_memory_is_ordinary_memory_of_the_host(cuda):
    pointer = int(cuda.cuMemHostAlloc(1000, 3))
    ctypes.memset(pointer, 0x5A, 1000)
    assert int(cuda.cuMemHostGetDevicePointer(pointer, 0)) == pointer
    assert cuda.cuMemHostGetFlags(pointer) & 3 == 3
    device = int(cuda.cuMemAlloc(1000))
    cuda.cuMemcpyDtoD(device, pointer, 1000)
    assert to_host(cuda, device, 1000) == b"\x5a" * 1000
    cuda.cuMemFreeHost(pointer)
    assert cuda.code("cuMemFreeHost", pointer) == INVALID_VALUE


def test_pointer_questions(cuda):
    device, pinned = int(cuda.cuMemAlloc(1000)), int(cuda.cuMemHostAlloc(1000, 0))
    attribute = cuda.CUpointer_attribute

    def ask(name, pointer):
        return int(
            cuda.cuPointerGetAttribute(getattr(attribute, f"CU_POINTER_ATTRIBUTE_{name}"), pointer)
        )

    assert ask("MEMORY_TYPE", device + 999) == 2
    assert ask("MEMORY_TYPE", pinned) == 1
    assert ask("DEVICE_POINTER", device + 5) == device + 5
    assert ask("HOST_POINTER", pinned + 5) == pinned + 5
    assert ask("RANGE_START_ADDR", device + 5) == device
    assert ask("RANGE_SIZE", device + 5) == 1000
    assert ask("DEVICE_ORDINAL", device) == 0
    assert ask("CONTEXT", device) == int(cuda.cuCtxGetCurrent())
    assert ask("BUFFER_ID", device) != ask("BUFFER_ID", pinned)
    memory_type = attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    for wrong in (device + 1000, device - 1, 0x1000, id(object())):
        assert cuda.code("cuPointerGetAttribute", memory_type, wrong) == INVALID_VALUE
    host_pointer = attribute.CU_POINTER_ATTRIBUTE_HOST_POINTER
    assert cuda.code("cuPointerGetAttribute", host_pointer, device) == INVALID_VALUE
    start, size = cuda.cuMemGetAddressRange(device + 10)
    assert (int(start), int(size)) == (device, 1000)


def test_several_pointer_questions_at_once(cuda, libraries):
    """The plural function accepts any pointer, but neither unknown attributes nor null results."""
    ask = ctypes.CDLL(str(libraries / "libcuda.so.1")).cuPointerGetAttributes
    memory_type, ordinal, unknown = 2, 9, 0x7FFF
    where = (ctypes.c_uint32 * 2)(7, 7)
    both = [ctypes.addressof(where), ctypes.addressof(where) + 4]

    def answer(attributes, places, pointer):
        status = ask(
            len(attributes),
            (ctypes.c_int * len(attributes))(*attributes),
            (ctypes.c_void_p * len(places))(*places),
            ctypes.c_uint64(pointer),
        )
        return status, tuple(where)

    device = int(cuda.cuMemAlloc(1000))
    refused = (INVALID_VALUE, (7, 7))
    assert answer([memory_type, unknown], both, device) == refused
    assert answer([memory_type, ordinal], [both[0], None], device) == refused
    assert answer([memory_type, ordinal], both, device + 999) == (0, (2, 0))
    assert answer([memory_type, ordinal], both, device + 1000) == (0, (0, 0xFFFFFFFE))


def test_a_device_pointer_faults_on_the_host(cuda, environment, compile_c):
    """Strict mode: the client never maps device memory at its own address."""
    device = int(cuda.cuMemAlloc(4096))
    with open("/proc/self/maps") as maps:
        for line in maps:
            bounds, permissions = line.split()[:2]
            low, high = (int(bound, 16) for bound in bounds.split("-"))
            if low <= device < high:
                assert permissions.startswith("---"), line
                return
    raise AssertionError("the aperture is not reserved")
