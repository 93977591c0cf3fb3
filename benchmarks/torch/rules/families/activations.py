"""Activations: which constants are rounded to the tensor's type, and which stay in opmath."""

from collections.abc import Callable

import numpy as np

from benchmarks.torch.rules.dtypes import COMPLEXES, FLOATS, INTS, Array, cast
from benchmarks.torch.rules.elementwise import Functor, unary
from benchmarks.torch.rules.families.unary import exponential
from benchmarks.torch.rules.row import Row
from benchmarks.torch.rules.sources import cuda, native

Rounding = Callable[[Array], Array]


def _constant(values: Array, number: float) -> Array:
    return np.asarray(number, dtype=values.dtype)


def _hardshrink(rounded: Rounding, values: Array) -> Array:
    edge = rounded(_constant(values, 0.1))
    return np.where((values >= -edge) & (values <= edge), 0, values)


def _softshrink(rounded: Rounding, values: Array) -> Array:
    edge = rounded(_constant(values, 0.1))
    shrunk = np.where(values > edge, values - edge, np.where(values < -edge, values + edge, 0))
    return np.where(np.isnan(values), values, shrunk)


def _threshold(rounded: Rounding, values: Array) -> Array:
    edge, value = rounded(_constant(values, 0.1)), rounded(_constant(values, 1.7))
    return np.where(values <= edge, value, values)


def _elu(values: Array) -> Array:
    negative = np.expm1(values.astype("longdouble")) * _constant(values, 0.1)
    return np.where(values > 0, values, negative)


def _celu(values: Array) -> Array:
    return np.where(values > 0, values, np.expm1(values.astype("longdouble")))


def _selu(values: Array) -> Array:
    scale = _constant(values, 1.0507009873554804934193349852946)
    negative = _constant(values, 1.6732632423543772848170429916717) * scale
    return np.where(values > 0, values * scale, np.expm1(values.astype("longdouble")) * negative)


def _leaky(values: Array) -> Array:
    return np.where(values > 0, values, values * _constant(values, 0.1))


def _gelu(values: Array) -> Array:
    import math

    inner = values * _constant(values, math.sqrt(0.5))
    wide = inner.astype("float64")
    erf = np.array([math.erf(x) for x in np.ravel(wide)]).reshape(wide.shape)
    one_more = cast(1 + cast(erf, str(values.dtype)), str(values.dtype))
    return values * _constant(values, 0.5) * one_more


def _silu(values: Array) -> Array:
    return np.asarray(values.astype("longdouble") / (1 + exponential(-values)))


def _mish(values: Array) -> Array:
    return values.astype("longdouble") * np.tanh(np.log1p(exponential(values)))


def _softplus(values: Array) -> Array:
    wide = values.astype("longdouble")
    return np.where(wide > 20, wide, np.log1p(np.exp(wide)))


def _log_sigmoid(values: Array) -> Array:
    wide = values.astype("longdouble")
    return np.asarray(np.minimum(wide, 0) - np.log1p(np.exp(-np.abs(wide))))


def _hardsigmoid(values: Array) -> Array:
    return np.minimum(_most(values + 3, 0), 6) * _constant(values, float(np.float32(1.0 / 6.0)))


def _most(first: Array, second: float) -> Array:
    """Return std::max, which is its first argument where a comparison with NaN is false."""
    return np.where(first < second, np.asarray(second, dtype=first.dtype), first)


def _hardswish(values: Array) -> Array:
    return (
        values
        * np.minimum(_most(values + 3, 0), 6)
        * _constant(values, float(np.float32(1.0 / 6.0)))
    )


def _relu(values: Array) -> Array:
    return np.where(values < 0, np.zeros_like(values), values)


def _row(
    name: str,
    function: Callable[..., Array],
    source: str,
    rule: str,
    call: str = "F.{name}(a)",
    ulps: float = 0,
    rounds: bool = False,
    accepts: tuple[str, ...] = FLOATS,
    zero_sign: bool = True,
) -> Row:
    scale = np.abs if name in ("gelu", "mish") else None
    functor = Functor(function, ulps=ulps, rounds=rounds, zero_sign=zero_sign, scale=scale)
    call = call.format(name=name)
    refuses = () if name == "silu" else COMPLEXES
    make = unary(functor, call)
    return Row(f"nn.functional.{name}", "activation", rule, source, accepts, make, call, refuses)


_OPMATH = "in opmath with its constants in opmath, rounded once"
_CLAMP = native("Activation.cpp", "relu: clamp_min by 0")

ROWS = (
    _row("hardshrink", _hardshrink, cuda("ActivationHardshrinkKernel.cu", "hardshrink_kernel"),
         "lambd is rounded to the tensor's type", "F.hardshrink(a, 0.1)", rounds=True),
    _row("softshrink", _softshrink, cuda("ActivationSoftshrinkKernel.cu", "softshrink_kernel"),
         "lambd is rounded to the tensor's type; NaN stays", "F.softshrink(a, 0.1)", rounds=True),
    _row("threshold", _threshold, cuda("ActivationThresholdKernel.cu", "threshold_kernel_impl"),
         "threshold and value are rounded to the tensor's type; a NaN stays",
         "F.threshold(a, 0.1, 1.7)", rounds=True),
    _row("elu", _elu, cuda("ActivationEluKernel.cu", "elu_kernel"), _OPMATH, "F.elu(a, 0.1)", ulps=3),
    _row("celu", _celu, cuda("ActivationEluKernel.cu", "elu_kernel"), _OPMATH, ulps=3),
    _row("selu", _selu, cuda("ActivationEluKernel.cu", "elu_kernel"), _OPMATH, ulps=3),
    _row("leaky_relu", _leaky, cuda("ActivationLeakyReluKernel.cu", "leaky_relu_kernel"), _OPMATH,
         "F.leaky_relu(a, 0.1)"),
    _row("gelu", _gelu, cuda("ActivationGeluKernel.cu", "GeluCUDAKernelImpl"),
         "x * 0.5 * (1 + erf(x * sqrt(1/2))) in opmath", ulps=4, zero_sign=False),
    _row("silu", _silu, cuda("ActivationSiluKernel.cu", "silu_kernel"),
         "x / (1 + exp(-x)) in opmath: NaN for -inf", ulps=4, zero_sign=False),
    _row("mish", _mish, cuda("ActivationMishKernel.cu", "mish_kernel"),
         "x * tanh(log1p(exp(x))) in opmath: NaN for -inf", ulps=6, zero_sign=False),
    _row("softplus", _softplus, cuda("ActivationSoftplusKernel.cu", "softplus_kernel"),
         "log1p(exp(x)) in opmath, x above the threshold", ulps=4),
    _row("logsigmoid", _log_sigmoid,
         cuda("ActivationLogSigmoidKernel.cu", "launch_log_sigmoid_forward_kernel"),
         "min(0, x) - log1p(exp(-|x|)) in opmath", ulps=4, zero_sign=False),
    _row("hardsigmoid", _hardsigmoid, cuda("ActivationHardsigmoidKernel.cu", "hardsigmoid_kernel"),
         "min(max(x + 3, 0), 6) times float32's 1/6 in opmath", ulps=1, zero_sign=False),
    _row("hardswish", _hardswish, cuda("ActivationHardswishKernel.cu", "hardswish_kernel"),
         "x * min(max(x + 3, 0), 6) times float32's 1/6 in opmath", ulps=1, zero_sign=False),
    _row("relu", _relu, cuda("TensorCompare.cu", "launch_clamp_scalar"),
         "NaN stays; a negative number becomes 0", accepts=(*INTS, *FLOATS), zero_sign=False),
)  # fmt: skip
