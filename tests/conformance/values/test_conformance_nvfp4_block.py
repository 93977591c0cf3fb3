"""A transformer block in NVFP4, forwards, and the gradients of one of its products.

Every step runs on both executors, from the results of the steps before, and has the bits of
``nvfp4_oracle``.
"""

import functools

import numpy as np
import pytest

from support.execution.both_backends import compare
from support.execution.interpreted_ptx import compile_verified
from support.kernels import nvfp4_kernels as kernels
from support.kernels.nvfp4_kernels import GROUP, MODEL, THREADS
from support.kernels.tensor_products import Case
from support.oracles import nvfp4_oracle as oracle, scaled_oracle, tensor_oracle
from support.oracles.nvfp4_oracle import Array, Quantised
from vgpu_sim.isa import Module

pytestmark = pytest.mark.timeout(600)
ROWS, INNER = 128, 128
SIGNS = sum(1 << n for n, sign in enumerate("+++-+------+-+--") if sign == "-")


@functools.cache
def _compiled(text: str) -> Module:
    return compile_verified(text)


def _run(text: str, buffers: list[bytes | Array], threads: int, *extra: int) -> list[bytes]:
    data = [one if isinstance(one, bytes) else one.tobytes() for one in buffers]
    assert threads % THREADS == 0
    grid = (threads // THREADS, 1, 1)
    return compare(_compiled(text), data, grid, (THREADS, 1, 1), [None], extra=extra)


def _numbers(found: bytes, columns: int) -> Array:
    return np.frombuffer(found, np.float32).reshape(-1, columns)


def _quantise(
    matrix: Array, signs: int | None = None, random: Array | None = None, *, turned: bool = False
) -> Quantised:
    """Quantise the rows of a matrix on the device, or with ``turned`` its columns."""
    rows, columns = matrix.shape[::-1] if turned else matrix.shape
    down, across = (1, rows) if turned else (columns, 1)
    order = (columns // GROUP, down, across, signs or 0)
    groups = rows * columns // GROUP
    rotates = signs is not None
    largest, _ = _run(kernels.find_largest(rotates=rotates), [bytes(4), matrix], groups, *order)
    words = np.zeros(4, np.uint32) if random is None else random
    text = kernels.quantise(rotates=rotates, by_chance=random is not None)
    room = [bytes(8 * groups), bytes(groups)]
    codes, scales, *_ = _run(text, [*room, matrix, largest, words], groups, *order)
    want = oracle.quantise(np.ascontiguousarray(matrix.T) if turned else matrix, signs, random)
    assert largest == want.largest.tobytes()
    assert scales == want.scale_bytes
    assert codes == want.codes
    return want


def _multiply(a: Quantised, b: Quantised) -> Array:
    (rows, depth), columns = a.elements.shape, len(b.elements)
    case = Case("mxf4nvf4", "f32", "e2m1", "e2m1", rows, columns, exact=True, scales=4)
    factors = [[one.codes, one.scale_bytes, one.largest.tobytes()] for one in (a, b)]
    buffers = [bytes(4 * rows * columns), *factors[0], *factors[1]]
    order = (columns, depth // 2, tensor_oracle.instruction_descriptor(case))
    found = _numbers(_run(kernels.multiply(), buffers, THREADS, *order)[0], columns)
    np.testing.assert_array_equal(found, oracle.multiply(a, b))
    return found


def _linear(x: Array, weight: Array) -> Array:
    return _multiply(_quantise(x), _quantise(weight))


def _add(x: Array, y: Array) -> Array:
    found = _numbers(_run(kernels.add(), [bytes(x.nbytes), x, y], x.size)[0], x.shape[1])
    np.testing.assert_array_equal(found, x + y)
    return found


def _normalise(x: Array, gains: Array) -> Array:
    found = _numbers(_run(kernels.normalise(), [bytes(x.nbytes), x, gains], ROWS)[0], MODEL)
    np.testing.assert_array_equal(found, oracle.normalise(x, gains))
    return found


def _attend(numbers: Array) -> Array:
    room = [bytes(4 * ROWS * MODEL), numbers, bytes(4 * 2 * ROWS * kernels.SEQUENCE)]
    found = _numbers(_run(kernels.attend(), room, 2 * ROWS)[0], MODEL)
    coefficients = np.array(kernels.EXPONENTIAL, np.uint32).view(np.float32)
    np.testing.assert_array_equal(found, oracle.attend(numbers, coefficients))
    return found


def _activate(x: Array) -> Array:
    found = _numbers(_run(kernels.activate(), [bytes(x.nbytes), x], x.size)[0], x.shape[1])
    np.testing.assert_array_equal(found, np.maximum(x, 0) ** 2)
    return found


def _random(dice: np.random.Generator, *shape: int) -> Array:
    return dice.normal(size=shape).astype(np.float32)


def test_a_block_forwards() -> None:
    dice = np.random.default_rng(1)
    x, gains = _random(dice, ROWS, MODEL), 1 + _random(dice, 2, MODEL) / 8
    shapes = ((3 * MODEL, MODEL), (MODEL, MODEL), (INNER, MODEL), (MODEL, INNER))
    weights = [_random(dice, *shape) / np.float32(shape[1] ** 0.5) for shape in shapes]
    attended = _attend(_linear(_normalise(x, gains[0]), weights[0]))
    middle = _add(x, _linear(attended, weights[1]))
    inner = _activate(_linear(_normalise(middle, gains[1]), weights[2]))
    found = _add(middle, _linear(inner, weights[3]))
    exact = _block(x, gains, weights)
    error = np.linalg.norm(found - exact) / np.linalg.norm(exact)
    assert 0.01 < error < 0.25, error  # E2M1 has one bit after the first


def _block(x: Array, gains: Array, weights: list[Array]) -> Array:
    """Return the block's results in binary64, without quantisation."""

    def norm(y: Array, gain: Array) -> Array:
        return y / np.sqrt((y * y).mean(1, keepdims=True) + 1e-6) * gain

    x = x.astype(np.float64)
    shape = (ROWS // 32, 32, 3, 2, 32)
    q, k, v = np.moveaxis((norm(x, gains[0]) @ weights[0].T).reshape(shape), (2, 3), (0, 2))
    scores = np.where(np.tril(np.ones((32, 32))), q @ k.swapaxes(-1, -2) / 32**0.5, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    attended = np.moveaxis(powers / powers.sum(-1, keepdims=True) @ v, 1, 2).reshape(ROWS, MODEL)
    x = x + attended @ weights[1].T
    return x + np.maximum(norm(x, gains[1]) @ weights[2].T, 0) ** 2 @ weights[3].T


def test_gradients_of_a_product() -> None:
    """Gradients are rounded stochastically; factors of the weight's gradient are rotated."""
    dice = np.random.default_rng(2)
    x, weight, dy = (
        _random(dice, ROWS, MODEL),
        _random(dice, INNER, MODEL),
        _random(dice, ROWS, INNER),
    )
    words = dice.integers(0, 1 << 32, (2, ROWS * INNER // 4), np.uint32)
    dx = _multiply(_quantise(dy, random=words[0]), _quantise(weight, turned=True))
    rotated = _quantise(dy, SIGNS, words[1], turned=True), _quantise(x, SIGNS, turned=True)
    for found, exact in ((dx, dy @ weight), (_multiply(*rotated), dy.T @ x)):
        error = np.linalg.norm(found - exact) / np.linalg.norm(exact)
        assert 0.01 < error < 0.25, error


def test_a_product_by_fractions() -> None:
    """The products of a few rows and columns equal those in rational numbers."""
    dice = np.random.default_rng(3)
    a, b = oracle.quantise(_random(dice, 4, 128)), oracle.quantise(_random(dice, 3, 128))
    total = np.zeros((4, 3), np.uint32)
    for first in (0, 64):
        part, scales = slice(first, first + 64), slice(first // GROUP, first // GROUP + 4)
        total = scaled_oracle.scaled_product(
            *(one.elements[:, part].tolist() for one in (a, b)),
            *(one.scales[:, scales].tolist() for one in (a, b)),
            total.view(np.float32),
        )
    factor = np.float32(1) / (oracle.encode(a.largest) * oracle.encode(b.largest))
    np.testing.assert_array_equal(total.view(np.float32) * factor, oracle.multiply(a, b))


def test_a_rotation_keeps_products() -> None:
    dice = np.random.default_rng(4)
    a, b = _random(dice, 2, GROUP)
    turned = oracle.rotate(np.stack([a, b]), SIGNS)
    np.testing.assert_allclose(turned[0] @ turned[1], a @ b, rtol=1e-5)


@pytest.mark.parametrize("value", [0.0, 3e-38])
def test_small_matrices(value: float) -> None:
    """Zeros have the factor 1, and tiny numbers the largest one."""
    _quantise(np.full((ROWS, GROUP), value, np.float32))
