"""Compile a function with a matrix product, its gradient and a sort; compare them with NumPy."""

import os

# JAX would allocate three quarters of the device's memory, which the host may not have.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import numpy as np

random = np.random.default_rng(0)
x = random.standard_normal((64, 256)).astype(np.float32)
w = random.standard_normal((256, 32)).astype(np.float32) / 16


@jax.jit
def loss(a):
    return jnp.tanh(a @ w).sum()


value, gradient = jax.value_and_grad(loss)(x)
device = jax.devices()[0]
assert device.platform == "gpu", device
# JAX multiplies matrices in TF32 where a GPU has it: 10 bits of each factor.
expected = np.tanh(x @ w)
np.testing.assert_allclose(value, expected.sum(), atol=0.5)
np.testing.assert_allclose(gradient, (1 - expected**2) @ w.T, atol=1e-2)
np.testing.assert_array_equal(jnp.sort(x), np.sort(x))
print(f"gradient of {gradient.size} numbers verified on {device.device_kind}")
