"""Limits, choices and functions of three operands."""

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.torch.rules.dtypes import (
    COMPLEXES,
    FLOATS,
    INTS,
    REALS,
    Array,
    cast,
    is_float,
    largest,
    opmath,
    special_values,
)
from benchmarks.torch.rules.exact import MOVED, make_moves, results
from benchmarks.torch.rules.row import Case, Expected, Operand, Row
from benchmarks.torch.rules.sources import cite_page, cuda, header, native

_CLAMP = cuda("TensorCompare.cu", "launch_clamp_scalar")
_TENSORS = cuda("TensorCompare.cu", "clamp_kernel_impl")
_POINTWISE = header("ATen/native/cuda/DeviceAddCmulCdiv.cuh", "pointwise_op_impl")
_LERP = header("ATen/native/Lerp.h", "lerp")
Limit = float | None


def _limited(
    call: str, low: Limit, high: Limit, whole: tuple[int, int] = (0, 2)
) -> Callable[[Row, str], Iterator[Case]]:
    """Make a case of numbers as limits, which stay in opmath."""

    def make(row: Row, dtype: str) -> Iterator[Case]:
        values = special_values(dtype)
        wide = cast(values, opmath(dtype))
        minimum, maximum = (low, high) if is_float(dtype) else whole
        text = call.format(minimum, maximum)
        with np.errstate(invalid="ignore"):
            if low is not None and minimum is not None:
                wide = np.where(wide < np.asarray(minimum, dtype=wide.dtype), minimum, wide)
            if high is not None and maximum is not None:
                wide = np.where(wide > np.asarray(maximum, dtype=wide.dtype), maximum, wide)
        typed = wide.astype(opmath(dtype))
        expected = (Expected(dtype, (cast(typed, dtype),), zero_sign=False),)
        yield Case(text, (Operand(values, dtype),), expected, label=dtype)

    return make


def _triples(dtype: str) -> list[Operand]:
    values = special_values(dtype)
    count = len(values)
    columns = np.repeat(values, count), np.tile(values, count), np.roll(np.tile(values, count), 5)
    return [Operand(column, dtype) for column in columns]


def _three(
    call: str, function: Callable[..., tuple[Array, ...]], zero_sign: bool = True
) -> Callable[[Row, str], Iterator[Case]]:
    """Make a case of three tensors, computed in opmath and rounded once."""

    def make(row: Row, dtype: str) -> Iterator[Case]:
        operands = _triples(dtype)
        with np.errstate(all="ignore"):
            computed = function(*(cast(operand.values, opmath(dtype)) for operand in operands))
            choices = tuple(cast(cast(result, opmath(dtype)), dtype) for result in computed)
        expected = Expected(dtype, choices, zero_sign=zero_sign)
        yield Case(call, tuple(operands), (expected,), label=dtype)

    return make


def _clamp_tensors(values: Array, low: Array, high: Array) -> tuple[Array, ...]:
    limited = np.where(values < low, low, values)
    limited = np.where(high < limited, high, limited)
    if values.dtype.kind == "f":
        for operand in (high, low, values):
            limited = np.where(np.isnan(operand), operand, limited)
    return (limited,)


def _wide(values: Array) -> Array:
    return values.astype("longdouble") if values.dtype.kind == "f" else values


def _addcmul(first: Array, second: Array, third: Array) -> tuple[Array, ...]:
    """Add a product: floats with one rounding, integers wrap."""
    return (_wide(first) + _wide(second) * _wide(third),)


def _addcdiv(first: Array, second: Array, third: Array) -> tuple[Array, ...]:
    return (first + second / third,)


def _addcdiv_scaled(first: Array, second: Array, third: Array) -> tuple[Array, ...]:
    quotient = second / third
    return (_wide(first) + 2 * _wide(quotient),)


def _lerp(start: Array, end: Array, weight: Array) -> tuple[Array, ...]:
    """Interpolate from the nearer end, with or without fused multiplication and addition."""
    difference = end - start
    near = np.abs(weight) < 0.5
    unit = np.asarray(1, dtype=weight.dtype)
    plain = np.where(near, start + weight * difference, end - difference * (unit - weight))
    fused = np.where(
        near,
        _wide(start) + _wide(weight) * _wide(difference),
        _wide(end) - _wide(difference) * _wide(unit - weight),
    )
    return plain, fused


def _where(call: str, first: str, second: str) -> Callable[[Row, str], Iterator[Case]]:
    """Make a case that chooses between a tensor and a tensor or a number."""

    def make(row: Row, dtype: str) -> Iterator[Case]:
        values = special_values(dtype)
        mask = np.arange(len(values)) % 3 == 0
        turned = values[::-1].copy()
        operands = (Operand(mask, "bool"), Operand(values, dtype), Operand(turned, dtype))
        yield Case(call, operands, results(np.where(mask, values, turned), dtype), label=dtype)
        if dtype in FLOATS:
            number = cast(np.asarray(1.7), dtype)
            numbered = results(np.where(mask, values, number), dtype)
            yield Case(first, operands[:2], numbered, label=f"{dtype} number")
        if dtype != "bool":
            zero = results(np.where(mask, values, np.zeros_like(values)), dtype)
            yield Case(second, operands[:2], zero, label=f"{dtype} 0")

    return make


def _nan_to_num(row: Row, dtype: str) -> Iterator[Case]:
    values = special_values(dtype)
    replaced = values
    if is_float(dtype):
        limit = largest(dtype)
        replaced = np.where(np.isnan(values), 0, np.clip(values, -limit, limit))
    operands = (Operand(values, dtype),)
    yield Case("torch.nan_to_num(a)", operands, results(replaced, dtype), label=dtype)


def _masked_fill(row: Row, dtype: str) -> Iterator[Case]:
    values = special_values(dtype)
    mask = np.arange(len(values)) % 3 == 0
    operands = (Operand(values, dtype), Operand(mask, "bool"))
    number: float | int = 1.7 if is_float(dtype) else 1
    filling = cast(np.asarray(number), dtype)
    expected = results(np.where(mask, filling, values), dtype)
    yield Case(f"a.masked_fill(b, {number})", operands, expected, label=dtype)


def _row(
    name: str,
    make: Callable[[Row, str], Iterator[Case]],
    rule: str,
    source: str,
    accepts: tuple[str, ...] = REALS,
    call: str = "",
) -> Row:
    refuses = COMPLEXES if call else ()
    return Row(name, "selection", rule, source, accepts, make, call, refuses)


_NUMBERS = "numbers stay in opmath, NaN stays NaN; the result is rounded to the tensor's type"

ROWS = (
    _row("clamp", _limited("torch.clamp(a, {0}, {1})", 0.1, 1.7), _NUMBERS, _CLAMP, REALS,
         "torch.clamp(a, 0, 1)"),
    _row("clamp_min", _limited("torch.clamp_min(a, {0})", 0.1, None), _NUMBERS, _CLAMP, REALS,
         "torch.clamp_min(a, 0)"),
    _row("clamp_max", _limited("torch.clamp_max(a, {1})", None, 1.7), _NUMBERS, _CLAMP, REALS,
         "torch.clamp_max(a, 1)"),
    _row("clip", _limited("torch.clip(a, {0}, {1})", 0.1, 1.7), _NUMBERS, _CLAMP, REALS,
         "torch.clip(a, 0, 1)"),
    _row("nn.functional.hardtanh", _limited("F.hardtanh(a, {0}, {1})", -0.1, 1.7), _NUMBERS,
         native("Activation.cpp", "hardtanh_out"), (*FLOATS, *INTS)),
    _row("nn.functional.relu6", _limited("F.relu6(a)", 0.0, 6.0, (0, 6)), _NUMBERS,
         native("Activation.cpp", "hardtanh_out"), FLOATS),
    _row("clamp.tensors", _three("torch.clamp(a, b, c)", _clamp_tensors, False),
         "min(max(self, lower), upper), of which C leaves zero's sign open; a NaN in any operand wins", _TENSORS, REALS, "torch.clamp(a, b, c)"),
    _row("addcmul", _three("torch.addcmul(a, b, c)", _addcmul),
         "fma(b, c, a) in opmath", _POINTWISE),
    _row("addcdiv", _three("torch.addcdiv(a, b, c)", _addcdiv), "a + b / c in opmath", _POINTWISE,
         FLOATS),
    _row("addcdiv.value", _three("torch.addcdiv(a, b, c, value=2)", _addcdiv_scaled),
         "fma(value, b / c, a) in opmath", _POINTWISE, FLOATS),
    _row("lerp", _three("torch.lerp(a, b, c)", _lerp),
         "from the start for |weight| < 1/2, otherwise from the end", _LERP, FLOATS),
    _row("where", _where("torch.where(a, b, c)", "torch.where(a, b, 1.7)", "torch.where(a, b, 0)"),
         "elements keep their bits; a number is rounded to the tensor's type",
         cuda("TensorCompare.cu", "where_kernel_impl"), MOVED),
    _row("masked_fill", _masked_fill, "the number is rounded to the tensor's type",
         cite_page("Tensor.masked_fill"), MOVED),
    _row("nan_to_num", _nan_to_num, "NaN becomes 0, infinities the largest finite numbers",
         cite_page("nan_to_num"), REALS),
    _row("masked_select", make_moves("torch.masked_select(a, a == a)",
         lambda a: a[a == a].ravel()), "in the order of the elements",
         cite_page("masked_select"), MOVED),
)  # fmt: skip
