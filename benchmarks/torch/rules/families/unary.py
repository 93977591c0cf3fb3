"""Functions of one operand: opmath's function, rounded once to the tensor's type."""

import math
from collections.abc import Callable

import numpy as np

from benchmarks.torch.rules.dtypes import COMPLEXES, FLOATS, REALS, REALS_AND_BOOL, Array, largest
from benchmarks.torch.rules.eight_bits import EIGHTS
from benchmarks.torch.rules.elementwise import Functor, unary
from benchmarks.torch.rules.row import Row
from benchmarks.torch.rules.sources import cite_page, cuda, native

_ONCE = "one function of libdevice in opmath, rounded once; integers become float32"
_FRACTION = "UnaryFractionKernels.cu"
_SPECIAL = "UnarySpecialOpsKernel.cu"


def wide(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Compute in a wider type than the operand's."""
    return lambda values: function(values.astype("longdouble"))


def _error(values: Array, complement: bool) -> Array:
    function = math.erfc if complement else math.erf
    return np.array([function(float(x)) for x in np.ravel(values)]).reshape(np.shape(values))


def _lgamma(values: Array) -> Array:
    def logarithm(number: float) -> float:
        if math.isnan(number):
            return number
        if math.isinf(number) or (number <= 0 and number == math.floor(number)):
            return math.inf
        return math.lgamma(number) if abs(number) < 1e305 else math.inf

    return np.array([logarithm(float(x)) for x in np.ravel(values)]).reshape(np.shape(values))


def _inverse_error(values: Array) -> Array:
    """Return erf's inverse by Newton's steps, from a number that is exact near 0."""

    def inverse(number: float) -> float:
        if not abs(number) < 1:
            return math.copysign(math.inf, number) if abs(number) == 1 else math.nan
        place = number * math.sqrt(math.pi) / 2
        for _ in range(60 if abs(number) > 1e-8 else 0):
            slope = 2 / math.sqrt(math.pi) * math.exp(-place * place)
            place -= (math.erf(place) - number) / slope
        return place

    return np.array([inverse(float(x)) for x in np.ravel(values)]).reshape(np.shape(values))


def _sigmoid(values: Array) -> Array:
    return 1 / (1 + exponential(-values))


def exponential(values: Array) -> Array:
    """Return exp, which overflows where the operand's type does."""
    rounded = np.exp(values.astype("longdouble"))
    return np.where(rounded > largest(str(values.dtype)), np.inf, rounded)


def _logit(values: Array) -> Array:
    return np.asarray(np.log((values / (values.dtype.type(1) - values)).astype("longdouble")))


def _sinc(values: Array) -> Array:
    product = (values.dtype.type(np.pi) * values).astype("longdouble")
    return np.where(values == 0, 1, np.sin(product) / product)


def _log1p(values: Array) -> Array:
    return np.log1p(values)


def _sign(values: Array) -> Array:
    if values.dtype == bool:
        return values
    return np.asarray(
        ((values > 0).astype("int8") - (values < 0).astype("int8")).astype(values.dtype)
    )


def _absolute(values: Array) -> Array:
    return np.abs(values)


def _float(
    name: str,
    function: Callable[[Array], Array],
    source: str,
    ulps: float,
    rule: str = _ONCE,
    scale: Callable[[Array], Array] | None = None,
    refuses: tuple[str, ...] = (),
) -> Row:
    functor = Functor(function, result="float", ulps=ulps, scale=scale)
    call = f"torch.{name}(a)"
    make = unary(functor, call)
    return Row(name, "unary", rule, source, REALS_AND_BOOL, make, call, refuses, "castable")


def _same(
    name: str,
    function: Callable[[Array], Array],
    source: str,
    rule: str,
    accepts: tuple[str, ...] = FLOATS,
    refuses: tuple[str, ...] = (),
) -> Row:
    call = f"torch.{name}(a)"
    make = unary(Functor(function), call)
    out = {"positive": "none", "square": "castable"}.get(name, "exact")
    return Row(name, "unary", rule, source, accepts, make, call, refuses, out)  # type: ignore[arg-type]


def _trigonometry(name: str) -> str:
    return cuda(f"UnaryGeometric{name}Kernel.cu", f"{name.lower()}_kernel_cuda")


_LOGS = "UnaryLogKernels.cu"
_INTEGRAL = "exact; integers are unchanged"
_CONSTANT = "the number, in opmath, times a constant; rounded once"

ROWS = (
    _float("exp", wide(np.exp), cuda("UnaryOpsKernel.cu", "exp_kernel_cuda"), 2),
    _float("exp2", wide(np.exp2), cuda(_SPECIAL, "exp2_kernel_cuda"), 2),
    _float("expm1", wide(np.expm1), cuda("UnaryOpsKernel.cu", "expm1_kernel_cuda"), 2),
    _float("log", wide(np.log), cuda(_LOGS, "log_kernel_cuda"), 2),
    _float("log2", wide(np.log2), cuda(_LOGS, "log2_kernel_cuda"), 2),
    _float("log10", wide(np.log10), cuda(_LOGS, "log10_kernel_cuda"), 2),
    _float("log1p", wide(_log1p), cuda(_LOGS, "log1p_kernel_cuda"), 2),
    _float("sin", wide(np.sin), _trigonometry("Sin"), 2),
    _float("cos", wide(np.cos), _trigonometry("Cos"), 2),
    _float("tan", wide(np.tan), _trigonometry("Tan"), 4),
    _float("asin", wide(np.arcsin), _trigonometry("Asin"), 4),
    _float("acos", wide(np.arccos), _trigonometry("Acos"), 4),
    _float("atan", wide(np.arctan), _trigonometry("Atan"), 3),
    _float("sinh", wide(np.sinh), _trigonometry("Sinh"), 4),
    _float("cosh", wide(np.cosh), _trigonometry("Cosh"), 4),
    _float("tanh", wide(np.tanh), _trigonometry("Tanh"), 3),
    _float("asinh", wide(np.arcsinh), _trigonometry("Asinh"), 4),
    _float("acosh", wide(np.arccosh), _trigonometry("Acosh"), 4),
    _float("atanh", wide(np.arctanh), _trigonometry("Atanh"), 4),
    _float("sqrt", np.sqrt, cuda("UnaryOpsKernel.cu", "sqrt_kernel_cuda"), 0,
           "the correctly rounded root in opmath, rounded once"),
    _float("rsqrt", wide(lambda a: 1 / np.sqrt(a)), cuda("UnaryOpsKernel.cu", "rsqrt_kernel_cuda"), 2),
    _float("reciprocal", lambda a: np.ones_like(a) / a, cuda(_FRACTION, "reciprocal_kernel_cuda"), 0,
           "1 / self in opmath, rounded once"),
    _float("sigmoid", _sigmoid, cuda(_SPECIAL, "sigmoid_kernel_cuda"), 3,
           "1 / (1 + exp(-self)) in opmath, rounded once"),
    _float("logit", _logit, cuda(_SPECIAL, "logit_kernel_cuda"), 3,
           "log(self / (1 - self)) in opmath without eps"),
    _float("sinc", _sinc, cuda(_SPECIAL, "sinc_kernel_cuda"), 4,
           "1 at 0, otherwise sin(x) / x of the product with pi in opmath"),
    _float("erf", lambda a: _error(a, False), cuda(_SPECIAL, "erf_kernel_cuda"), 3),
    _float("erfinv", _inverse_error, cuda(_SPECIAL, "erfinv_kernel_cuda"), 5,
           "in opmath, rounded once; infinite at -1 and 1, NaN beyond; complex numbers are refused",
           refuses=COMPLEXES),
    _float("erfc", lambda a: _error(a, True), cuda(_SPECIAL, "erfc_kernel_cuda"), 5),
    _float("lgamma", _lgamma, cuda("UnaryGammaKernels.cu", "lgamma_kernel_cuda"), 64,
           scale=lambda a: np.maximum(np.abs(_lgamma(a)), 1)),
    _same("abs", _absolute, cuda("AbsKernel.cu", "AbsFunctor"),
          "without the sign, also of NaN; the least integer stays; 8-bit floats are refused",
          REALS_AND_BOOL, EIGHTS),
    _same("neg", lambda a: (np.zeros_like(a) - a if a.dtype.kind in "iu" else -a),
          cuda("UnarySignKernels.cu", "neg_kernel_cuda"), "integers wrap; bool is refused",
          REALS, ("bool",)),
    _same("sign", _sign, cuda("UnarySignKernels.cu", "sign_kernel_cuda"),
          "(0 < self) - (self < 0): 0 for NaN and for zeros of either sign", REALS_AND_BOOL,
          COMPLEXES),
    _same("ceil", lambda a: a if a.dtype.kind in "iu" else np.ceil(a),
          cuda(_FRACTION, "ceil_kernel_cuda"), _INTEGRAL, REALS, COMPLEXES),
    _same("floor", lambda a: a if a.dtype.kind in "iu" else np.floor(a),
          cuda(_FRACTION, "floor_kernel_cuda"), _INTEGRAL, REALS, COMPLEXES),
    _same("trunc", lambda a: a if a.dtype.kind in "iu" else np.trunc(a),
          cuda(_FRACTION, "trunc_kernel_cuda"), _INTEGRAL, REALS, COMPLEXES),
    _same("round", lambda a: a if a.dtype.kind in "iu" else np.rint(a),
          cuda(_FRACTION, "round_kernel_cuda, nearbyint_wrapper"), "to the nearest even integer",
          REALS, COMPLEXES),
    _same("frac", lambda a: a - np.trunc(a), cuda(_FRACTION, "frac_kernel_cuda"),
          "self - trunc(self): NaN for infinities"),
    _same("positive", lambda a: a, native("UnaryOps.cpp", "positive"), "unchanged; bool is refused",
          REALS, ("bool",)),
    _same("square", lambda a: (np.multiply(a, a)), cite_page("square"),
          "pow with the exponent 2: a product in opmath, rounded once; integers wrap", REALS),
)  # fmt: skip
