"""Operations on tensors, computed by numpy in the host: operators, functions and reductions."""

import math
import operator

import numpy as np

from torch.tensor import Tensor, as_type, host_of, make, wide
from torch.types import TYPES, device as Device, from_numpy_type

_FLOAT, _INT = TYPES["float32"], TYPES["int64"]


def _place_of(*values):
    places = [value.device for value in values if isinstance(value, Tensor)]
    return next((place for place in places if place.type == "cuda"), (places or [Device("cpu")])[0])


def _result_type(*values):
    """Return the element type that torch promotes tensors and numbers to."""
    kinds = [value.dtype for value in values if isinstance(value, Tensor)]
    dims = [value for value in values if isinstance(value, Tensor) and value.ndim]
    kinds = [value.dtype for value in dims] or kinds
    best = kinds[0]
    for kind in kinds[1:]:
        if kind is not best:
            pair = np.result_type(best.numpy, kind.numpy)
            best = from_numpy_type(pair) if "bfloat16" not in (best.name, kind.name) else _FLOAT
    scalars = [v for v in values if isinstance(v, Tensor) and not v.ndim]
    is_float = any(isinstance(v, float) for v in values) or any(
        scalar.dtype.is_floating_point for scalar in scalars
    )
    if is_float and not best.is_floating_point:
        return _FLOAT
    if best.name == "bool" and any(type(value) is int for value in values):
        return _INT
    return best


def _elementwise(function, kind=None, floating=False):
    def apply(*values, out=None):
        result = kind or _result_type(*values)
        if floating and not result.is_floating_point:
            result = _FLOAT
        arrays = [wide(value.host()) if isinstance(value, Tensor) else value for value in values]
        if kind is None:
            working = wide(np.empty(0, result.numpy)).dtype
            arrays = [a.astype(working) if isinstance(a, np.ndarray) else a for a in arrays]
        with np.errstate(all="ignore"):
            values_of_result = function(*arrays)
        if out is not None:
            return out.store(values_of_result)
        return make(values_of_result, result, _place_of(*values))

    return apply


_BOOL = TYPES["bool"]
_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide,
    "mod": np.mod, "pow": np.power, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "lshift": np.left_shift, "rshift": np.right_shift,
}  # fmt: skip
_COMPARISONS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


def _reflect(apply):
    return lambda self, other: apply(make_like(other, self), self)


def make_like(value, tensor):
    """Return a number as a tensor of no dimensions beside another tensor."""
    if isinstance(value, Tensor):
        return value
    return make(np.asarray(value), _result_type(tensor, value), tensor.device)


for _name, _function in _BINARY.items():
    _apply = _elementwise(_function)
    setattr(Tensor, f"__{_name}__", _apply)
    setattr(Tensor, f"__r{_name}__", _reflect(_apply))
    setattr(
        Tensor, f"__i{_name}__", lambda self, other, f=_apply: self.store(f(self, other).host())
    )
for _name, _function in _COMPARISONS.items():
    setattr(Tensor, f"__{_name}__", _elementwise(_function, _BOOL))
true_divide = _elementwise(np.true_divide, floating=True)
Tensor.__truediv__ = true_divide
Tensor.__rtruediv__ = _reflect(true_divide)
Tensor.__itruediv__ = lambda self, other: self.store(true_divide(self, other).host())
Tensor.__neg__ = _elementwise(np.negative)
Tensor.__invert__ = _elementwise(np.invert)

_erf = np.vectorize(math.erf, otypes=[np.float64])
FUNCTIONS = {
    name: _elementwise(function, floating=True)
    for name, function in {
        "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt,
        "rsqrt": lambda a: 1 / np.sqrt(a), "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
        "asin": np.arcsin, "erf": _erf, "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    }.items()
}  # fmt: skip
FUNCTIONS |= {
    "abs": _elementwise(np.abs), "floor": _elementwise(np.floor), "ceil": _elementwise(np.ceil),
    "round": _elementwise(np.round), "relu": _elementwise(lambda a: np.maximum(a, 0)),
    "add": Tensor.__add__, "sub": Tensor.__sub__, "mul": Tensor.__mul__, "div": true_divide,
    "maximum": _elementwise(np.maximum), "minimum": _elementwise(np.minimum),
    "pow": Tensor.__pow__, "isnan": _elementwise(np.isnan, _BOOL),
    "isinf": _elementwise(np.isinf, _BOOL), "isfinite": _elementwise(np.isfinite, _BOOL),
    "logical_or": _elementwise(np.logical_or, _BOOL),
    "logical_and": _elementwise(np.logical_and, _BOOL),
    "logical_not": _elementwise(np.logical_not, _BOOL),
    "signbit": _elementwise(np.signbit, _BOOL),
    "eq": Tensor.__eq__, "ne": Tensor.__ne__, "lt": Tensor.__lt__, "gt": Tensor.__gt__,
}  # fmt: skip


def clamp(tensor, min=None, max=None):  # noqa: A002  (torch's names)
    """Limit the elements to a range."""
    return make(
        np.clip(wide(tensor.host()), host_of(min), host_of(max)), tensor.dtype, tensor.device
    )


def clamp_min(tensor, minimum):
    """Replace smaller elements by a number."""
    return clamp(tensor, minimum)


def masked_fill(tensor, mask, value):
    """Replace the elements of which the mask is true."""
    array = np.where(mask.host(), host_of(value), tensor.host())
    return make(array, tensor.dtype, tensor.device)


def matmul(first, second):
    """Multiply matrices: small floats are accumulated as float32."""
    with np.errstate(all="ignore"):
        product = np.matmul(wide(first.host()), wide(second.host()))
    return make(product, _result_type(first, second), _place_of(first, second))


def softmax(tensor, dim=None, axis=None, dtype=None):
    """Compute the softmax along a dimension."""
    along = dim if dim is not None else axis
    array = wide(tensor.host())
    exponentials = np.exp(array - array.max(axis=along, keepdims=True))
    result = exponentials / exponentials.sum(axis=along, keepdims=True)
    return make(result, as_type(dtype) if dtype else tensor.dtype, tensor.device)


def layer_norm(tensor, shape, weight=None, bias=None, eps=1e-5):
    """Normalize the last dimensions."""
    array = wide(tensor.host())
    axes = tuple(range(-len(shape), 0))
    centred = array - array.mean(axis=axes, keepdims=True)
    result = centred / np.sqrt((centred**2).mean(axis=axes, keepdims=True) + eps)
    result = result if weight is None else result * wide(weight.host())
    result = result if bias is None else result + wide(bias.host())
    return make(result, tensor.dtype, tensor.device)


def _reduce(function, promote):
    def apply(tensor, dim=None, keepdim=False, axis=None, dtype=None):
        along = dim if dim is not None else axis
        along = tuple(along) if isinstance(along, list) else along
        kind = promote(tensor.dtype) if dtype is None else as_type(dtype)
        array = wide(tensor.host())
        return make(function(array, axis=along, keepdims=keepdim), kind, tensor.device)

    return apply


def _same(kind):
    return kind


def _sum_type(kind):
    return kind if kind.is_floating_point else _INT


def _select(values, places):
    """Make torch's ``max`` or ``min``: of all, of two tensors, or values and places along one."""

    def apply(tensor, dim=None, keepdim=False, axis=None):
        if isinstance(dim, Tensor):
            return _elementwise(values)(tensor, dim)
        along = dim if dim is not None else axis
        array = wide(tensor.host())
        if along is None:
            return make(values.reduce(array.ravel()), tensor.dtype, tensor.device)
        chosen = places(array, axis=along, keepdims=True)
        best = np.take_along_axis(array, chosen, along)
        if not keepdim:
            chosen, best = chosen.squeeze(along), best.squeeze(along)
        return Selected(make(best, tensor.dtype, tensor.device), make(chosen, _INT, tensor.device))

    return apply


class Selected(tuple):
    """Values and their places."""

    __slots__ = ()

    def __new__(cls, values, indices):
        return super().__new__(cls, (values, indices))

    values = property(operator.itemgetter(0))
    indices = property(operator.itemgetter(1))


REDUCTIONS = {
    "sum": _reduce(np.sum, _sum_type), "mean": _reduce(np.mean, _same),
    "prod": _reduce(np.prod, _sum_type), "all": _reduce(np.all, lambda _: _BOOL),
    "any": _reduce(np.any, lambda _: _BOOL), "argmax": _reduce(np.argmax, lambda _: _INT),
    "argmin": _reduce(np.argmin, lambda _: _INT), "max": _select(np.maximum, np.argmax),
    "min": _select(np.minimum, np.argmin), "amax": _reduce(np.max, _same),
    "amin": _reduce(np.min, _same),
}  # fmt: skip


def cumsum(tensor, dim):
    """Compute running sums along a dimension."""
    return make(np.cumsum(wide(tensor.host()), axis=dim), _sum_type(tensor.dtype), tensor.device)


def cummax(tensor, dim=None, axis=None):
    """Return running maxima along a dimension, and the last place of each."""
    dim = axis if dim is None else dim
    array = wide(tensor.host())
    best = np.maximum.accumulate(array, axis=dim)
    shape = [-1 if axis == dim % array.ndim else 1 for axis in range(array.ndim)]
    places = np.arange(array.shape[dim]).reshape(shape)
    last = np.maximum.accumulate(np.where(array == best, places, 0), axis=dim)
    return Selected(make(best, tensor.dtype, tensor.device), make(last, _INT, tensor.device))


def where(condition, first, second):
    """Choose between two tensors."""
    kind = _result_type(*(v for v in (first, second) if isinstance(v, Tensor)))
    chosen = np.where(condition.host(), host_of(first), host_of(second))
    return make(chosen, kind, condition.device)


def equal(first, second):
    """Return whether two tensors have the same shape and elements."""
    return first.shape == second.shape and bool(np.array_equal(first.host(), second.host()))


def allclose(first, second, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Return whether two tensors are equal within tolerances."""
    a, b = (wide(value.host()).astype(np.float64) for value in (first, second))
    return bool(np.allclose(a, b, rtol, atol, equal_nan))


def tril(matrix):
    """Return the lower triangle."""
    return make(np.tril(matrix.host()), matrix.dtype, matrix.device)


def sort(tensor, dim=-1, descending=False, stable=False):
    """Return sorted values and their places."""
    array = tensor.host()
    order = np.argsort(-wide(array) if descending else array, axis=dim, kind="stable")
    best = np.take_along_axis(array, order, dim)
    return Selected(make(best, tensor.dtype, tensor.device), make(order, _INT, tensor.device))


def join(how):
    """Make torch's ``cat`` or ``stack``."""

    def apply(tensors, dim=0):
        parts = [tensor.host() for tensor in tensors]
        return make(how(parts, dim), tensors[0].dtype, tensors[0].device)

    return apply


def histc(tensor, bins=100, min=0, max=0):  # noqa: A002  (torch's names)
    """Count the elements in intervals of one width."""
    counts = np.histogram(wide(tensor.host()), bins, (min, max))[0]
    return make(counts, tensor.dtype, tensor.device)


def var_mean(tensor, dim=None, correction=1):
    """Return variance and mean along a dimension."""
    array = wide(tensor.host()).astype(np.float64)
    moments = (array.var(axis=dim, ddof=correction), array.mean(axis=dim))
    return tuple(make(values, tensor.dtype, tensor.device) for values in moments)


def gather(tensor, dim, index):
    """Take elements along a dimension."""
    return make(np.take_along_axis(tensor.host(), index.host(), dim), tensor.dtype, tensor.device)


FUNCTIONS |= REDUCTIONS | {
    "clamp": clamp, "clamp_min": clamp_min, "masked_fill": masked_fill,
    "matmul": matmul, "mm": matmul, "softmax": softmax, "cumsum": cumsum,
    "cummax": cummax, "where": where,
    "equal": equal, "allclose": allclose, "tril": tril, "sort": sort, "cat": join(np.concatenate),
    "stack": join(np.stack), "gather": gather, "histc": histc, "var_mean": var_mean,
    "true_divide": true_divide,
    "transpose": Tensor.transpose, "permute": Tensor.permute, "flatten": Tensor.flatten,
    "reshape": Tensor.reshape, "as_strided": Tensor.as_strided, "squeeze": Tensor.squeeze,
}  # fmt: skip
for _name, _function in FUNCTIONS.items():
    if _name not in ("where", "cat", "stack"):
        setattr(Tensor, _name, _function)
Tensor.__matmul__ = matmul
Tensor.__abs__ = FUNCTIONS["abs"]
