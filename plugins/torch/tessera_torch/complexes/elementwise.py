"""Element-wise operators of complex tensors."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch.complexes import functions, fusion
from tessera_torch.complexes.functions import Pair
from tessera_torch.complexes.parts import REAL_OF, split
from tessera_torch.refusal import Unsupported

_WIDE: Final = torch.float64


def common(*operands: Any) -> Any:
    """Return the complex type in which operands are computed, by PyTorch's rules."""
    defined_operands = [operand for operand in operands if operand is not None]
    dtype = torch.result_type(defined_operands[0], defined_operands[-1])
    for operand in defined_operands[1:-1]:
        dtype = torch.promote_types(dtype, torch.result_type(defined_operands[0], operand))
    if dtype.is_complex and dtype not in REAL_OF:
        raise Unsupported("complex", operands, f"results of {dtype} are not computed")
    return dtype


def parts_in(operand: Any, dtype: Any, device: Any) -> Pair:
    """Return the parts of a tensor or number, as tensors of a real type on a device."""
    real, imag = (
        part.to(device=device, dtype=dtype)
        if isinstance(part, torch.Tensor)
        else torch.full((), part, dtype=dtype, device=device)  # a graph can capture it
        for part in split(operand)
    )
    return real, imag


def _place(*operands: Any) -> Any:
    return next(
        operand.device
        for operand in operands
        if isinstance(operand, torch.Tensor) and operand.is_cuda
    )


def _unary(name: str, function: Callable[[Pair], Pair]) -> Callable[..., Any]:
    def compute(self: Any) -> Any:
        return fusion.compute(name, function, (self,), _WIDE, self.dtype)

    return compute


def _binary(
    name: str, function: Callable[[Pair, Pair], Pair], wide: bool = False
) -> Callable[..., Any]:
    def compute(self: Any, other: Any) -> Any:
        dtype = common(self, other)
        inner = _WIDE if wide else REAL_OF[dtype]
        return fusion.compute(name, function, (self, other), inner, dtype)

    return compute


multiply: Final = _binary("mul", functions.multiply)
_divide: Final = _binary("div", functions.divide)
_raise: Final = _binary("pow", functions.power, wide=True)


def divide(self: Any, other: Any, rounding_mode: str | None = None) -> Any:
    """Return a quotient. Raises RuntimeError for rounded ones."""
    if rounding_mode is not None:
        raise NotImplementedError("rounded division is not defined for complex numbers")
    return _divide(self, other)


def power(self: Any, exponent: Any) -> Any:
    """Return a power; the usual exponents are computed exactly."""
    if not isinstance(exponent, torch.Tensor):
        if exponent == 2:
            return multiply(self, self).to(common(self, exponent))
        if exponent == 0.5:
            return _COMPUTED["sqrt"](self)
        if exponent == -1:
            return _COMPUTED["reciprocal"](self)
    return _raise(self, exponent)


def _add(a: Pair, b: Pair) -> Pair:
    return a[0] + b[0], a[1] + b[1]


def _add_scaled(a: Pair, b: Pair, scale: Pair) -> Pair:
    return _add(a, functions.multiply(scale, b))


def _subtract(a: Pair, b: Pair) -> Pair:
    return a[0] - b[0], a[1] - b[1]


def add(self: Any, other: Any, alpha: Any = 1) -> Any:
    """Return self + alpha * other."""
    dtype = common(self, other)
    if alpha in (1, -1):
        name, function = ("add", _add) if alpha == 1 else ("sub", _subtract)
        return fusion.compute(name, function, (self, other), REAL_OF[dtype], dtype)
    operands = (self, other, alpha)
    return fusion.compute("add scaled", _add_scaled, operands, REAL_OF[dtype], dtype)


def subtract(self: Any, other: Any, alpha: Any = 1) -> Any:
    """Return self - alpha * other."""
    return add(self, other, -alpha)


def _reversed(self: Any, other: Any, alpha: Any = 1) -> Any:
    if not isinstance(other, torch.Tensor):
        other = torch.full((), other, dtype=common(self, other), device=self.device)
    return subtract(other, self, alpha)


def _equal(self: Any, other: Any) -> Any:
    dtype, device = common(self, other), _place(self, other)
    a, b = (parts_in(operand, REAL_OF[dtype], device) for operand in (self, other))
    return (a[0] == b[0]) & (a[1] == b[1])


def is_nonzero(tensor: Any) -> Any:
    """Return where a tensor is not 0."""
    if not tensor.is_complex():
        return tensor != 0
    real, imag = split(tensor)
    return (real != 0) | (imag != 0)


def _logical(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda self, other: function(is_nonzero(self), is_nonzero(other))


def conjugate(self: Any) -> Any:
    """Return a new tensor of the conjugate numbers."""
    return fusion.compute("conj", lambda a: (a[0], -a[1]), (self,), REAL_OF[self.dtype], self.dtype)


def _negative(self: Any) -> Any:
    return fusion.compute("neg", lambda a: (-a[0], -a[1]), (self,), REAL_OF[self.dtype], self.dtype)


def _absolute(self: Any) -> Any:
    real, imag = split(self)
    return torch.hypot(real, imag)


def _angle(self: Any) -> Any:
    real, imag = split(self)
    return torch.atan2(imag, real)


def _either(function: Callable[[Any], Any], is_conjunction: bool = False) -> Callable[..., Any]:
    def compute(self: Any) -> Any:
        real, imag = (function(part) for part in split(self))
        return real & imag if is_conjunction else real | imag

    return compute


def _choose(condition: Pair, a: Pair, b: Pair) -> Pair:
    is_first = condition[0] != 0
    return torch.where(is_first, a[0], b[0]), torch.where(is_first, a[1], b[1])


def where(condition: Any, self: Any, other: Any) -> Any:
    """Return elements of one of two tensors."""
    dtype = common(self, other)
    return fusion.compute("where", _choose, (condition, self, other), REAL_OF[dtype], dtype)


def _masked_fill(self: Any, mask: Any, value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_cuda:
        number = value.item() if isinstance(value, torch.Tensor) else value
        value = torch.full((), number, dtype=self.dtype, device=self.device)
    return where(mask, value, self).to(self.dtype)


def _lerp(self: Any, end: Any, weight: Any) -> Any:
    return add(self, multiply(weight, subtract(end, self))).to(self.dtype)


def _addcmul(self: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    return add(self, multiply(tensor1, tensor2), value)


def _addcdiv(self: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    return add(self, divide(tensor1, tensor2), value)


def _tanh_backward(grad_output: Any, output: Any) -> Any:
    return multiply(grad_output, conjugate(_reversed(multiply(output, output), 1)))


def _sigmoid_backward(grad_output: Any, output: Any) -> Any:
    return multiply(grad_output, conjugate(multiply(_reversed(output, 1), output)))


def _silu(self: Any) -> Any:
    return multiply(self, self.sigmoid())


def _silu_backward(grad_output: Any, self: Any) -> Any:
    sigmoid = self.sigmoid()
    slope = multiply(sigmoid, add(multiply(self, _reversed(sigmoid, 1)), 1))
    return multiply(grad_output, conjugate(slope))


def _log_add_exp(self: Any, other: Any) -> Any:
    """Return log(exp(self) + exp(other)) from the larger number, so that nothing overflows."""
    dtype, device = common(self, other), _place(self, other)
    a, b = (fusion.join_parts(*parts_in(operand, _WIDE, device)) for operand in (self, other))
    is_larger = a.real >= b.real
    large, small = where(is_larger, a, b), where(is_larger, b, a)
    gap = fusion.join_parts(small.real - large.real, small.imag - large.imag)
    result = add(large, gap.exp().log1p())
    of_same = where(a.real < 0, b, add(a.exp(), b.exp()).log())  # if both are the same infinity
    return where((a.real == b.real) & a.real.isinf(), of_same, result).to(dtype)


def _fill(self: Any, value: Any) -> Any:
    return fusion.join_parts(
        *(part.expand(self.shape) for part in parts_in(value, REAL_OF[self.dtype], self.device))
    )


_COMPUTED: Final = {name: _unary(name, one) for name, one in functions.FUNCTIONS.items()}
OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    **_COMPUTED,
    "add": add, "sub": subtract, "rsub": _reversed, "mul": multiply, "div": divide, "pow": power,
    "square": lambda self: multiply(self, self), "neg": _negative, "abs": _absolute,
    "angle": _angle, "conj_physical": conjugate, "_conj_physical": conjugate,
    "isnan": _either(torch.isnan), "isinf": _either(torch.isinf),
    "isfinite": _either(torch.isfinite, is_conjunction=True),
    "eq": _equal, "ne": lambda self, other: ~_equal(self, other),
    "logical_not": lambda self: ~is_nonzero(self),
    "logical_and": _logical(torch.bitwise_and), "logical_or": _logical(torch.bitwise_or),
    "logical_xor": _logical(torch.bitwise_xor),
    "where": where, "masked_fill": _masked_fill, "fill": _fill, "lerp": _lerp,
    "addcmul": _addcmul, "addcdiv": _addcdiv,
    "silu": _silu, "silu_backward": _silu_backward, "logaddexp": _log_add_exp,
    "tanh_backward": _tanh_backward, "sigmoid_backward": _sigmoid_backward,
}  # fmt: skip
