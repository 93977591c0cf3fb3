"""Times many launches of one kernel inside a slice; prints seconds as JSON.

``python -m benchmarks.sampling_client LAUNCHES ELEMENTS ORDER`` under ``tessera run``, with either
clock. Compilation is over before anything is timed; results are compared with numpy's.
"""

import ctypes
import json
import sys
import time

import numpy as np

from benchmarks.driver_api import Argument, Driver
from benchmarks.on_slice import REPOSITORY
from benchmarks.throughput_client import WrongResult

_EXAMPLES = REPOSITORY / "examples"


def time_launches(
    driver: Driver,
    name: str,
    grid: tuple[int, int],
    block: tuple[int, int],
    arguments: list[Argument],
    launches: int,
) -> dict[str, float]:
    """Return the seconds of the first launch of a shape, and of all launches with it."""
    kernel = driver.kernel((_EXAMPLES / f"{name}.ptx").read_bytes(), name)
    # compiled; a different shape for the modelled clock
    driver.run(kernel, (1, 1), block, arguments)
    once = driver.prepare(kernel, (*grid, 1, *block, 1), arguments)
    begin = time.perf_counter()
    once()
    driver.wait()
    first = time.perf_counter() - begin
    for _ in range(launches - 1):
        once()
    driver.wait()
    return {"first": first, "all": time.perf_counter() - begin}


def addition(driver: Driver, elements: int, launches: int) -> dict[str, float]:
    """Time the addition c = a + b. Raises WrongResult."""
    random = np.random.default_rng(1)
    a, b = (random.random(elements, dtype=np.float32) for _ in range(2))
    back = np.full_like(a, np.nan)
    pointers = [driver.upload(array) for array in (a, b, back)]
    arguments: list[Argument] = [*pointers, ctypes.c_int(elements)]
    times = time_launches(driver, "vecadd", (-(-elements // 256), 1), (256, 1), arguments, launches)
    driver.download(pointers[2], back)
    if not np.array_equal(back, a + b):
        raise WrongResult("vecadd")
    return times


def product(driver: Driver, order: int, launches: int) -> dict[str, float]:
    """Time the textbook matrix product. Raises WrongResult."""
    random = np.random.default_rng(2)
    a, b = (random.random((order, order), dtype=np.float32) for _ in range(2))
    back = np.full_like(a, np.nan)
    pointers = [driver.upload(array) for array in (a, b, back)]
    arguments: list[Argument] = [*pointers, *(ctypes.c_int(order) for _ in range(3))]
    grid = (-(-order // 32), -(-order // 8))
    times = time_launches(driver, "sgemm", grid, (32, 8), arguments, launches)
    driver.download(pointers[2], back)
    if not np.allclose(back, a @ b, rtol=1e-4):
        raise WrongResult("sgemm")
    return times


def main() -> None:
    """Measure both and print."""
    launches, elements, order = map(int, sys.argv[1:])
    driver = Driver()
    times = {
        "vecadd": addition(driver, elements, launches),
        "sgemm": product(driver, order, launches),
    }
    print(json.dumps(times))


if __name__ == "__main__":
    main()
