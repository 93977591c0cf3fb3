"""Measures seconds per element of two kernels in many block shapes and sizes, inside a slice;
prints JSON.
"""

import ctypes
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.driver_api import Argument, Driver
from benchmarks.exec import plans
from benchmarks.exec.catalogue import CONTESTS
from benchmarks.exec.contest import KERNELS, Launch
from vgpu_sim.exec import jit

_SHAPES = {"32x8": (32, 8), "8x32": (8, 32), "16x16": (16, 16)}
_AWKWARD = {"24x8": (24, 8), "12x16": (12, 16), "7x33": (7, 33)}
_SIZES = (1000, 1023)
_ORDER = {"sgemm_naive": 1008, "stencil5": 2016}  # divisible by 24, 12, 7 and 16
_CONTESTS = {"sgemm_naive": "sgemm-naive", "stencil5": "stencil5"}


def _launcher(
    driver: Driver, kernel: str, order: int, block: tuple[int, int]
) -> Callable[[], None]:
    random = np.random.default_rng(60)
    arrays = [random.random((order, order), np.float32) for _ in range(3)]
    buffers = arrays if kernel == "sgemm_naive" else arrays[:2]
    arguments: list[Argument] = [*(driver.upload(a) for a in buffers), ctypes.c_int(order)]
    function = driver.kernel((KERNELS / f"{kernel}.ptx").read_bytes(), kernel)
    grid = (-(-order // block[0]), -(-order // block[1]))
    return lambda: driver.run(function, grid, block, arguments)


def _through_the_worker(rounds: int) -> dict[str, dict[str, float]]:
    driver = Driver()
    kernel_times: dict[str, dict[str, float]] = {}
    for kernel, order in _ORDER.items():
        work = 3 if kernel == "sgemm_naive" else 2
        runs = {
            name: (_launcher(driver, kernel, order, block), order**work)
            for name, block in {**_SHAPES, **_AWKWARD}.items()
        }
        for size in _SIZES:
            runs[str(size)] = (_launcher(driver, kernel, size, (32, 8)), size**work)
        best = dict.fromkeys(runs, float("inf"))
        for _ in range(rounds):
            for name, (run, elements) in runs.items():
                run()
                begun = time.perf_counter()
                run()
                best[name] = min(best[name], (time.perf_counter() - begun) / elements)
        kernel_times[kernel] = best
    return kernel_times


def _against_lanes_alone(rounds: int) -> dict[str, float]:
    ratios = {}
    for kernel, contest in _CONTESTS.items():
        if contest not in CONTESTS:
            contest = next(name for name, c in CONTESTS.items() if c.source == kernel)
        bench = plans.Bench(CONTESTS[contest])
        (launch,) = bench.launches
        order = next(int(a) for a in launch.arguments if not isinstance(a, str))
        for name, (x, y) in _AWKWARD.items():
            shaped: Launch = replace(
                launch, grid=(-(-order // x), -(-order // y), 1), block=(x, y, 1)
            )
            times = plans.race(bench, shaped, [jit.Plan(1, 1)], rounds)
            chosen = next(t.seconds for t in times if t.chosen)
            alone = min(t.seconds for t in times if t.plan.width * t.plan.vectors == 1)
            ratios[f"{kernel} in {name}"] = alone / chosen
        bench.close()
    return ratios


def main() -> None:
    """Print the figures of both kernels."""
    rounds = int(sys.argv[1])
    figures = {"worker": _through_the_worker(rounds), "alone": _against_lanes_alone(min(rounds, 5))}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
