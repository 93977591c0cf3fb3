"""Losses and normalizations: half types round each difference and product of some losses."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.torch.rules.closeness import close
from benchmarks.torch.rules.dtypes import FLOATS, Array, cast, opmath, special_values
from benchmarks.torch.rules.elementwise import Functor, binary, unary
from benchmarks.torch.rules.exact import small
from benchmarks.torch.rules.families.unary import exponential
from benchmarks.torch.rules.row import Case, Operand, Row
from benchmarks.torch.rules.sources import cuda, native, page

Rounding = Callable[[Array], Array]
_MISC = "BinaryMiscOpsKernels.cu"


def _mse(rounded: Rounding, first: Array, second: Array) -> Array:
    difference = rounded(first - second)
    return difference * difference


def _smooth(rounded: Rounding, first: Array, second: Array) -> tuple[Array, ...]:
    size = np.abs(rounded(first - second))
    half = first.dtype.type(0.5)
    plain = np.where(size < 1, half * size * size, size - half)
    return plain, np.where(size < 1, rounded(rounded(half * size) * size), rounded(size - half))


def _huber(rounded: Rounding, first: Array, second: Array) -> tuple[Array, ...]:
    return _smooth(rounded, first, second)


def _l1(rounded: Rounding, first: Array, second: Array) -> Array:
    return np.abs(rounded(first - second))


def _loss(name: str, function: Callable[..., Array | tuple[Array, ...]], source: str) -> Row:
    call = f"F.{name}(a, b, reduction='none')"
    make = binary(Functor(function, rounds=True), call, numbers=False, zero_dim=False)
    rule = "the difference is rounded to the tensor's type before it is squared or compared"
    return Row(f"nn.functional.{name}", "losses", rule, source, FLOATS, make, call)


def _along(
    call: str, function: Callable[[Array], Array], ulps: float, shape: Sequence[int] = (3, 7)
) -> Callable[[Row, str], Iterator[Case]]:
    """Make a case of small whole numbers, computed in opmath and rounded once."""

    def make(row: Row, dtype: str) -> Iterator[Case]:
        values = small(dtype, shape)
        exact = function(values.astype("longdouble"))
        yield Case(call, (Operand(values, dtype),), (close(exact, dtype, ulps),), label=dtype)
        infinite = cast(np.array([[0.0, -np.inf, 1.0], [-np.inf] * 3, [np.inf, 0, 1], [np.nan, 0, 1]]),
                        dtype)  # fmt: skip
        if "softmax" in row.name:
            with np.errstate(all="ignore"):
                exact = function(infinite.astype("longdouble"))
            expected = close(exact, dtype, ulps)
            yield Case(call, (Operand(infinite, dtype),), (expected,), label=f"{dtype} infinite")

    return make


def _softmax(values: Array) -> Array:
    shifted = np.exp(values - values.max(-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(-1, keepdims=True))


def _log_softmax(values: Array) -> Array:
    shifted = values - values.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


def _layer_norm(values: Array) -> Array:
    mean = values.mean(-1, keepdims=True)
    return np.asarray(
        (values - mean) / np.sqrt(values.var(-1, keepdims=True) + np.longdouble(1e-5))
    )


def _glu(row: Row, dtype: str) -> Iterator[Case]:
    values = special_values(dtype)
    first, second = np.repeat(values, len(values)), np.tile(values, len(values))
    with np.errstate(all="ignore"):
        sigmoid = cast(1 / (1 + exponential(-cast(second, opmath(dtype)))), opmath(dtype))
        exact = cast(first, opmath(dtype)) * sigmoid.astype("longdouble")
    expected = close(exact, dtype, 4)
    operands = (Operand(np.concatenate((first, second)), dtype),)
    yield Case("F.glu(a, 0)", operands, (expected,), label=dtype)


def _prelu(rounded: Rounding, values: Array) -> Array:
    return np.where(values > 0, values, rounded(np.asarray(0.1, dtype=values.dtype)) * values)


_SOFTMAX = page("generated/torch.nn.functional.softmax.html")
_PRELU = "F.prelu(a, torch.tensor([0.1], dtype=a.dtype, device=DEVICE))"

ROWS = (
    _loss("mse_loss", _mse, cuda(_MISC, "mse_kernel_cuda")),
    _loss("smooth_l1_loss", _smooth, cuda(_MISC, "smooth_l1_kernel_cuda")),
    _loss("huber_loss", _huber, cuda(_MISC, "huber_kernel_cuda")),
    _loss("l1_loss", _l1, native("Loss.cpp", "l1_loss: sub and abs")),
    Row("softmax", "losses", "exp(x - max) / sum in float32, rounded once; a row of -inf is NaN",
        _SOFTMAX, FLOATS, _along("torch.softmax(a, -1)", _softmax, 8)),
    Row("log_softmax", "losses", "x - max - log(sum) in float32, rounded once; a row of -inf is NaN",
        page("generated/torch.nn.functional.log_softmax.html"), FLOATS,
        _along("torch.log_softmax(a, -1)", _log_softmax, 8)),
    Row("nn.functional.softmin", "losses", "softmax of -x",
        page("generated/torch.nn.functional.softmin.html"), FLOATS,
        _along("F.softmin(a, -1)", lambda a: _softmax(-a), 8, (3, 7))),
    Row("nn.functional.layer_norm", "losses", "mean and variance in float32, rounded once",
        page("generated/torch.nn.functional.layer_norm.html"), FLOATS,
        _along("F.layer_norm(a, (7,))", _layer_norm, 16)),
    Row("nn.functional.glu", "losses", "the first half times the second's sigmoid in opmath",
        cuda("ActivationGluKernel.cu", "glu_kernel"), FLOATS, _glu),
    Row("nn.functional.prelu", "losses", "weight * input of the tensor's type, rounded once",
        cuda("ActivationPreluKernel.cu", "prelu_kernel"), FLOATS,
        unary(Functor(_prelu, rounds=True), _PRELU)),
)  # fmt: skip
