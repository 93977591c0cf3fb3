"""Speed of JIT-compiled kernels against native code on the same cores, interleaved.

    PYTHONPATH=.:tests python benchmarks/kernels.py [ROUNDS]

vecadd of 16 Mi floats against OpenMP C (compiled at the start), naive sgemm 1024^3 from the
example's PTX against numpy's BLAS and against the measured peak of f32 fused multiply-adds.
Kernels run on OpenMP's threads, each on its share of the blocks, without the worker: the cost of
a launch is not included. Only ratios within one run are meaningful.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from support.execution import native_launch
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit

VECTOR = 1 << 24
MATRIX = 1024
_EXAMPLES = Path(__file__).parents[1] / "examples"
_NATIVE = r"""
#include <omp.h>
#include <stdint.h>
typedef void entry_point(const void *, const void *, uint64_t, uint64_t, void *);
void launch(entry_point *entry, const void *ctx, const void *params, uint64_t blocks) {
#pragma omp parallel
  {
    uint64_t state[6] = {0}, part = omp_get_thread_num(), parts = omp_get_num_threads();
    entry(ctx, params, blocks * part / parts, blocks * (part + 1) / parts, state);
  }
}
void vecadd(const float *a, const float *b, float *c, int64_t n) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i++) c[i] = a[i] + b[i];
}
typedef float lanes __attribute__((vector_size(64)));
double fma_flops(int64_t turns) {  /* 16 independent chains of 16 lanes, per thread */
  double total = 0;
#pragma omp parallel reduction(+ : total)
  {
    lanes x[16], m = (lanes){} + 0.999f, k = (lanes){} + 0.5f;
    for (int j = 0; j < 16; j++) x[j] = (lanes){} + (float)j;
    for (int64_t i = 0; i < turns; i++)
      for (int j = 0; j < 16; j++) x[j] = x[j] * m + k;
    for (int j = 0; j < 16; j++) asm volatile("" : : "m"(x[j]));
    total += 2.0 * 16 * 16 * (double)turns;
  }
  return total;
}
"""


def _native(directory: str) -> ctypes.CDLL:
    source, library = Path(directory) / "native.c", Path(directory) / "native.so"
    source.write_text(_NATIVE)
    flags = ["-O3", "-march=native", "-mprefer-vector-width=512", "-ffp-contract=fast", "-fopenmp"]
    subprocess.run(
        [os.environ.get("CC", "cc"), *flags, "-fPIC", "-shared", source, "-o", library], check=True
    )
    loaded = ctypes.CDLL(str(library))
    pointer = ctypes.c_void_p
    loaded.vecadd.argtypes = [pointer, pointer, pointer, ctypes.c_int64]
    loaded.launch.argtypes = [pointer, pointer, pointer, ctypes.c_uint64]
    loaded.fma_flops.argtypes = [ctypes.c_int64]
    loaded.fma_flops.restype = ctypes.c_double
    return loaded


class _Kernel:
    def __init__(
        self,
        native: ctypes.CDLL,
        aperture: native_launch.Aperture,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: list[int],
    ) -> None:
        source = (_EXAMPLES / f"{name}.ptx").read_text()
        module = compile_ptx(source, capability=(8, 0))
        function = module.functions[0]
        compiler = jit.Compiler()
        begun = time.perf_counter()
        code = compiler.compile(module, function, block)
        self.compile_ms = (time.perf_counter() - begun) * 1e3
        self.plan = code.plan
        self._loaded = compiler.load(code)
        launch = native_launch.context(aperture, grid, block)
        parameters = native_launch.pack(function.parameters, function.parameter_bytes, arguments)
        self._context = ctypes.create_string_buffer(launch, len(launch))
        self._parameters = ctypes.create_string_buffer(parameters, len(parameters))
        self._blocks = grid[0] * grid[1] * grid[2]
        self._native = native

    def __call__(self) -> None:
        self._native.launch(self._loaded.entry, self._context, self._parameters, self._blocks)


def _race(rounds: int, contenders: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Run the contenders alternately; return the best time of each in milliseconds."""
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, run in contenders.items():
            begun = time.perf_counter()
            run()
            best[name] = min(best[name], (time.perf_counter() - begun) * 1e3)
    return best


def main(rounds: int) -> None:
    """Print the table."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # spinning would use cores that others need
    rng = np.random.default_rng(1)
    aperture = native_launch.Aperture()
    with tempfile.TemporaryDirectory() as directory:
        native = _native(directory)
    a, b = (aperture.allocate(rng.random(VECTOR, dtype=np.float32)) for _ in range(2))
    c = aperture.allocate(np.zeros(VECTOR, np.float32))
    where = [buffer.address for buffer in (a, b, c)]
    add = _Kernel(native, aperture, "vecadd", (VECTOR // 256, 1, 1), (256, 1, 1), [*where, VECTOR])
    n = MATRIX
    left, right = (rng.random((n, n), dtype=np.float32) for _ in range(2))
    x, y = aperture.allocate(left), aperture.allocate(right)
    z = aperture.allocate(np.zeros((n, n), np.float32))
    multiply = _Kernel(
        native,
        aperture,
        "sgemm",
        (n // 32, n // 8, 1),
        (32, 8, 1),
        [x.address, y.address, z.address, n, n, n],
    )
    product = np.empty_like(left)
    turns = 2_000_000
    best = _race(
        rounds,
        {
            "vecadd": add,
            "vecadd OpenMP": lambda: native.vecadd(*where, VECTOR),
            "sgemm": multiply,
            "sgemm BLAS": lambda: np.matmul(left, right, out=product),
            "peak": lambda: native.fma_flops(turns),
        },
    )
    np.testing.assert_array_equal(c.as_type("<f4"), a.as_type("<f4") + b.as_type("<f4"))
    np.testing.assert_allclose(z.as_type("<f4").reshape(n, n), product, rtol=1e-4)
    peak = native.fma_flops(turns) / (best["peak"] * 1e6)
    rate = 2.0 * n**3 / (best["sgemm"] * 1e6)
    print(f"load average {os.getloadavg()[0]:.2f}, best of {rounds} rounds, {os.cpu_count()} CPUs")
    for name in ("vecadd", "vecadd OpenMP", "sgemm", "sgemm BLAS"):
        print(f"{name:15} {best[name]:8.2f} ms")
    print(f"vecadd: {best['vecadd OpenMP'] / best['vecadd']:.2f} x OpenMP  ({add.plan})")
    print(f"sgemm:  {best['sgemm BLAS'] / best['sgemm']:.2f} x BLAS  ({multiply.plan})")
    print(f"        {rate:.0f} GFLOP/s = {rate / peak:.0%} of the measured peak {peak:.0f}")
    print(f"compile: vecadd {add.compile_ms:.0f} ms, sgemm {multiply.compile_ms:.0f} ms (cold)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
