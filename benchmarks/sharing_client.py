"""One sharer of a slice: launches a matrix product for a while and prints the number of launches.

It prints "ready" when its kernel has run once, and starts when it reads a line, so that all
start together.
"""

import ctypes
import sys
import time

import numpy as np

from benchmarks.driver_api import Argument, Driver
from benchmarks.on_slice import REPOSITORY

ORDER = 512


def main() -> None:
    """Take the seconds to work as the argument; print the launches per second."""
    seconds = float(sys.argv[1])
    driver = Driver()
    random = np.random.default_rng(1)
    a, b = (random.random((ORDER, ORDER), dtype=np.float32) for _ in range(2))
    back = np.full_like(a, np.nan)
    kernel = driver.kernel((REPOSITORY / "examples/sgemm.ptx").read_bytes(), "sgemm")
    pointers = [driver.upload(array) for array in (a, b, back)]
    arguments: list[Argument] = [*pointers, *(ctypes.c_int(ORDER) for _ in range(3))]

    def once() -> None:
        driver.run(kernel, (ORDER // 32, ORDER // 8), (32, 8), arguments)

    once()
    driver.download(pointers[2], back)
    if not np.allclose(back, np.matmul(a, b), rtol=1e-4):
        sys.exit("sgemm is wrong")
    print("ready", flush=True)
    sys.stdin.readline()
    begin, launch_count = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        once()
        launch_count += 1
    print(launch_count / (time.perf_counter() - begin), flush=True)


if __name__ == "__main__":
    main()
