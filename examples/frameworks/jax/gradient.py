"""Compile a function and its gradient with JAX, and compare both with NumPy."""

import os

# JAX would allocate three quarters of the device's memory, which the host may not have.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import numpy as np

x = np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32)


@jax.jit
def loss(a):
    return jnp.tanh(a).sum()


value, gradient = jax.value_and_grad(loss)(x)
device = jax.devices()[0]
assert device.platform == "gpu", device
np.testing.assert_allclose(value, np.tanh(x).sum(), rtol=1e-3)
np.testing.assert_allclose(gradient, 1 - np.tanh(x) ** 2, atol=1e-4)
print(f"gradient of {gradient.size} numbers verified on {device.device_kind}")
