"""Times launches of a kernel whose iterations depend on memory, an argument and the block, by CUDA
events.

usage: timed_rounds.py ROUNDS.PTX. Prints JSON: microseconds of launches by argument, by memory
contents, and with one slow block. It needs only libcuda.so.1.
"""

import ctypes
import json
import sys
from pathlib import Path

CUDA = ctypes.CDLL("libcuda.so.1")
BLOCKS, THREADS = 256, 64


def call(name: str, *arguments: object) -> None:
    """Call a function of the driver API, which must succeed."""
    status = getattr(CUDA, name)(*arguments)
    assert status == 0, (name, status)


def main() -> None:
    """Time the launches and print the results."""
    device, context, module, kernel = ctypes.c_int(), *(ctypes.c_void_p() for _ in range(3))
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), Path(sys.argv[1]).read_bytes() + b"\0")
    call("cuModuleGetFunction", ctypes.byref(kernel), module, b"rounds")
    data, target = ctypes.c_uint64(), ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(data), ctypes.c_size_t(4 * BLOCKS))
    call("cuMemAlloc_v2", ctypes.byref(target), ctypes.c_size_t(4 * BLOCKS * THREADS))
    begin, end = ctypes.c_void_p(), ctypes.c_void_p()
    call("cuEventCreate", ctypes.byref(begin), 0)
    call("cuEventCreate", ctypes.byref(end), 0)

    def time(number: int, by_block: dict[int, int]) -> float:
        words = (ctypes.c_uint32 * BLOCKS)(*(by_block.get(block, 0) for block in range(BLOCKS)))
        call("cuMemcpyHtoD_v2", data, words, ctypes.c_size_t(4 * BLOCKS))
        arguments = [data, target, ctypes.c_uint32(number)]
        places = (ctypes.c_void_p * 3)(*(ctypes.addressof(one) for one in arguments))
        call("cuEventRecord", begin, None)
        call("cuLaunchKernel", kernel, BLOCKS, 1, 1, THREADS, 1, 1, 0, None, places, None)
        call("cuEventRecord", end, None)
        call("cuEventSynchronize", end)
        took = ctypes.c_float()
        call("cuEventElapsedTime", ctypes.byref(took), begin, end)
        return took.value * 1e3

    every = range(BLOCKS)
    print(
        json.dumps(
            {
                "argument": [time(10 << step, {}) for step in range(8)] + [time(200_000, {})],
                "memory": [time(1, dict.fromkeys(every, rounds)) for rounds in (10, 4000, 10)],
                "one": [time(1, {block: 4000}) for block in (0, 77, BLOCKS - 1)],
            }
        )
    )


if __name__ == "__main__":
    main()
