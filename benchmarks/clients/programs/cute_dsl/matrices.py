"""Products of matrices of float16 by kernels with tensor maps."""

import struct

import numpy as np

_random = np.random.default_rng(1)


def multiply(device, kernel, parameters):
    """Return a kernel's product of two random matrices, and NumPy's.

    ``parameters`` are made of the tensor maps of the factors and of the product (empty if the
    kernel has two maps), and of a pointer to the product.
    """
    a, b = _random.standard_normal((2, 256, 256)).astype(np.float16)
    addresses = [device.put(a), device.put(b), device.put(np.zeros_like(a))]
    maps = [
        device.tensor_map(address, a.shape, box)
        for address, box in zip(addresses, kernel.boxes, strict=False)
    ]
    product = addresses[2]
    maps += [b""] * (3 - len(maps))
    device.launch(kernel, *parameters(*maps, struct.pack("<Q", product)))
    actual_product = device.get(product, a.shape, a.dtype).astype(np.float64)
    return actual_product, a.astype(np.float64) @ b.astype(np.float64).T
