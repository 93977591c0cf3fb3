"""Measures, inside a slice, the time from a module's text to the end of its kernel's first launch.

``python -m benchmarks.exec.start_client REST FILE KERNEL BLOCK_X BLOCK_Y [n]`` waits for REST
seconds before it creates a context, and prints the seconds of load and launch. The kernel gets
pointers to zeros, then ``n`` if it is given. ``corpus FOLDER`` instead prints a line of JSON for
each kernel that has a case in the tests' support.
"""

import ctypes
import json
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.driver_api import Driver

_BYTES = 1 << 22


def first_launch(path: Path, kernel: str, block: tuple[int, int], numbers: list[int]) -> float:
    """Return the seconds of load, look-up, first launch and wait."""
    driver = Driver()
    text = path.read_bytes()
    pointers = text.split(b".entry", 1)[1].split(b")", 1)[0].count(b".u64")
    data = driver.upload(np.zeros(_BYTES, np.uint8))
    arguments = [*[data] * pointers, *map(ctypes.c_int, numbers)]
    begun = time.perf_counter()
    function = driver.kernel(text, kernel)
    driver.run(function, (1, 1), block, arguments)
    return time.perf_counter() - begun


def corpus(folder: Path) -> None:
    """Print file, kernel and the seconds of load and first launch for each case."""
    from support.programs.client_kernels import cases, gpu

    device = gpu.Gpu()
    launch = gpu.Program.run
    seconds = 0.0

    def time_call(*arguments: object, **options: object) -> list[np.ndarray]:
        nonlocal seconds
        begun = time.perf_counter()
        try:
            arrays: list[np.ndarray] = launch(*arguments, **options)
            return arrays
        finally:
            seconds = seconds or time.perf_counter() - begun

    gpu.Program.run = time_call
    for file, kernels in cases.CASES.items():
        begun = time.perf_counter()
        try:
            program = device.load(folder / f"{file}.sm_90.ptx")
        except gpu.DriverError as err:
            _say(file, "", 0, str(err))
            continue
        loaded = time.perf_counter() - begun
        for name, case in kernels.items():
            seconds, outcome = 0.0, ""
            try:
                case(program)
            except (gpu.DriverError, AssertionError) as err:
                outcome = f"{type(err).__name__}: {str(err)[:80]}"
            _say(file, name, loaded + seconds, outcome)


def _say(file: str, kernel: str, seconds: float, outcome: str) -> None:
    print(f"\n{json.dumps([file, kernel, seconds, outcome])}", flush=True)


def main() -> None:
    """Run the measurement that the arguments select."""
    if sys.argv[1] == "corpus":
        corpus(Path(sys.argv[2]))
        return
    rest_s, path, kernel, x, y, *numbers = sys.argv[1:]
    time.sleep(float(rest_s))
    print(first_launch(Path(path), kernel, (int(x), int(y)), [int(n) for n in numbers]))


if __name__ == "__main__":
    main()
