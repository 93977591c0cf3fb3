"""Inside a slice: runs litmus tests, and prints a line of JSON for each.

``python -m benchmarks.litmus.client RUNS SEED LIMIT_S NAME/SCOPE/STRENGTH...``, under
``tessera run``.
"""

import ctypes
import json
import sys
import time

import numpy as np

from benchmarks.driver_api import Driver
from benchmarks.litmus import kernels, proxies
from benchmarks.litmus.shapes import SHAPES

_EACH = 10_000  # runs of a launch
_COMPILING_S = 1.0  # after the first launch, whose code uses one CPU thread less
_ONE_THREAD = ("cta", "cluster")
_SHAPES = {shape.name: shape for shape in SHAPES}
_READERS = {reader.name: reader for reader in proxies.READERS}


def run(
    driver: Driver, name: str, scope: str, strength: str, runs: int, seed: int, limit_s: float
) -> tuple[int, int, int]:
    """Return the runs, those with the weak outcome, and those with an interleaved one.

    After ``runs`` of them it continues until one was weak or interleaved, or the time is over: a
    busy machine seldom runs two threads at the same time. It does not continue where one thread
    runs all that the scope contains.
    """
    shape, counts = _SHAPES[name], np.zeros(2, np.int64)
    blocks, threads = kernels.launch_shape(shape, scope)
    kernel = driver.kernel(kernels.source(shape, strength, scope).encode(), "k")
    results = np.zeros((min(runs, _EACH), kernels.RESULT_BYTES // 4), np.uint32)
    cells = np.zeros((len(results), kernels.CELL_BYTES // 4), np.uint32)
    counter = np.zeros(64, np.uint32)
    buffers = [driver.upload(array) for array in (cells, results, counter)]

    def launch(count: int, step: int) -> None:
        for pointer, array in zip(buffers, (cells, results, counter), strict=True):
            driver.fill(pointer, 0, array.nbytes)
        numbers = ctypes.c_int(count), ctypes.c_int(seed + step)
        driver.run(kernel, (blocks, 1), (threads, 1), [*buffers, *numbers])

    launch(1, 0)
    run_count, until = 0, time.monotonic()
    if scope not in _ONE_THREAD:
        time.sleep(_COMPILING_S)
        until = time.monotonic() + limit_s
    while run_count < runs or (not counts.any() and time.monotonic() < until):
        count = min(_EACH, runs - run_count) if run_count < runs else len(results)
        launch(count, run_count)
        driver.download(buffers[0], cells)
        driver.download(buffers[1], results)
        x, y = cells[:count, 0], cells[:count, kernels.Y_OFFSET // 4]
        run_results = results[:count]
        counts += [
            np.count_nonzero(outcome(run_results, x, y))
            for outcome in (shape.weak, shape.interleaved)
        ]
        run_count += count
    for pointer in buffers:
        driver.free(pointer)
    return run_count, int(counts[0]), int(counts[1])


def run_proxy(driver: Driver, name: str, fenced: bool, runs: int) -> int:
    """Return in how many runs the async proxy did not see the store.

    Raises:
        ValueError: a result is neither the value of a run nor the one before.
    """
    reader = _READERS[name]
    kernel = driver.kernel(proxies.source(reader, fenced).encode(), "k")
    results = np.zeros(runs, np.uint32)
    buffers = [driver.upload(results), driver.upload(np.zeros(64, np.uint32))]
    arguments = [*buffers, ctypes.c_int(runs)]
    driver.run(kernel, (1, 1), (proxies.THREADS, 1), arguments)
    driver.download(buffers[0], results)
    for pointer in buffers:
        driver.free(pointer)
    expected = (np.arange(runs) % 64 + 1) * reader.factor
    stale = results != expected
    if np.any(stale[1:] & (results[1:] != expected[:-1])):
        raise ValueError(f"{name}: neither the stored value nor the one before")
    return int(np.count_nonzero(stale))


def main() -> None:
    """Run the tests that the arguments name."""
    runs, seed, limit_s, *tests = sys.argv[1:]
    driver = Driver()
    for test in tests:
        name, scope, strength = test.split("/", 2)
        if name in _READERS:
            weak = run_proxy(driver, name, strength == proxies.FENCED, int(runs))
            counts = (int(runs), weak, 0)
        else:
            counts = run(driver, name, scope, strength, int(runs), int(seed), float(limit_s))
        print(json.dumps([name, scope, strength, *counts]), flush=True)


if __name__ == "__main__":
    main()
