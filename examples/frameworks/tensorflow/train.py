"""Train a small network and a transformer with Keras on the GPU and on the CPU; compare losses."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

import numpy as np
import tensorflow as tf

keras = tf.keras
layers = keras.layers


def make_network():
    return keras.Sequential(
        [keras.Input((16,)), layers.Dense(32, activation="relu"), layers.Dense(10)]
    )


def make_transformer():
    tokens = keras.Input((12, 32))
    normal = layers.LayerNormalization()(tokens)
    attended = tokens + layers.MultiHeadAttention(4, 8)(normal, normal)
    hidden = layers.Dense(64, activation="gelu")(layers.LayerNormalization()(attended))
    summed = attended + layers.Dense(32)(hidden)
    return keras.Model(tokens, layers.Dense(10)(layers.GlobalAveragePooling1D()(summed)))


def train(make_model, shape, device):
    """Return the loss of each epoch."""
    keras.utils.set_random_seed(1)
    examples = np.random.default_rng(0).standard_normal((64, *shape)).astype(np.float32)
    with tf.device(device):
        model = make_model()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(1e-2), loss, jit_compile=False)
        labels = np.arange(64) % 10
        history = model.fit(examples, labels, batch_size=32, epochs=2, shuffle=False, verbose=0)
    return history.history["loss"]


assert tf.config.list_physical_devices("GPU"), "TensorFlow found no GPU"
for make_model, shape in ((make_network, (16,)), (make_transformer, (12, 32))):
    losses = {device: train(make_model, shape, device) for device in ("GPU:0", "CPU:0")}
    for device, values in losses.items():
        print(f"{make_model.__name__[5:]:11} {device} {values}", flush=True)
    np.testing.assert_allclose(losses["GPU:0"], losses["CPU:0"], rtol=1e-5)
print("losses of the GPU and of the CPU agree")
