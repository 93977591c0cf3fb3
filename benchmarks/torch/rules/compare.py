"""Comparison of an operator's results with those that a rule expects."""

import numpy as np

from benchmarks.torch.rules.dtypes import COMPLEXES, Array
from benchmarks.torch.rules.row import Expected

_SHOWN = 3


def difference(expected: Expected, dtype: str, values: Array) -> str:
    """Describe how one result differs from the rule, or return an empty text."""
    if dtype != expected.dtype:
        return f"type {dtype}, expected {expected.dtype}"
    shape = expected.choices[0].shape
    if values.shape != shape:
        return f"shape {values.shape}, expected {shape}"
    if values.size == 0:
        return ""
    agrees = np.zeros(shape, dtype=bool)
    for choice in expected.choices:
        agrees |= _equal(choice, values, expected)
    if expected.low is not None and expected.high is not None:
        with np.errstate(invalid="ignore"):
            agrees |= (expected.low <= values) & (values <= expected.high)
    if agrees.all():
        return ""
    places = np.flatnonzero(~agrees.ravel())
    examples = ", ".join(
        f"[{place}] {values.ravel()[place]!s} expected {expected.choices[0].ravel()[place]!s}"
        for place in places[:_SHOWN]
    )
    return f"{len(places)} of {values.size}: {examples}"


def _equal(choice: Array, values: Array, expected: Expected) -> Array:
    if expected.dtype in COMPLEXES:
        return _equal_complex(choice, values, expected)
    if choice.dtype.kind != "f":
        return np.asarray(choice == values)
    return _equal_real(choice, values, expected.zero_sign)


def _equal_real(choice: Array, values: Array, zero_sign: bool) -> Array:
    equal_mask = (choice == values) | (np.isnan(choice) & np.isnan(values))
    if zero_sign:
        with np.errstate(invalid="ignore"):
            equal_mask &= (
                (np.signbit(choice) == np.signbit(values)) | np.isnan(choice) | (choice != 0)
            )
    return np.asarray(equal_mask)


def _equal_complex(choice: Array, values: Array, expected: Expected) -> Array:
    """Compare part by part: in all bits, or within a distance.

    A distance leaves open the signs of zeros, and of an infinity beside NaN, as Annex G does.
    """
    size = np.abs(np.where(np.isfinite(choice), choice, 0))
    is_signed = expected.zero_sign and not expected.relative
    agrees = np.ones(choice.shape, dtype=bool)
    with np.errstate(invalid="ignore"):
        for part, partner in (("real", "imag"), ("imag", "real")):
            rule, result = getattr(choice, part), getattr(values, part)
            equal_mask = _equal_real(rule, result, is_signed)
            if expected.relative:
                equal_mask |= np.abs(rule - result) <= expected.relative * size
                is_beside_nan = np.isnan(getattr(choice, partner))
                equal_mask |= is_beside_nan & np.isinf(rule) & np.isinf(result)
            agrees &= equal_mask
    return agrees
