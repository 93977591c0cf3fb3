"""Times a copy between two GPUs of a run by CUDA events: a program for ``tessera run --count 2``.

Prints JSON: ``event_us``, and ``right``: whether the bytes arrived.
"""

import ctypes
import json

SIZE = 4 << 20
CUDA = ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: object) -> None:
    """Call a function of the driver API, which must succeed."""
    status = getattr(CUDA, name)(*arguments)
    assert status == 0, (name, status)


def buffer_on(device: int) -> tuple[ctypes.c_void_p, ctypes.c_uint64]:
    """Return a device's primary context and memory in it; the context becomes the current one."""
    context, buffer = ctypes.c_void_p(), ctypes.c_uint64()
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), ctypes.c_int(device))
    call("cuCtxSetCurrent", context)
    call("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(SIZE))
    return context, buffer


def main() -> None:
    """Time the copy and print the result."""
    call("cuInit", 0)
    _, target = buffer_on(1)
    _, source = buffer_on(0)
    sent, arrived = bytes(range(256)) * (SIZE // 256), ctypes.create_string_buffer(SIZE)
    call("cuMemcpyHtoD_v2", source, sent, ctypes.c_size_t(SIZE))
    begin, end, ms = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float()
    for event in (begin, end):
        call("cuEventCreate", ctypes.byref(event), 0)
    call("cuEventRecord", begin, None)
    call("cuMemcpyDtoD_v2", target, source, ctypes.c_size_t(SIZE))
    call("cuEventRecord", end, None)
    call("cuEventSynchronize", end)
    call("cuEventElapsedTime", ctypes.byref(ms), begin, end)
    call("cuMemcpyDtoH_v2", arrived, target, ctypes.c_size_t(SIZE))
    print(json.dumps({"event_us": 1e3 * ms.value, "right": arrived.raw == sent}))


if __name__ == "__main__":
    main()
