"""Comparisons and logic: operands are rounded to the common type first, and results are bool."""

from collections.abc import Callable

import numpy as np

from benchmarks.torch.rules.dtypes import ALL, COMPLEXES, FLOATS, REALS, REALS_AND_BOOL, Array
from benchmarks.torch.rules.elementwise import Compute, Functor, binary, unary
from benchmarks.torch.rules.row import Row
from benchmarks.torch.rules.sources import cite_page, cuda, native

_EQUALITY = cuda("CompareEQKernel.cu", "CompareEqFunctor, compare_eq_ne_kernel")
_ORDER = cuda("CompareKernels.cu", "CompareFunctor")
_LOGIC = cuda("BinaryLogicalOpsKernels.cu", "logical_and_kernel_cuda and its siblings")
_EXTREMES = cuda("MaxMinElementwiseKernel.cu", "maximum_kernel_cuda and its siblings")
_COMPARE = "compares in the common type, to which numbers and wider 0-dim tensors are rounded"


def _compare(name: str, computes: Compute, source: str, accepts: tuple[str, ...]) -> Row:
    functor = Functor(computes, result="bool")
    refuses = () if accepts == ALL else COMPLEXES
    call = f"torch.{name}(a, b)"
    make = binary(functor, call)
    return Row(name, "comparison", _COMPARE, source, accepts, make, call, refuses, out="castable")


def _logic(name: str, computes: Compute) -> Row:
    functor = Functor(computes, result="bool")
    call = f"torch.{name}(a, b)"
    make = binary(functor, call, numbers=False)
    rule = "each operand becomes bool in the common type: NaN and subnormal numbers are true"
    return Row(name, "comparison", rule, _LOGIC, ALL, make, call, out="castable")


def _truth(values: Array) -> Array:
    return np.asarray(values != 0)


def _larger(first: Array, second: Array) -> Array:
    return np.where(
        np.isnan(first), first, np.where(np.isnan(second), second, np.maximum(first, second))
    )


def _smaller(first: Array, second: Array) -> Array:
    return np.where(
        np.isnan(first), first, np.where(np.isnan(second), second, np.minimum(first, second))
    )


def _extreme(name: str, computes: Compute) -> Row:
    functor = Functor(computes, zero_sign=False)
    rule = (
        "in the common type; a NaN wins over numbers"
        if "imum" in name
        else "a number wins over NaN"
    )
    call = f"torch.{name}(a, b)"
    make = binary(functor, call, numbers=False)
    return Row(
        name, "comparison", rule, _EXTREMES, REALS_AND_BOOL, make, call, COMPLEXES, "castable"
    )


def _test(
    name: str, computes: Callable[[Array], Array], source: str, accepts: tuple[str, ...]
) -> Row:
    functor = Functor(computes, result="bool")
    refuses = () if "complex64" in accepts else COMPLEXES
    of_bool = dict.fromkeys(("isposinf", "isneginf", "signbit"), "exact")
    out = {**of_bool, "logical_not": "castable"}.get(name, "none")
    call = f"torch.{name}(a)"
    make = unary(functor, call)
    return Row(name, "comparison", _TESTS[name], source, accepts, make, call, refuses, out)  # type: ignore[arg-type]


_TESTS = {
    "isnan": "self != self",
    "isinf": "|self| == infinity; a complex number by either part; integers never",
    "isfinite": "neither NaN nor infinite; integers always",
    "isposinf": "self == infinity",
    "isneginf": "self == -infinity",
    "signbit": "the sign's bit, also of NaN and of -0; unsigned types have none",
    "logical_not": "zero, of either sign, becomes true",
    "isreal": "true, but for complex numbers with an imaginary part other than zero",
}


def _is_finite(values: Array) -> Array:
    return np.asarray(np.isfinite(values))


def _signbit(values: Array) -> Array:
    return np.asarray(np.signbit(values) if values.dtype.kind == "f" else values < 0)


def _close(first: Array, second: Array) -> Array:
    """Follow isclose's operators with its default tolerances, each rounded to the tensor's type."""
    return np.isclose(first, second, rtol=1e-5, atol=1e-8)


ROWS = (
    _compare("eq", lambda a, b: a == b, _EQUALITY, ALL),
    _compare("ne", lambda a, b: a != b, _EQUALITY, ALL),
    _compare("lt", lambda a, b: a < b, _ORDER, REALS_AND_BOOL),
    _compare("le", lambda a, b: a <= b, _ORDER, REALS_AND_BOOL),
    _compare("gt", lambda a, b: a > b, _ORDER, REALS_AND_BOOL),
    _compare("ge", lambda a, b: a >= b, _ORDER, REALS_AND_BOOL),
    _logic("logical_and", lambda a, b: _truth(a) & _truth(b)),
    _logic("logical_or", lambda a, b: _truth(a) | _truth(b)),
    _logic("logical_xor", lambda a, b: _truth(a) ^ _truth(b)),
    _extreme("maximum", _larger),
    _extreme("minimum", _smaller),
    _extreme("fmax", np.fmax),
    _extreme("fmin", np.fmin),
    _test("isnan", np.isnan, native("TensorCompare.cpp", "isnan"), ALL),
    _test("isinf", np.isinf, native("TensorCompare.cpp", "isinf"), ALL),
    _test("isfinite", _is_finite, native("TensorCompare.cpp", "isfinite"), ALL),
    _test("isposinf", np.isposinf, cuda("TensorCompare.cu", "isposinf_kernel_impl"), FLOATS),
    _test("isneginf", np.isneginf, cuda("TensorCompare.cu", "isneginf_kernel_impl"), FLOATS),
    _test("signbit", _signbit, cite_page("signbit"), REALS),
    _test(
        "logical_not", lambda a: a == 0, cuda("UnarySignKernels.cu", "logical_not_kernel_cuda"), ALL
    ),
    _test("isreal", lambda a: np.imag(a) == 0, native("TensorCompare.cpp", "isreal"), ALL),
)
