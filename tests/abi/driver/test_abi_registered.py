"""Memory of the program that is registered (cuMemHostRegister)."""

import ctypes
import mmap
import os
import resource
import threading

import pytest

from support.kernels import ptx_kernels

INVALID_VALUE, NOT_SUPPORTED, ALREADY_REGISTERED, NOT_REGISTERED = 1, 801, 712, 713
OPERATING_SYSTEM = 304
PORTABLE, DEVICEMAP, IOMEMORY, READ_ONLY = 1, 2, 4, 8
MIB = 1 << 20
LIBC = ctypes.CDLL(None)
LIBC.malloc.restype = LIBC.mmap.restype = LIBC.mremap.restype = ctypes.c_void_p
LIBC.mremap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_void_p,
]
LIBC.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
LIBC.free.argtypes = [ctypes.c_void_p]


def anonymous(size: int, flags: int = mmap.MAP_PRIVATE) -> int:
    return LIBC.mmap(None, size, 3, flags | mmap.MAP_ANONYMOUS, -1, 0)


def free_bytes(cuda) -> int:
    return int(cuda.cuMemGetInfo()[0])


@pytest.mark.parametrize(("offset", "size"), [(0, 3 * MIB), (123, 70_000)])
def test_kernels_and_the_program_access_the_same_memory(cuda, offset, size):
    """First and last page hold bytes of others, which keep their content."""
    whole = (offset + size + 2 * 4096) // 4096 * 4096
    base = anonymous(whole)
    ctypes.memset(base, 7, whole)
    copy, ask = int(cuda.cuMemAlloc(size)), cuda.CUpointer_attribute
    begin, before = base + offset, free_bytes(cuda)
    cuda.cuMemHostRegister(begin, size, PORTABLE)
    assert free_bytes(cuda) < before, "it is charged to the slice"
    assert ctypes.string_at(base, whole) == b"\x07" * whole
    device = int(cuda.cuMemHostGetDevicePointer(begin, 0))
    assert int(cuda.cuMemHostGetDevicePointer(begin + 5, 0)) == device + 5
    assert int(cuda.cuMemHostGetFlags(begin)) == PORTABLE | DEVICEMAP
    cuda.cuMemsetD8(device, 9, size)
    expected = b"\x07" * offset + b"\x09" * size + b"\x07" * (whole - offset - size)
    assert ctypes.string_at(base, whole) == expected
    ctypes.memset(begin, 11, size)
    cuda.cuMemcpyDtoD(copy, device, size)
    ctypes.memset(begin, 0, size)
    cuda.cuMemcpyDtoHAsync(begin, copy, size, 0)
    cuda.cuStreamSynchronize(0)
    assert ctypes.string_at(begin, size) == b"\x0b" * size
    for pointer in (begin + 3, device + 3):
        for name, expected in (
            ("DEVICE_POINTER", device + 3),
            ("HOST_POINTER", begin + 3),
            ("MEMORY_TYPE", 1),
            ("RANGE_SIZE", size),
        ):
            attribute = getattr(ask, f"CU_POINTER_ATTRIBUTE_{name}")
            assert int(cuda.cuPointerGetAttribute(attribute, pointer)) == expected
    cuda.cuMemHostUnregister(begin)
    assert ctypes.string_at(begin, size) == b"\x0b" * size
    assert ctypes.string_at(base, offset) == b"\x07" * offset
    assert free_bytes(cuda) == before
    assert cuda.code("cuMemHostGetDevicePointer", begin, 0) == INVALID_VALUE
    assert cuda.code("cuMemcpyDtoD", copy, device, size) == INVALID_VALUE
    cuda.cuMemFree(copy)
    LIBC.munmap(base, whole)


def test_a_running_kernel_sees_what_the_program_writes(cuda):
    flag = anonymous(4096)
    cuda.cuMemHostRegister(flag + 64, 4, 0)
    device = int(cuda.cuMemHostGetDevicePointer(flag + 64, 0))
    image = ptx_kernels.ENDLESS.encode() + b"\0"
    endless = cuda.cuModuleGetFunction(cuda.cuModuleLoadData(image), b"endless")
    cuda.cuLaunchKernel(endless, 1, 1, 1, 1, 1, 1, 0, 0, ((device,), (ctypes.c_void_p,)), 0)
    assert cuda.code("cuStreamQuery", 0) == 600
    ctypes.memset(flag + 64, 1, 4)
    cuda.cuMemHostUnregister(flag + 64)  # waits for the kernel
    assert cuda.code("cuStreamQuery", 0) == 0


def test_neighbours_in_the_heap_share_pages(cuda):
    blocks = [LIBC.malloc(1000) for _ in range(20)]
    for number, block in enumerate(blocks):
        ctypes.memset(block, number, 1000)
        cuda.cuMemHostRegister(block, 1000, 0)
    for block in blocks[::2]:
        cuda.cuMemsetD8(int(cuda.cuMemHostGetDevicePointer(block, 0)), 200, 1000)
    for block in blocks[5:] + blocks[:5]:
        cuda.cuMemHostUnregister(block)
    for number, block in enumerate(blocks):
        expected = number if number % 2 else 200
        assert ctypes.string_at(block, 1000) == bytes([expected]) * 1000
        LIBC.free(block)


def test_wrong_uses_are_refused(cuda, capfd):
    memory = anonymous(4 * 4096)
    for pointer, size, flags in ((0, 1, 0), (memory, 0, 0), (memory, 1, 16), (1 << 60, 1, 0)):
        assert cuda.code("cuMemHostRegister", pointer, size, flags) == INVALID_VALUE
    for flags in (IOMEMORY, READ_ONLY):
        assert cuda.code("cuMemHostRegister", memory, 1, flags) == NOT_SUPPORTED
    assert cuda.code("cuMemHostUnregister", memory) == NOT_REGISTERED
    cuda.cuMemHostRegister(memory + 100, 100, 0)
    assert cuda.code("cuMemHostRegister", memory + 199, 100, 0) == ALREADY_REGISTERED
    assert cuda.code("cuMemHostUnregister", memory + 101) == INVALID_VALUE
    cuda.cuMemHostUnregister(memory + 100)
    assert cuda.code("cuMemHostUnregister", memory + 100) == NOT_REGISTERED
    pinned, device = int(cuda.cuMemHostAlloc(64, 0)), int(cuda.cuMemAlloc(64))
    assert cuda.code("cuMemHostRegister", pinned, 64, 0) == ALREADY_REGISTERED
    for address in (pinned, pinned + 3, 0):
        assert cuda.code("cuMemHostUnregister", address) == INVALID_VALUE
    assert cuda.code("cuMemHostUnregister", device) == NOT_REGISTERED
    assert cuda.code("cuMemHostRegister", device, 64, 0) == INVALID_VALUE
    shared = anonymous(4096, mmap.MAP_SHARED)
    assert cuda.code("cuMemHostRegister", shared, 4096, 0) == NOT_SUPPORTED
    assert "shared mapping" in capfd.readouterr().err
    LIBC.mprotect(memory, 4096, 1)
    assert cuda.code("cuMemHostRegister", memory, 8192, 0) == INVALID_VALUE
    LIBC.munmap(memory, 4 * 4096)
    assert cuda.code("cuMemHostRegister", memory, 4096, 0) == INVALID_VALUE


def test_memory_unmapped_while_registered_is_not_touched_later(cuda):
    memory = anonymous(4 * 4096)
    cuda.cuMemHostRegister(memory, 4 * 4096, 0)
    LIBC.munmap(memory, 4 * 4096)
    again = LIBC.mmap(memory, 4 * 4096, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    ctypes.memset(again, 5, 4 * 4096)
    if again == memory:
        assert cuda.code("cuMemHostRegister", memory, 1, 0) == ALREADY_REGISTERED
    cuda.cuMemHostUnregister(memory)
    assert ctypes.string_at(again, 4 * 4096) == b"\x05" * 4 * 4096


def test_memory_moved_while_registered_keeps_its_content(cuda):
    """mremap(2), as realloc() of large blocks calls it."""
    size, may_move_to = 4 * 4096, 1 | 2
    memory, place = anonymous(size), anonymous(size)
    ctypes.memset(memory, 6, size)
    before = free_bytes(cuda)
    cuda.cuMemHostRegister(memory, size, 0)
    assert LIBC.mremap(memory + 4096, 4096, 4096, may_move_to, place) == place
    cuda.cuMemHostUnregister(memory)
    assert free_bytes(cuda) == before
    assert ctypes.string_at(memory, 4096) == b"\x06" * 4096
    assert ctypes.string_at(place, 4096) == b"\x06" * 4096
    assert ctypes.string_at(memory + 8192, 8192) == b"\x06" * 8192


def test_without_a_descriptor_left_the_memory_keeps_its_content(cuda):
    memory = anonymous(4096)
    ctypes.memset(memory, 4, 4096)
    cuda.cuMemHostRegister(memory, 4096, 0)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, most[1]))
    try:
        result = cuda.code("cuMemHostUnregister", memory)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, most)
    assert result == OPERATING_SYSTEM
    assert ctypes.string_at(memory, 4096) == b"\x04" * 4096


def test_threads_that_write_meanwhile_lose_nothing(cuda):
    memory, size = anonymous(8 * MIB), 8 * MIB
    words = (ctypes.c_uint64 * (size // 8)).from_address(memory)
    done, written = threading.Event(), [0]

    def write() -> None:
        while not done.is_set():
            written[0] += 1
            words[written[0] * 4099 % len(words)] = written[0]

    thread = threading.Thread(target=write)
    thread.start()
    for _ in range(5):
        cuda.cuMemHostRegister(memory, size, 0)
        cuda.cuMemHostUnregister(memory)
    done.set()
    thread.join()
    wrong = [
        n
        for n in range(max(1, written[0] - len(words) + 1), written[0] + 1)
        if words[n * 4099 % len(words)] != n
    ]
    assert not wrong
    assert written[0] > 100


def test_a_forked_child_has_a_copy(cuda):
    memory = anonymous(8192)
    ctypes.memset(memory, 1, 8192)
    cuda.cuMemHostRegister(memory + 1000, 3000, 0)
    child = os.fork()
    if child == 0:
        ctypes.memset(memory, 2, 8192)
        grandchild = os.fork()  # a fork server's
        if grandchild == 0:
            os._exit(0)
        assert os.waitpid(grandchild, 0)[1] == 0
        os._exit(ctypes.string_at(memory, 8192) != b"\x02" * 8192)
    assert os.waitpid(child, 0)[1] == 0
    assert ctypes.string_at(memory, 8192) == b"\x01" * 8192
    cuda.cuMemHostUnregister(memory + 1000)
