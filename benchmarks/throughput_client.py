"""Runs Tessera's kernels and their opponents alternately inside a slice; prints the best times as
JSON.

``python -m benchmarks.throughput_client OPPONENTS.so`` under ``tessera run``. Every result is
compared with numpy's before anything is timed.
"""

import ctypes
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.driver_api import Argument, Driver
from benchmarks.on_slice import REPOSITORY, cores

ROUNDS = 30
ELEMENTS = 1 << 24
ORDER = 1024
PEAK_ROUNDS = 4_000_000
# OpenBLAS' threads spin for a while after their work, which must not slow the next contender.
_SETTLE_S = 0.06
_EXAMPLES = REPOSITORY / "examples"

Contender = Callable[[], float]


class WrongResult(Exception):
    """A kernel's result differs from numpy's."""


def time_work(work: Callable[[], object]) -> Contender:
    """Return a contender that returns the seconds of one call of ``work``."""

    def once() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return once


def best(contenders: dict[str, Contender]) -> dict[str, float]:
    """Return each contender's best time in seconds: alternating, each warmed up in every round."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, contender in contenders.items():
            time.sleep(_SETTLE_S)
            contender()
            times[name].append(contender())
    return {name: min(measured) for name, measured in times.items()}


def vector_addition(driver: Driver, opponents: ctypes.CDLL) -> dict[str, Contender]:
    """c = a + b on 16 Mi elements: a launch of 256-thread blocks against an OpenMP loop."""
    random = np.random.default_rng(1)
    a, b = (random.random(ELEMENTS, dtype=np.float32) for _ in range(2))
    native, back = np.zeros_like(a), np.full_like(a, np.nan)
    kernel = driver.kernel((_EXAMPLES / "vecadd.ptx").read_bytes(), "vecadd")
    pointers = [driver.upload(array) for array in (a, b, back)]
    arguments: list[Argument] = [*pointers, ctypes.c_int(ELEMENTS)]
    # data_as keeps the arrays alive as long as their addresses.
    addresses = [array.ctypes.data_as(ctypes.c_void_p) for array in (a, b, native)]

    def ours() -> None:
        driver.run(kernel, (ELEMENTS // 256, 1), (256, 1), arguments)

    def openmp() -> None:
        opponents.vecadd(*addresses, ctypes.c_long(ELEMENTS), ctypes.c_int(cores()))

    ours()
    openmp()
    driver.download(pointers[2], back)
    if not np.array_equal(back, a + b) or not np.array_equal(native, back):
        raise WrongResult("vecadd")
    return {"vecadd": time_work(ours), "openmp": time_work(openmp)}


def matrix_product(driver: Driver) -> dict[str, Contender]:
    """The textbook kernel in blocks of 32 x 8 against numpy's BLAS, both f32 1024 x 1024."""
    random = np.random.default_rng(2)
    a, b = (random.random((ORDER, ORDER), dtype=np.float32) for _ in range(2))
    product, back = np.zeros_like(a), np.full_like(a, np.nan)
    kernel = driver.kernel((_EXAMPLES / "sgemm.ptx").read_bytes(), "sgemm")
    pointers = [driver.upload(array) for array in (a, b, back)]
    arguments: list[Argument] = [*pointers, *(ctypes.c_int(ORDER) for _ in range(3))]

    def ours() -> None:
        driver.run(kernel, (ORDER // 32, ORDER // 8), (32, 8), arguments)

    def blas() -> None:
        np.matmul(a, b, out=product)

    ours()
    blas()
    driver.download(pointers[2], back)
    if not np.allclose(back, product, rtol=1e-4):
        raise WrongResult("sgemm")
    return {"sgemm": time_work(ours), "blas": time_work(blas)}


def peaks(opponents: ctypes.CDLL) -> dict[str, Contender]:
    """f32 FMA on all cores, with vectors of 32 and of 64 bytes: seconds for 1 GFLOP."""

    def contender(name: str) -> Contender:
        function = opponents[name]
        function.restype = ctypes.c_double

        def once() -> float:
            flops = ctypes.c_double()
            seconds = function(
                ctypes.c_long(PEAK_ROUNDS), ctypes.c_int(cores()), ctypes.byref(flops)
            )
            return float(seconds / (flops.value * 1e-9))

        return once

    return {name: contender(name) for name in ("fma_peak_32", "fma_peak_64")}


def main() -> None:
    """Measure everything and print it."""
    opponents = ctypes.CDLL(str(Path(sys.argv[1])))
    driver = Driver()
    contenders = {
        **vector_addition(driver, opponents),
        **matrix_product(driver),
        **peaks(opponents),
    }
    print(json.dumps(best(contenders)))


if __name__ == "__main__":
    main()
