"""Launches a kernel whose blocks read pages of a buffer that a hash chooses.

usage: hashed_pages.py HASH.PTX WAY PAGES. WAY is how the buffer is allocated: alloc, freed (where
larger buffers were freed) or pool. A page has 1 KiB. It needs only libcuda.so.1.
"""

import ctypes
import sys
from pathlib import Path

CUDA = ctypes.CDLL("libcuda.so.1")
BLOCKS, THREADS = 4096, 256


def call(name: str, *arguments: object) -> None:
    """Call a function of the driver API, which must succeed."""
    status = getattr(CUDA, name)(*arguments)
    assert status == 0, (name, status)


def allocate(way: str, size: int) -> ctypes.c_uint64:
    """Return a buffer of ``size`` bytes."""
    buffer = ctypes.c_uint64()
    if way == "pool":
        call("cuMemAllocAsync", ctypes.byref(buffer), ctypes.c_size_t(size), None)
        return buffer
    if way == "freed":
        freed = [ctypes.c_uint64() for _ in range(2)]
        for pointer, bytes_ in zip(freed, (size // 64, 3 * size), strict=True):
            call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(bytes_))
        for pointer in freed:
            call("cuMemFree_v2", pointer)
    call("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(size))
    return buffer


def main() -> None:
    """Launch the kernel once, and wait for its end."""
    device, context, module, kernel = ctypes.c_int(), *(ctypes.c_void_p() for _ in range(3))
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), Path(sys.argv[1]).read_bytes() + b"\0")
    call("cuModuleGetFunction", ctypes.byref(kernel), module, b"k")
    pages = int(sys.argv[3])
    source = allocate(sys.argv[2], 1024 * pages)
    target = allocate("alloc", 4 * BLOCKS * THREADS)
    arguments = [source, target, ctypes.c_uint32(pages)]
    places = (ctypes.c_void_p * 3)(*(ctypes.addressof(argument) for argument in arguments))
    call("cuLaunchKernel", kernel, BLOCKS, 1, 1, THREADS, 1, 1, 0, None, places, None)
    call("cuCtxSynchronize")


if __name__ == "__main__":
    main()
