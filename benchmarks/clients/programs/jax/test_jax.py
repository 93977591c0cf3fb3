"""JAX's stock wheel: transfers, compiled functions, gradients, sort and scan against numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

_random = np.random.default_rng(0)
_X, _Y = _random.standard_normal((2, 64, 256)).astype(np.float32)


def test_the_device_is_a_gpu():
    assert jax.devices()[0].platform == "gpu"


def test_transfers():
    assert np.array_equal(np.asarray(jax.device_put(_X)), _X)


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _scan(a):
    return jax.lax.scan(lambda carry, row: (carry + row, carry), jnp.zeros(256), a)[1]


_FUNCTIONS = {
    "pointwise": (lambda a: jnp.maximum(a * 2 + 1, 0), lambda x: np.maximum(x * 2 + 1, 0)),
    "sum": (lambda a: (a * 2).sum(-1), lambda x: (x * 2).sum(-1)),
    "maximum": (lambda a: a.max(0), lambda x: x.max(0)),
    "softmax": (jax.nn.softmax, _softmax),
    "tanh": (jnp.tanh, np.tanh),
    "sort": (lambda a: jnp.sort(a, -1), lambda x: np.sort(x, -1)),
    "argsort": (lambda a: jnp.argsort(a, -1), lambda x: np.argsort(x, -1, kind="stable")),
    "cumsum": (lambda a: jnp.cumsum(a, -1), lambda x: np.cumsum(x, -1)),
    "scan": (_scan, lambda x: np.cumsum(x, 0) - x),
    "gather": (lambda a: a[:, ::-3], lambda x: x[:, ::-3]),
    "grad of tanh": (jax.grad(lambda a: jnp.tanh(a).sum()), lambda x: 1 - np.tanh(x) ** 2),
    "vmap": (jax.vmap(lambda row: row / jnp.abs(row).max()), lambda x: x / abs(x).max(1)[:, None]),
}


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_a_compiled_function_agrees_with_numpy(name):
    function, expected = _FUNCTIONS[name]
    actual = np.asarray(jax.jit(function)(jnp.asarray(_X)))
    np.testing.assert_allclose(actual, expected(_X), atol=2e-4, rtol=2e-4)


def test_random_numbers_are_those_of_the_cpu():
    actual = np.asarray(jax.random.uniform(jax.random.PRNGKey(7), (1000,)))
    with jax.default_device(jax.devices("cpu")[0]):
        expected = np.asarray(jax.random.uniform(jax.random.PRNGKey(7), (1000,)))
    assert np.array_equal(actual, expected)
