"""PTX of other compilers (nvcc, Triton, ...): all files parse; which kernels load is recorded.

The corpus is not part of the repository; TESSERA_PTX_CORPUS names its folder. ``corpus.json``
lists for each file the kernels that load, and the lines and reasons of all refusals. Update it
like the golden files, with TESSERA_GOLDEN=write. ``test_run_client_kernels`` tests the kernels'
results.
"""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.execution.interpreted_ptx import run
from vgpu_sim import compiler
from vgpu_sim.compiler.ptx import parse
from vgpu_sim.isa import Module, verify

RECORD = Path(__file__).parents[3] / "golden" / "ptx" / "corpus.json"
CORPUS = os.environ.get("TESSERA_PTX_CORPUS", "")
FILES = sorted(Path(CORPUS).glob("*.ptx")) if CORPUS else []

pytestmark = pytest.mark.skipif(
    not FILES, reason="NOT RUN: TESSERA_PTX_CORPUS does not name a folder with .ptx files"
)


def _compile(path: Path) -> Module:
    return compiler.compile_ptx(path.read_bytes(), capability=(9, 0), name=path.name, partial=True)


def _kernel(file: str, name: str) -> Module:
    """Return the module without its other kernels."""
    module = _compile(Path(CORPUS) / file)
    return replace(module, functions=(module.function(name),))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_parses(path: Path) -> None:
    module = parse(path.read_bytes())
    assert module.functions
    assert module.address_size == 64


def test_loading_kernels_match_the_record() -> None:
    found = {}
    for path in FILES:
        module = _compile(path)
        verify.check_module(module)
        refused = {
            one.name: [f"{reason.line}: {reason.message}" for reason in one.reasons]
            for one in module.refused
        }
        loading = [function.name for function in module.functions]
        found[path.name] = {"loading": loading, "refused": refused}
    if os.environ.get("TESSERA_GOLDEN") == "write":
        RECORD.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(RECORD.read_text())


def test_vector_addition_with_a_grid_stride() -> None:
    n = 100
    a, b = np.arange(4 * n, dtype=np.float32), np.full(4 * n, 0.25, np.float32)
    module = _kernel("01_vecadd.sm_90.ptx", "vecadd4")
    *_, c = run(module, [a, b, np.zeros_like(a), np.int32(n)], grid=(2, 1, 1))
    np.testing.assert_array_equal(c, a + b)


def test_saxpy_with_64_bit_indices() -> None:
    n = 50
    x, y = np.arange(64, dtype=np.float32), np.ones(64, np.float32)
    module = _kernel("01_vecadd.sm_90.ptx", "saxpy")
    _, out = run(module, [np.float32(3), x, y, np.uint64(n)], grid=(2, 1, 1))
    np.testing.assert_array_equal(out, np.where(np.arange(64) < n, 3 * x + 1, 1))


def test_xorshift_and_a_64_bit_remainder_by_a_constant() -> None:
    seeds = np.random.default_rng(5).integers(1, 1 << 64, 32, dtype=np.uint64)
    (out,) = run(_kernel("13_philox_rng.sm_90.ptx", "xorshift"), [seeds])
    x = seeds ^ seeds << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    np.testing.assert_array_equal(out, x * np.uint64(0x2545F4914F6CDD1D) % np.uint64(1000003))


def test_mandelbrot_iteration_counts() -> None:
    """The compiler contracts a*a - b*b + cr and the bound into fused operations: few pixels
    differ.
    """
    width, height, limit = 24, 16, 40
    arguments = [np.zeros(width * height, np.uint8), *map(np.int32, (width, height, limit))]
    module = _kernel("10_bitonic_mandel_nbody.sm_90.ptx", "mandel")
    (out,) = run(module, arguments, grid=(2, 2, 1), block=(16, 8, 1))
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    c = (-2 + 3 * x / width) + 1j * (-1.5 + 3 * y / height)
    z, counts = np.zeros_like(c), np.zeros(c.shape, int)
    for _ in range(limit):
        inside = np.abs(z) < 2
        counts += inside
        z = np.where(inside, z * z + c, z)
    assert (out.reshape(height, width) == counts).mean() > 0.98
