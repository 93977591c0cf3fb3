"""Comparison of tensors, with numpy's message."""

import numpy as np

from torch.tensor import host_of, wide

_TOLERANCES = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float64": (1e-7, 1e-7)}


def assert_close(actual, expected, rtol=None, atol=None, equal_nan=False, **_):
    """Raise `AssertionError` unless the elements are equal within tolerances."""
    a, b = np.asarray(host_of(actual)), np.asarray(host_of(expected))
    exact = a.dtype.kind in "biu"
    relative, absolute = (0, 0) if exact else _TOLERANCES.get(str(a.dtype), (1.3e-6, 1e-5))
    relative, absolute = relative if rtol is None else rtol, absolute if atol is None else atol
    if exact:
        np.testing.assert_allclose(a, b, relative, absolute)
        return
    a, b = wide(a).astype(np.float64), wide(b).astype(np.float64)
    np.testing.assert_allclose(a, b, relative, absolute, equal_nan=equal_nan)
