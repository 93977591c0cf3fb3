"""Kernels through libcuda on device memory, against native code, BLAS and the cores' peak."""

import json
import sys
import tempfile
from pathlib import Path

from benchmarks import on_slice
from benchmarks.compile_c import OPPONENT_FLAGS, compile_c
from benchmarks.report import Row, Section
from benchmarks.throughput_client import ELEMENTS, ORDER

NAME = "throughput"
_BYTES = 3 * 4 * ELEMENTS
_FLOPS = 2 * ORDER**3


def measure() -> Section:
    """Run all contenders on a slice. Raises ProgramFailed, CompilerMissing."""
    with tempfile.TemporaryDirectory() as name:
        library = compile_c("opponents.c", Path(name) / "opponents.so", OPPONENT_FLAGS)
        threads = str(on_slice.cores())
        environment = {
            "OMP_WAIT_POLICY": "passive",  # spinning threads would occupy cores that others need
            "OMP_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
        }
        command = [sys.executable, "-m", "benchmarks.throughput_client", str(library)]
        seconds: dict[str, float] = json.loads(on_slice.run(command, environment))
    peak = 1 / min(seconds["fma_peak_32"], seconds["fma_peak_64"])
    sgemm, blas = (_FLOPS / seconds[n] * 1e-9 for n in ("sgemm", "blas"))
    return Section(
        NAME,
        (
            Row(NAME, "vecadd 16 Mi", _BYTES / seconds["vecadd"] * 1e-9, "GB/s"),
            Row(NAME, "native OpenMP", _BYTES / seconds["openmp"] * 1e-9, "GB/s"),
            Row(NAME, "vecadd / OpenMP", seconds["openmp"] / seconds["vecadd"], "x", 0.9, True),
            Row(NAME, "naive sgemm 1024", sgemm, "GFLOP/s"),
            Row(NAME, "OpenBLAS", blas, "GFLOP/s"),
            Row(NAME, "f32 FMA peak", peak, "GFLOP/s"),
            Row(NAME, "sgemm / OpenBLAS", sgemm / blas, "x", 1.0, True),
            Row(NAME, "sgemm / FMA peak", 100 * sgemm / peak, "%", 50, True),
        ),
    )
