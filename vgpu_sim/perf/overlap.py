"""The norm by which parts of a time that overlap are added."""

import numpy as np

Array = np.ndarray


def overlapped_time(a: Array, b: Array, p: float) -> Array:
    """Return the combined time of two parts ``a`` and ``b`` that overlap: (a^p + b^p)^(1/p). The
    computation is scaled by the larger part to avoid overflow.
    """
    large, small = np.maximum(a, b), np.minimum(a, b)
    return np.asarray(large * (1 + (small / np.maximum(large, 1e-12)) ** p) ** (1 / p))
