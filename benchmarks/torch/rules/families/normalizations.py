"""Normalizations: moments in float32, and where a norm is rounded to the tensor's type first."""

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.torch.rules.closeness import close
from benchmarks.torch.rules.dtypes import FLOATS, Array, cast, opmath
from benchmarks.torch.rules.exact import results, small
from benchmarks.torch.rules.row import Case, Operand, Row
from benchmarks.torch.rules.sources import cuda, native, page

_EPSILON = np.longdouble(1e-5)
_ULPS = 16
# Rows whose lengths are whole numbers, zero, infinite and NaN.
_FIRST = np.array([[3.0, 4], [-6, 8], [5, -12], [0, 0], [np.inf, 1], [np.nan, 1]])
_SECOND = np.array([[8.0, 6], [4, 3], [12, 5], [3, 4], [3, 4], [3, 4]])


def _standardize(values: Array, axes: tuple[int, ...]) -> Array:
    mean = values.mean(axes, keepdims=True)
    variance = ((values - mean) ** 2).mean(axes, keepdims=True)
    return np.asarray((values - mean) / np.sqrt(variance + _EPSILON))


def _of_groups(values: Array) -> Array:
    shape = values.shape
    grouped = values.reshape(shape[0], 2, shape[1] // 2, *shape[2:])
    return _standardize(grouped, (2, 3)).reshape(shape)


def _root_mean_square(values: Array) -> Array:
    return np.asarray(values / np.sqrt((values * values).mean(-1, keepdims=True) + _EPSILON))


def _normalized(
    call: str, function: Callable[[Array], Array]
) -> Callable[[Row, str], Iterator[Case]]:
    """Make cases of small whole numbers, equal numbers, an infinity and a NaN."""

    def make(row: Row, dtype: str) -> Iterator[Case]:
        plain = small(dtype, (2, 4, 5))
        equal, special = np.ones_like(plain), plain.copy()
        special[0, 0, 1], special[1, 2, 3] = np.inf, np.nan
        for label, values in (("small", plain), ("equal", equal), ("special", special)):
            with np.errstate(all="ignore"):
                exact = function(values.astype("longdouble"))
            # Equal numbers are multiplied with 1 / sqrt(eps) before their mean is subtracted.
            scale = float(1 / np.sqrt(_EPSILON)) if label == "equal" else 1.0
            expected = close(exact, dtype, _ULPS, scale)
            yield Case(call, (Operand(values, dtype),), (expected,), label=f"{dtype} {label}")

    return make


def _round(values: Array, dtype: str) -> Array:
    return cast(values, dtype).astype(opmath(dtype))


def _norm(values: Array, epsilon: float, dtype: str) -> Array:
    """Return the rows' lengths, at least epsilon, each rounded to the type."""
    length = _round(np.hypot(values[:, :1], values[:, 1:]), dtype)
    minimum = np.asarray(epsilon, dtype=opmath(dtype))
    return _round(np.where(length < minimum, minimum, length), dtype)


def _unit(values: Array, epsilon: float, dtype: str) -> Array:
    return _round(values / _norm(values, epsilon, dtype), dtype)


def _unit_rows(row: Row, dtype: str) -> Iterator[Case]:
    values = _round(_FIRST, dtype)
    with np.errstate(all="ignore"):
        expected = results(_unit(values, 1e-12, dtype), dtype)
    yield Case(
        "F.normalize(a)", (Operand(values.astype(_kept(dtype)), dtype),), expected, label=dtype
    )


def _cosines(row: Row, dtype: str) -> Iterator[Case]:
    first, second = _round(_FIRST, dtype), _round(_SECOND, dtype)
    with np.errstate(all="ignore"):
        products = _unit(first, 1e-8, dtype) * _unit(second, 1e-8, dtype)
        cosine = _round(products, dtype).sum(1)
    operands = tuple(Operand(values.astype(_kept(dtype)), dtype) for values in (first, second))
    expected = results(cast(cosine, dtype), dtype)
    yield Case("F.cosine_similarity(a, b)", operands, expected, label=dtype)


def _kept(dtype: str) -> str:
    return "float32" if dtype == "bfloat16" else dtype


def _row(name: str, make: Callable[[Row, str], Iterator[Case]], rule: str, source: str) -> Row:
    return Row(f"nn.functional.{name}", "normalizations", rule, source, FLOATS, make)


_MOMENTS = "mean and variance in float32; (x - mean) / sqrt(variance + eps) is rounded once"

ROWS = (
    _row("batch_norm", _normalized("F.batch_norm(a, None, None, training=True)",
         lambda a: _standardize(a, (0, 2))), _MOMENTS,
         cuda("Normalization.cuh", "batch_norm_collect_statistics_kernel, batch_norm_transform_input_kernel")),
    _row("instance_norm", _normalized("F.instance_norm(a)", lambda a: _standardize(a, (2,))),
         "batch_norm of each element of the batch", native("Normalization.cpp", "instance_norm")),
    _row("group_norm", _normalized("F.group_norm(a, 2)", _of_groups), _MOMENTS,
         cuda("group_norm_kernel.cu", "RowwiseMomentsCUDAKernel, GroupNormKernelImplInternal")),
    _row("rms_norm", _normalized("F.rms_norm(a, (5,), eps=1e-5)", _root_mean_square),
         "the mean of squares in float32; x / sqrt(mean + eps) is rounded once",
         page("generated/torch.nn.functional.rms_norm.html")),
    _row("normalize", _unit_rows, "the norm, at least eps, is rounded to the tensor's type before the"
         " division: a row of zeros is NaN in float16, which has no 1e-12",
         page("generated/torch.nn.functional.normalize.html")),
    _row("cosine_similarity", _cosines, "both norms, quotients and products are rounded to the"
         " tensor's type before they are added", native("Distance.cpp", "cosine_similarity")),
)  # fmt: skip
