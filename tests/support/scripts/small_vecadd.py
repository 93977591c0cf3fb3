"""Adds two vectors on the first device: a program for pods that need not be the sample itself.

usage: small_vecadd.py [--n N] [--seconds S] [--hold S] [--seed SEED] [--ptx FILE]. The sample takes
more than a second of CPU time to import numpy and cuda.core; this program needs only libcuda.so.1.
It prints "running" after the first launch, and at the end the launches, the first element, and
"N results verified", as the sample does. Launches pause, so that the program leaves the processors
to others.
"""

import argparse
import array
import ctypes
import operator
import random
import sys
import time
from pathlib import Path

BLOCK = 256
PAUSE_S = 0.02


def call(name: str, *arguments: object) -> None:
    """Call a function of the driver API, which must succeed."""
    status = getattr(ctypes.CDLL("libcuda.so.1"), name)(*arguments)
    if status:
        sys.exit(f"{name}: status {status}")


def prepare(ptx: bytes) -> ctypes.c_void_p:
    """Return vecadd in the first device's primary context, which becomes the current one."""
    device, context, module, kernel = ctypes.c_int(), *(ctypes.c_void_p() for _ in range(3))
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), ptx + b"\0")
    call("cuModuleGetFunction", ctypes.byref(kernel), module, b"vecadd")
    return kernel


def draw(seed: int, count: int) -> "array.array[float]":
    """Return ``count`` random floats of single precision."""
    drawn = random.Random(seed)
    return array.array("f", (drawn.random() for _ in range(count)))


def copy_in(vector: "array.array[float]") -> ctypes.c_uint64:
    """Return device memory with the vector."""
    memory, size = ctypes.c_uint64(), ctypes.c_size_t(4 * len(vector))
    call("cuMemAlloc_v2", ctypes.byref(memory), size)
    call("cuMemcpyHtoD_v2", memory, ctypes.c_void_p(vector.buffer_info()[0]), size)
    return memory


def compute(kernel: ctypes.c_void_p, memory: list[ctypes.c_uint64], n: int, seconds: float) -> int:
    """Launch the kernel, and again for ``seconds``; return the number of launches."""
    arguments = [*memory, ctypes.c_int(n)]
    pointers = (ctypes.c_void_p * 4)(*(ctypes.addressof(one) for one in arguments))
    launches, end = 0, time.monotonic() + seconds
    while launches == 0 or time.monotonic() < end:
        if launches:
            time.sleep(PAUSE_S)
        call("cuLaunchKernel", kernel, -(-n // BLOCK), 1, 1, BLOCK, 1, 1, 0, None, pointers, None)
        call("cuCtxSynchronize")
        launches += 1
        if launches == 1:
            print("running", flush=True)
    return launches


def main() -> None:
    """Add the vectors, compare each element with the CPU's, and hold the device."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--hold", type=float, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ptx", type=Path, default=Path("vecadd.ptx"))
    options = parser.parse_args()
    kernel = prepare(options.ptx.read_bytes())
    inputs = [draw(2 * options.seed + which, options.n) for which in range(2)]
    result = array.array("f", bytes(4 * options.n))
    memory = [copy_in(one) for one in (*inputs, result)]
    launches = compute(kernel, memory, options.n, options.seconds)
    where = ctypes.c_void_p(result.buffer_info()[0])
    call("cuMemcpyDtoH_v2", where, memory[2], ctypes.c_size_t(4 * options.n))
    print(f"kernels  {launches} launches")
    # The sum of two floats is exact in double precision, so it is rounded once, as on the device.
    expected = array.array("f", map(operator.add, *inputs))
    if result != expected:
        sys.exit("results WRONG")
    print(f"first    {inputs[0][0]} + {inputs[1][0]} = {result[0]}")
    print(f"{options.n} results verified", flush=True)
    time.sleep(options.hold)


if __name__ == "__main__":
    main()
