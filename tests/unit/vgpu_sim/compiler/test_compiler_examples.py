"""The committed example kernels: their results on the interpreter."""

from pathlib import Path

import numpy as np
import pytest

from support.execution.interpreted_ptx import compile_verified, run
from vgpu_sim.isa import container

EXAMPLES = Path(__file__).parents[4] / "examples"
RANDOM = np.random.default_rng(20250917)


def _floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def _eighths(*shape: int) -> np.ndarray:
    """Return multiples of 1/8 below 16: their products and short sums are exact in binary32."""
    return (RANDOM.integers(-127, 128, shape) / 8).astype(np.float32)


def test_vecadd() -> None:
    n = 1000
    a, b = _floats(n), _floats(n)
    source = (EXAMPLES / "vecadd.ptx").read_text()
    *_, c = run(
        source, [a, b, np.zeros(n, np.float32), np.int32(n)], grid=(8, 1, 1), block=(128, 1, 1)
    )
    np.testing.assert_array_equal(c, a + b)


def test_flipping_one_instruction_flips_the_result() -> None:
    n = 64
    a, b = _floats(n), _floats(n)
    source = (EXAMPLES / "vecadd.ptx").read_text()
    assert source.count("add.f32") == 1
    arguments = [a, b, np.zeros(n, np.float32), np.int32(n)]
    *_, c = run(source.replace("add.f32", "sub.f32"), arguments, block=(64, 1, 1))
    np.testing.assert_array_equal(c, a - b)


def test_saxpy_leaves_what_is_beyond_its_bound() -> None:
    n = 300
    x, y = _eighths(n + 20), _eighths(n + 20)
    source = (EXAMPLES / "saxpy.ptx").read_text()
    _, out = run(source, [np.float32(2.5), x, y, np.int32(n)], grid=(3, 1, 1), block=(128, 1, 1))
    np.testing.assert_array_equal(out[:n], np.float32(2.5) * x[:n] + y[:n])
    np.testing.assert_array_equal(out[n:], y[n:])


@pytest.mark.parametrize("k", [0, 1, 3, 4, 10])
def test_sgemm(k: int) -> None:
    m, n = 13, 21
    a, b = _eighths(m, k), _eighths(k, n)
    source = (EXAMPLES / "sgemm.ptx").read_text()
    arguments = [a, b, np.zeros((m, n), np.float32), np.int32(m), np.int32(n), np.int32(k)]
    *_, c = run(source, arguments, grid=(3, 3, 1), block=(8, 8, 1))
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("name", ["saxpy", "sgemm", "vecadd"])
def test_survives_the_binary(name: str) -> None:
    module = compile_verified((EXAMPLES / f"{name}.ptx").read_bytes())
    assert container.decode(container.encode(module)) == module
