"""Numbers of elements, draws, quantiles, histograms and sums of logarithms."""

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.torch.rules.closeness import close
from benchmarks.torch.rules.dtypes import (
    FLOATS,
    HALVES,
    INTS,
    REALS_AND_BOOL,
    cast,
    opmath,
    special_values,
)
from benchmarks.torch.rules.elementwise import pairs
from benchmarks.torch.rules.exact import results
from benchmarks.torch.rules.row import Case, Expected, Operand, Row
from benchmarks.torch.rules.sources import cuda, native, op_info

Make = Callable[[Row, str], Iterator[Case]]
_WIDE = ("float32", "float64")


def _items(row: Row, dtype: str) -> Iterator[Case]:
    """Yield all special values as Python's numbers, and one that has no single element."""
    values = special_values(dtype)
    operand = Operand(values, dtype)
    name = "bool" if dtype == "bool" else "float" if dtype in FLOATS else "int"
    storage_dtype = {"bool": "bool", "float": "float64", "int": "int64"}[name]
    numbers = tuple(Expected(name, (np.asarray(value, dtype=storage_dtype),)) for value in values)
    yield Case("[number.item() for number in a]", (operand,), numbers, label=dtype)
    yield Case("a.item()", (operand,), refused=True, label=f"{dtype} of several")


def _draws(row: Row, dtype: str) -> Iterator[Case]:
    """Yield draws that have one outcome: of one weight, or of all weights without replacement."""
    certain = cast(np.array([[0.0, 2, 0], [0.5, 0, 0], [0, 0, 1e-3]]), dtype)
    expected = results(np.array([[1], [0], [2]]), "int64")
    yield Case("torch.multinomial(a, 1)", (Operand(certain, dtype),), expected, label=dtype)
    repeated = results(np.array([[1] * 3, [0] * 3, [2] * 3]), "int64")
    call = "torch.multinomial(a, 3, replacement=True)"
    yield Case(call, (Operand(certain, dtype),), repeated, label=f"{dtype} replaced")
    several = cast(np.array([[0.5, 0, 1.5, 0], [0, 1, 0, 3]]), dtype)
    expected = results(np.array([[0, 2], [1, 3]]), "int64")
    call = "torch.multinomial(a, 2).sort(1).values"
    yield Case(call, (Operand(several, dtype),), expected, label=f"{dtype} all")


def _quantiles(row: Row, dtype: str) -> Iterator[Case]:
    values = np.array([[4.0, -2, 8, 0, 1], [3, np.nan, 1, 2, 0], [1, 1, 1, 1, 1]])
    places = np.array([0.0, 0.25, 0.375, 0.5, 1])
    operands = Operand(cast(values, dtype), dtype), Operand(cast(places, dtype), dtype)
    quantiles = np.quantile(values, places, axis=1)
    expected = results(cast(quantiles, dtype), dtype, zero_sign=False)
    yield Case("torch.quantile(a, b, 1)", operands, expected, label=dtype)


def _histogram(row: Row, dtype: str) -> Iterator[Case]:
    """Yield numbers at both ends of a range, at the bins' borders, and outside."""
    inside = [0.0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 8]
    outside = [-1.0, 9, *([np.inf, -np.inf, np.nan] if dtype in (*HALVES, *_WIDE) else [])]
    values = cast(np.array([*inside, *outside]), dtype)
    counts = np.array([2, 2, 3, 4])
    expected = results(cast(counts, dtype), dtype)
    yield Case("torch.histc(a, 4, 0, 8)", (Operand(values, dtype),), expected, label=dtype)


def _sums_of_logarithms(row: Row, dtype: str) -> Iterator[Case]:
    """Yield all pairs of special values: of two elements, the order of additions is given."""
    first, second = (values.astype(opmath(dtype)) for values in pairs(dtype))
    with np.errstate(all="ignore"):
        low, high = np.minimum(first, second), np.maximum(first, second)
        added = np.log1p(np.exp((low - high).astype("longdouble"))) + high
        added = np.where((low == high) & ~np.isfinite(low), first, added)
        values = np.stack((first, second), axis=1)
        sizes = np.stack((first, np.abs(high)), axis=1)
        sums = close(np.stack((first, added), axis=1), dtype, 4, np.fmax(np.abs(sizes), 1))
    storage_dtype = "float32" if dtype == "bfloat16" else dtype
    operand = Operand(values.astype(storage_dtype), dtype)
    yield Case("torch.logcumsumexp(a, 1)", (operand,), (sums,), label=dtype)


def _row(
    name: str,
    make: Make,
    rule: str,
    source: str,
    accepts: tuple[str, ...] = FLOATS,
    refuses: tuple[str, ...] = (),
) -> Row:
    return Row(name, "statistics", rule, source, accepts, make, refuses=refuses)


ROWS = (
    _row("item", _items, "one element as Python's bool, int or float, whose number is the same;"
         " several elements are refused", cuda("CUDAScalar.cu", "_local_scalar_dense_cuda"),
         REALS_AND_BOOL),
    _row("multinomial", _draws, "an element without weight is never drawn",
         cuda("MultinomialKernel.cu", "multinomial_with_replacement_kernel_impl")),
    _row("quantile", _quantiles, "between two elements by lerp; a row with a NaN is NaN; 16-bit types"
         " are refused", op_info("quantile", native("Sorting.cpp", "quantile_checks, quantile_compute")), _WIDE, HALVES),
    _row("histc", _histogram, "bins hold their lower end, the last one both; NaN and what is outside"
         " are not counted; 16-bit types are refused",
         op_info("histc", cuda("SummaryOps.cu", "getBin, kernelHistogram1D, _histc_cuda")), (*_WIDE, *INTS), HALVES),
    _row("logcumsumexp", _sums_of_logarithms, "log1p(exp(least - largest)) + largest in opmath,"
         " rounded to the tensor's type at each step; equal infinities stay",
         cuda("LogcumsumexpKernel.cu", "launch_logcumsumexp_cuda_kernel")),
)  # fmt: skip
