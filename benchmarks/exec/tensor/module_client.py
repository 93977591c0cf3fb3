"""Inside a slice: load one kernel of Triton's, launch it once, and print the seconds.

``python -m benchmarks.exec.tensor.module_client FILE [wait]`` under ``tessera run``. FILE.json
states the threads and the shared memory. Pointers are to zeros, and integers small. With ``wait``
the process ends when the cache has the kernel's best code.
"""

import ctypes
import json
import os
import re
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.driver_api import Argument, Driver

_BYTES, _SMALL = 16 << 20, 128
_PATIENCE_S, _STEP_S = 900.0, 0.1
_PARAMETER = re.compile(r"\.param \.(u64|u32|f32) ")


def first_launch(path: Path) -> float:
    """Return the seconds of load, look-up, first launch and wait."""
    driver = Driver()
    text = path.read_bytes()
    facts = json.loads(path.with_suffix(".json").read_text())
    data = driver.upload(np.zeros(_BYTES, np.uint8))
    name, _, signature = text.decode().split(".entry ", 1)[1].partition("(")
    kinds = {"u64": data, "u32": ctypes.c_int(_SMALL), "f32": ctypes.c_int(0)}
    arguments: list[Argument] = [kinds[k] for k in _PARAMETER.findall(signature.partition(")")[0])]
    begun = time.perf_counter()
    function = driver.function(driver.module(text), name, facts["shared"])
    driver.prepare(function, (1, 1, 1, facts["threads"], 1, 1), arguments, facts["shared"])()
    driver.wait()
    return time.perf_counter() - begun


def wait_for_best_code(folder: Path) -> bool:
    """Return whether the cache had code that is not the first tier's before the time was over."""
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        if any(not file.stem.endswith(".first") for file in folder.rglob("*.object")):
            return True
        time.sleep(_STEP_S)
    return False


def main() -> None:
    """Launch, and wait if that is wanted."""
    seconds = first_launch(Path(sys.argv[1]))
    if sys.argv[2:] == ["wait"] and not wait_for_best_code(Path(os.environ["XDG_CACHE_HOME"])):
        sys.exit(f"no better code after {_PATIENCE_S:.0f} s")
    print(seconds)


if __name__ == "__main__":
    main()
