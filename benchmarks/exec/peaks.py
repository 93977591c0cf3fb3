"""The measured peak of the cores; the ratio to it is the share of the peak that Tessera reaches."""

import ctypes
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.compile_c import OPPONENT_FLAGS, compile_c
from benchmarks.exec.contest import Work

FMA_PEAK, BF16_PEAK = "FMA peak", "bf16 dot peak"
_ROUNDS = 1_000_000
_WIDTHS = ("fma_peak_32", "fma_peak_64")


def fma_peak(flops: float) -> Callable[[], Work]:
    """Return a maker of work that takes as long as ``flops`` of f32 at the measured peak."""
    return _peak(flops, *_WIDTHS)


def bf16_peak(flops: float) -> Callable[[], Work]:
    """Return the same for bf16 dot products; on cores without them it is ``fma_peak``."""
    return _peak(flops, "bf16_peak", *_WIDTHS)


def _peak(flops: float, *names: str) -> Callable[[], Work]:
    def make() -> Work:
        with tempfile.TemporaryDirectory() as folder:
            library = compile_c("opponents.c", Path(folder) / "opponents.so", OPPONENT_FLAGS)
            functions = [ctypes.CDLL(str(library))[name] for name in names]
        threads = ctypes.c_int(len(os.sched_getaffinity(0)))

        def seconds(function: ctypes._CFuncPtr) -> float:
            operation_count = ctypes.c_double()
            function.restype = ctypes.c_double
            took = function(ctypes.c_long(_ROUNDS), threads, ctypes.byref(operation_count))
            return (
                float(took * flops / operation_count.value)
                if operation_count.value
                else float("inf")
            )

        return lambda: min(seconds(function) for function in functions)

    return make
