"""Times a matrix product inside a slice: ``FILE KERNEL ORDER TIMES`` prints the best seconds."""

import ctypes
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.driver_api import Argument, Driver


def main() -> None:
    """Launch, compare and print."""
    path, kernel, order, times = sys.argv[1:]
    n = int(order)
    driver = Driver()
    random = np.random.default_rng(50)
    a, b = (random.random((n, n), np.float32) for _ in range(2))
    c = np.zeros_like(a)
    pointers = [driver.upload(array) for array in (a, b, c)]
    arguments: list[Argument] = [*pointers, ctypes.c_int(n)]
    function = driver.kernel(Path(path).read_bytes(), kernel)
    best = float("inf")
    for _ in range(int(times)):
        begun = time.perf_counter()
        driver.run(function, (n // 32, n // 8), (32, 8), arguments)
        best = min(best, time.perf_counter() - begun)
    driver.download(pointers[2], c)
    if not np.allclose(c, a @ b, rtol=1e-4):
        sys.exit("the product is wrong")
    print(best)


if __name__ == "__main__":
    main()
