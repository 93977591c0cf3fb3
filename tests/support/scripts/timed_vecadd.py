"""Times copies and launches of vecadd by CUDA events: a program for ``tessera run``, and for pods.

usage: timed_vecadd.py VECADD.PTX. Prints JSON: ``events_us``, the times between events around a
copy from page-locked memory, one from ordinary memory and two launches; and ``wall_us``, the
machine's wall-clock time of a third launch. It needs only libcuda.so.1.
"""

import ctypes
import itertools
import json
import sys
import time
from pathlib import Path

COUNT = 1 << 19
SIZE = ctypes.c_size_t(4 * COUNT)
CUDA = ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: object) -> None:
    """Call a function of the driver API, which must succeed."""
    status = getattr(CUDA, name)(*arguments)
    assert status == 0, (name, status)


def kernel_of(ptx: bytes) -> ctypes.c_void_p:
    """Return vecadd in the first device's primary context, which becomes the current one."""
    device, context, module, kernel = ctypes.c_int(), *(ctypes.c_void_p() for _ in range(3))
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), ptx + b"\0")
    call("cuModuleGetFunction", ctypes.byref(kernel), module, b"vecadd")
    return kernel


def launch(kernel: ctypes.c_void_p, buffers: list[ctypes.c_uint64]) -> None:
    """Add the first two buffers into the third."""
    arguments = [*buffers, ctypes.c_int(COUNT)]
    pointers = (ctypes.c_void_p * 4)(*(ctypes.addressof(one) for one in arguments))
    call("cuLaunchKernel", kernel, COUNT // 256, 1, 1, 256, 1, 1, 0, None, pointers, None)


def main() -> None:
    """Time copies and launches, and print the results."""
    kernel = kernel_of(Path(sys.argv[1]).read_bytes())
    buffers = [ctypes.c_uint64() for _ in range(3)]
    for one in buffers:
        call("cuMemAlloc_v2", ctypes.byref(one), SIZE)
    pinned, plain = ctypes.c_void_p(), ctypes.create_string_buffer(4 * COUNT)
    call("cuMemAllocHost_v2", ctypes.byref(pinned), SIZE)
    events = [ctypes.c_void_p() for _ in range(5)]
    for event in events:
        call("cuEventCreate", ctypes.byref(event), 0)
    call("cuEventRecord", events[0], None)
    call("cuMemcpyHtoDAsync_v2", buffers[0], pinned, SIZE, None)
    call("cuEventRecord", events[1], None)
    call("cuMemcpyHtoD_v2", buffers[1], plain, SIZE)
    call("cuEventRecord", events[2], None)
    for event in events[3:]:
        launch(kernel, buffers)
        call("cuEventRecord", event, None)
    call("cuEventSynchronize", events[4])
    began = time.perf_counter()
    launch(kernel, buffers)
    call("cuCtxSynchronize")
    wall_us = 1e6 * (time.perf_counter() - began)
    events_us = []
    for first, second in itertools.pairwise(events):
        ms = ctypes.c_float()
        call("cuEventElapsedTime", ctypes.byref(ms), first, second)
        events_us.append(round(1e3 * ms.value, 2))
    print(json.dumps({"events_us": events_us, "wall_us": wall_us}))


if __name__ == "__main__":
    main()
