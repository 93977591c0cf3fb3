"""How parts of a time that run side by side add."""

import numpy as np

Array = np.ndarray


def norm(a: Array, b: Array, p: float) -> Array:
    """Add parts that overlap: (a^p + b^p)^(1/p), by the larger one to stay in range."""
    large, small = np.maximum(a, b), np.minimum(a, b)
    return np.asarray(large * (1 + (small / np.maximum(large, 1e-12)) ** p) ** (1 / p))
