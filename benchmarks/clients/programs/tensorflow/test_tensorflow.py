"""TensorFlow's stock wheel: operators against its CPU kernels, and Keras models' losses."""

import numpy as np
import pytest
import tensorflow as tf

keras = tf.keras
layers = keras.layers
_random = np.random.default_rng(0)
_X = _random.standard_normal((32, 64)).astype(np.float32)
_W = _random.standard_normal((64, 48)).astype(np.float32)


def _half_product():
    product = tf.matmul(tf.cast(_X, tf.float16), tf.cast(_W, tf.float16))
    return tf.cast(product, tf.float32)


_FUNCTIONS = {
    "matmul": lambda: tf.matmul(_X, _W),
    "matmul of halves": _half_product,
    "softmax": lambda: tf.nn.softmax(_X),
    "reduce_sum": lambda: tf.reduce_sum(_X, 1),
    "gelu": lambda: tf.nn.gelu(_X),
    "top_k": lambda: tf.math.top_k(_X, 5).values,
    "sort": lambda: tf.sort(_X, 1),
    "gather": lambda: tf.gather(_X, [3, 1, 2]),
    "compiled by XLA": lambda: tf.function(lambda a: tf.nn.softmax(a * 2), jit_compile=True)(_X),
}


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_an_operator_agrees_with_the_cpu(name):
    with tf.device("GPU:0"):
        actual = _FUNCTIONS[name]()
    assert "GPU" in actual.device
    with tf.device("CPU:0"):
        expected = _FUNCTIONS[name]()
    np.testing.assert_allclose(actual, expected, atol=2e-2 if "halves" in name else 1e-5)


def _make_network():
    return keras.Sequential(
        [keras.Input((16,)), layers.Dense(32, activation="relu"), layers.Dense(10)]
    )


def _make_transformer():
    tokens = keras.Input((12, 32))
    normal = layers.LayerNormalization()(tokens)
    attended = tokens + layers.MultiHeadAttention(4, 8)(normal, normal)
    hidden = layers.Dense(64, activation="gelu")(layers.LayerNormalization()(attended))
    summed = attended + layers.Dense(32)(hidden)
    return keras.Model(tokens, layers.Dense(10)(layers.GlobalAveragePooling1D()(summed)))


@pytest.mark.parametrize(
    ("make_model", "shape"), [(_make_network, (16,)), (_make_transformer, (12, 32))]
)
def test_a_model_has_the_losses_of_the_cpu(make_model, shape):
    losses = []
    for device in ("GPU:0", "CPU:0"):
        keras.utils.set_random_seed(1)
        examples = np.random.default_rng(0).standard_normal((64, *shape)).astype(np.float32)
        with tf.device(device):
            model = make_model()
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(keras.optimizers.Adam(1e-2), loss, jit_compile=False)
            labels = np.arange(64) % 10
            fitted = model.fit(examples, labels, batch_size=32, epochs=2, shuffle=False, verbose=0)
        losses.append(fitted.history["loss"])
    np.testing.assert_allclose(*losses, rtol=1e-5)
