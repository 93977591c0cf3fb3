"""JAX's stock wheel: functions, products, gradients, sort and scan against numpy; an MLP."""

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


@pytest.mark.parametrize(
    ("kind", "precision", "tolerance"),
    [
        ("float32", "highest", 2e-4),
        ("float32", "default", 0.1),
        ("float16", "default", 0.1),
        ("bfloat16", "default", 0.5),
    ],
)
def test_a_matrix_product_agrees_with_numpy(kind, precision, tolerance):
    a, b = jnp.asarray(_X, kind), jnp.asarray(_Y.T, kind)
    actual = jax.jit(lambda a, b: jnp.matmul(a, b, precision=precision))(a, b)
    expected = np.asarray(a, np.float64) @ np.asarray(b, np.float64)
    np.testing.assert_allclose(np.asarray(actual, np.float64), expected, atol=tolerance)


def _loss(parameters, x, labels):
    (w, b), (v, c) = parameters
    logits = jax.nn.relu(x @ w + b) @ v + c
    return -jax.nn.log_softmax(logits)[jnp.arange(len(labels)), labels].mean()


@jax.jit
def _step(parameters, x, labels):
    loss, gradient = jax.value_and_grad(_loss)(parameters, x, labels)
    return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradient), loss


def test_an_mlp_has_the_losses_of_the_cpu():
    losses = []
    for device in (jax.devices()[0], jax.devices("cpu")[0]):
        random = np.random.default_rng(1)
        parameters = [
            (random.standard_normal(shape, np.float32) / 8, np.zeros(shape[1], np.float32))
            for shape in ((256, 128), (128, 10))
        ]
        parameters, x, labels = jax.device_put((parameters, _X, np.arange(64) % 10), device)
        for _ in range(5):
            parameters, loss = _step(parameters, x, labels)
            losses.append(float(loss))
    np.testing.assert_allclose(losses[:5], losses[5:], rtol=2e-3)  # TF32
    assert losses[4] < losses[0]
