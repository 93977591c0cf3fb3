"""A program for ``tessera run``: launches kernels until its standard input ends, then verifies.

Tests that observe a run while it computes end it themselves, so they do not depend on a
duration. Uses the parts of ``examples/vectoradd.py``; same exit status.
"""

import sys
import threading
from pathlib import Path

import numpy as np
import vectoradd
from cuda.core import Device, ObjectCode

COUNT = 2048
AFTERWARDS = 20  # launches after the signal: a run that no longer computes fails to verify


def main() -> int:
    """Compute with the first device."""
    signalled = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        signalled.set()

    threading.Thread(target=listen, daemon=True).start()
    device = Device(0)
    device.set_current()
    ptx = Path(vectoradd.__file__).with_name("vecadd.ptx")
    kernel = ObjectCode.from_ptx(str(ptx)).get_kernel("vecadd")
    half = vectoradd.prepare(device, COUNT, vectoradd.allocate_pinned, np.random.default_rng(0))
    left = AFTERWARDS
    while left:
        vectoradd.compute(half, kernel, 0)
        half.stream.sync()
        left -= signalled.is_set()
    half.host[2].copy_from(half.device[2], stream=half.stream)
    half.stream.sync()
    wrong, first = vectoradd.verify([half], "add")
    if wrong:
        print(first, file=sys.stderr)
        return 1
    print(f"{COUNT} results verified", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
