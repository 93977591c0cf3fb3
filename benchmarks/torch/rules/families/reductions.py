"""Reductions and scans: types of accumulation and result, NaN, ties, and empty inputs.

Sums of whole numbers are exact in any order, so the order in which CUDA adds does not matter.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.torch.rules.closeness import close
from benchmarks.torch.rules.dtypes import (
    COMPLEXES,
    FLOATS,
    HALVES,
    INTS,
    REALS,
    REALS_AND_BOOL,
    Array,
    cast,
)
from benchmarks.torch.rules.eight_bits import EIGHTS
from benchmarks.torch.rules.exact import small, special_array
from benchmarks.torch.rules.row import Case, Expected, Operand, Row
from benchmarks.torch.rules.sources import cite_page, cuda, header, native

Reduce = Callable[[Array], Array | Sequence[Array]]
_SUMS = cuda("ReduceSumProdKernel.cu", "reduce_dispatch, sum_kernel_cuda, prod_kernel_cuda")
_MEAN = header("ATen/native/SharedReduceOps.h", "MeanOps::project")
_WELFORD = header("ATen/native/SharedReduceOps.h", "WelfordOps::project")
_NORM = cuda("ReduceNormKernel.cu", "norm_launch_kernel")
_LEAST = cuda("ReduceMinValuesKernel.cu", "MinNanFunctor")
_ARG = cuda("ReduceArgMaxKernel.cu", "argmax_kernel_cuda")
_TRUTH = cuda("ReduceLogicKernel.cu", "and_kernel_cuda, or_kernel_cuda")


def _cases(
    call: str,
    function: Reduce,
    result: Callable[[str], str | Sequence[str]],
    fill: Callable[[str, Sequence[int]], Array] = small,
    ulps: float = 0.0,
    shapes: Sequence[Sequence[int]] = ((5, 6),),
) -> Callable[[Row, str], Iterator[Case]]:
    def make(row: Row, dtype: str) -> Iterator[Case]:
        fills = [(fill, shape, f"{dtype} {tuple(shape)}") for shape in shapes]
        # Welford's mean of an infinity depends on the order.
        if fill is small and dtype in FLOATS and not row.name.endswith("_mean"):
            fills.append((_special, (5, 6), f"{dtype} special"))
        for fill_shape, shape, label in fills:
            operand = Operand(fill_shape(dtype, shape), dtype)
            wide = (
                operand.values if fill is special_array or dtype in COMPLEXES else _widen(operand)
            )
            with np.errstate(all="ignore"):
                computed = function(wide)
            expected = _expected(computed, result(dtype), dtype, ulps)
            yield Case(call, (operand,), expected, label=label)

    return make


def _special(dtype: str, shape: Sequence[int]) -> Array:
    """Return small numbers, with infinities, NaN, and two infinities of other signs in a row."""
    values = small(dtype, shape)
    values[1, 2], values[2, 0], values[3, :2], values[4, 5] = (
        np.inf,
        np.nan,
        (np.inf, -np.inf),
        -np.inf,
    )
    return values


def _widen(operand: Operand) -> Array:
    kind = "float64" if operand.dtype in FLOATS else "int64"
    return operand.values if operand.dtype == "bool" else operand.values.astype(kind)


def _expected(
    computed: Array | Sequence[Array], names: str | Sequence[str], dtype: str, ulps: float
) -> tuple[Expected, ...]:
    several = computed if isinstance(computed, tuple | list) else [computed]
    targets = [names] * len(several) if isinstance(names, str) else names
    pairs = zip(several, targets, strict=True)
    return tuple(close(values, name, ulps) for values, name in pairs)


def _sum_type(dtype: str) -> str:
    return "int64" if dtype in ("bool", *INTS) else dtype


def _long(dtype: str) -> str:
    return "int64"


def _with_indices(dtype: str) -> tuple[str, str]:
    return dtype, "int64"


def _mean(values: Array) -> Array:
    """Multiply the sum with the reciprocal of the count in float32, as MeanOps does."""
    return np.asarray(values.sum(1) * float(np.float32(1) / np.float32(values.shape[1])))


def _mean_wide(values: Array) -> Array:
    return np.asarray(values.sum(1) * (1 / values.shape[1]))


def _greatest(values: Array) -> Array:
    return np.asarray(np.max(values, 1))


def _argument(function: Callable[..., Array]) -> Reduce:
    return lambda values: function(values, axis=1)


def _extreme(values: Array, name: str) -> tuple[Array, Array]:
    best = getattr(np, f"arg{name}")(values, axis=1)
    return np.take_along_axis(values, best[:, None], 1)[:, 0], best


def _distinct(dtype: str, shape: Sequence[int]) -> Array:
    """Return numbers of which no two in a row are equal, with a NaN in a row of floats."""
    count = int(np.prod(shape))
    values = cast(((np.arange(count) * 11) % 31 + 1).reshape(tuple(shape)), dtype)
    if dtype in FLOATS:
        values[1, 2], values[2, 0], values[3, 1] = np.nan, np.inf, -np.inf
    return values


def _median(values: Array) -> tuple[Array, Array]:
    """Return the lower median, or the first NaN."""
    order = np.argsort(values, axis=1, kind="stable")
    place = np.full((len(values), 1), (values.shape[1] - 1) // 2)
    index = np.take_along_axis(order, place, 1)[:, 0]
    if values.dtype.kind == "f":
        index = np.where(np.isnan(values).any(1), np.isnan(values).argmax(1), index)
    return np.take_along_axis(values, index[:, None], 1)[:, 0], index


def _scan(values: Array, greater: bool) -> tuple[Array, Array]:
    """Return running extremes; equal elements take the later index, and NaN stays."""
    best, indices = values.copy(), np.zeros(values.shape, dtype="int64")
    for row in range(len(values)):
        for column in range(1, values.shape[1]):
            new, old = values[row, column], best[row, column - 1]
            wins = new >= old if greater else new <= old
            is_nan = new != new or (wins and old == old)
            best[row, column] = new if is_nan else old
            indices[row, column] = column if is_nan else indices[row, column - 1]
    return best, indices


def _row(
    name: str,
    call: str,
    function: Reduce,
    rule: str,
    source: str,
    accepts: tuple[str, ...] = REALS_AND_BOOL,
    result: Callable[[str], str | Sequence[str]] = str,
    fill: Callable[[str, Sequence[int]], Array] = small,
    ulps: float = 0.0,
    refuses: tuple[str, ...] = (),
    shapes: Sequence[Sequence[int]] = ((5, 6),),
) -> Row:
    make = _cases(call, function, result, fill, ulps, shapes)
    return Row(name, "reduction", rule, source, accepts, make, call, refuses)


def _cancelling(dtype: str) -> Array:
    """Return rows with infinities, NaN, and two numbers whose sum the type does not hold."""
    size = 6e4 if dtype == "float16" else 1.0
    rows = [
        [size, size, -size, -size],
        [np.inf, 1, 2, 3],
        [np.inf, -np.inf, 0, 0],
        [np.nan, 1, 2, 3],
    ]
    return cast(np.array(rows), dtype)


_WHOLE = "accumulated in float32 for half types and rounded once; integers and bool in int64"
_NAN = "NaN wins; the type stays"
_VARIANCE = "Welford's update in float32; a NaN for a divisor of zero"

ROWS = (
    _row("sum", "a.sum(-1)", lambda a: a.sum(1), _WHOLE + "; 8-bit floats are refused", _SUMS,
         result=_sum_type, shapes=((5, 6), (3, 0), (2, 700)), refuses=EIGHTS),
    _row("sum.special", "a.sum(1)", lambda a: a.astype("float64").sum(1),
         "infinities and NaN as in IEEE arithmetic; two finite halves may exceed the type and"
         " cancel", _SUMS, FLOATS, fill=lambda dtype, shape: _cancelling(dtype)),
    _row("nansum", "torch.nansum(a, 1)", lambda a: np.nansum(a, 1), "NaN counts as 0",
         cuda("ReduceSumProdKernel.cu", "nansum_kernel_cuda"), FLOATS, fill=_distinct,
         shapes=((5, 6),)),
    _row("prod", "a.prod(1)", lambda a: a.prod(1), _WHOLE, _SUMS, result=_sum_type,
         shapes=((5, 6), (3, 0))),
    _row("mean", "a.mean(1)", _mean, "the sum in float32 times float32's 1 / count, rounded once",
         _MEAN, (*HALVES, "float32"), ulps=0.0, refuses=("int64", "bool")),
    _row("mean.wide", "a.mean(1)", _mean_wide, "the sum times 1 / count", _MEAN, ("float64",)),
    _row("nanmean", "torch.nanmean(a, 1)", lambda a: np.nanmean(a.astype("float64"), 1),
         "nansum divided by the count of the others", cite_page("nanmean"), FLOATS, ulps=2),
    _row("var", "a.var(1)", lambda a: a.var(1, ddof=1), _VARIANCE, _WELFORD, FLOATS, ulps=16),
    _row("std", "a.std(1)", lambda a: a.std(1, ddof=1), _VARIANCE, _WELFORD, FLOATS, ulps=16),
    _row("var_mean", "torch.var_mean(a, 1)", lambda a: [a.var(1, ddof=1), a.mean(1)], _VARIANCE,
         _WELFORD, FLOATS, ulps=16),
    _row("std_mean", "torch.std_mean(a, 1)", lambda a: [a.std(1, ddof=1), a.mean(1)], _VARIANCE,
         _WELFORD, FLOATS, ulps=16),
    _row("norm", "torch.linalg.vector_norm(a, 2, 1)", lambda a: np.sqrt((a * a).sum(1)),
         "squares are summed in float32, also of half types; the root is rounded once", _NORM,
         FLOATS, ulps=2),
    _row("linalg.vector_norm", "torch.linalg.vector_norm(a, float('inf'), 1)",
         lambda a: np.abs(a).max(1), "the largest magnitude", _NORM, FLOATS),
    _row("norm.one", "torch.linalg.vector_norm(a, 1, 1)", lambda a: np.abs(a).sum(1),
         "magnitudes are summed in float32 and rounded once", _NORM, FLOATS),
    _row("norm.zero", "torch.linalg.vector_norm(a, 0, 1)", lambda a: (a != 0).sum(1),
         "counts what is not zero", _NORM, FLOATS),
    _row("all", "torch.all(a, 1)", lambda a: np.asarray(a.astype(bool).all(1)), "bool; NaN is true", _TRUTH,
         REALS_AND_BOOL, lambda dtype: "uint8" if dtype == "uint8" else "bool"),
    _row("any", "torch.any(a, 1)", lambda a: np.asarray(a.astype(bool).any(1)), "bool; NaN is true", _TRUTH,
         REALS_AND_BOOL, lambda dtype: "uint8" if dtype == "uint8" else "bool"),
    _row("count_nonzero", "torch.count_nonzero(a, 1)", lambda a: (a != 0).sum(1),
         "counts what is not zero, NaN included", cite_page("count_nonzero"), result=_long),
    _row("amax", "torch.amax(a, 1)", _greatest, _NAN, _LEAST, fill=_distinct),
    _row("amin", "torch.amin(a, 1)", lambda a: np.min(a, 1), _NAN, _LEAST, fill=_distinct),
    _row("aminmax", "torch.aminmax(a, dim=1)", lambda a: [np.min(a, 1), np.max(a, 1)], _NAN,
         cite_page("aminmax"), fill=_distinct),
    _row("max", "torch.max(a, 1)", lambda a: _extreme(a, "max"),
         "NaN wins, with the index of the first", native("TensorCompare.cpp", "max"), REALS,
         _with_indices, _distinct),
    _row("min", "torch.min(a, 1)", lambda a: _extreme(a, "min"),
         "NaN wins, with the index of the first", native("TensorCompare.cpp", "min"), REALS,
         _with_indices, _distinct),
    _row("argmax", "torch.argmax(a, 1)", _argument(np.argmax),
         "the first NaN, otherwise the first of the largest", _ARG, REALS, _long, _distinct),
    _row("argmin", "torch.argmin(a, 1)", _argument(np.argmin),
         "the first NaN, otherwise the first of the least",
         header("ATen/native/SharedReduceOps.h", "LessOrNan"), REALS, _long, _distinct),
    _row("median", "torch.median(a, 1)", _median, "the lower median; a NaN wins",
         cite_page("median"), REALS, _with_indices, _distinct),
    _row("cumsum", "torch.cumsum(a, 1)", lambda a: a.cumsum(1),
         "integers and bool in int64; others in the tensor's own type", cuda("CumsumKernel.cu",
         "launch_cumsum_cuda_kernel"), result=_sum_type),
    _row("cumprod", "torch.cumprod(a, 1)", lambda a: a.cumprod(1), "integers and bool in int64",
         cuda("CumprodKernel.cu", "launch_cumprod_cuda_kernel"), result=_sum_type),
    _row("cummax", "torch.cummax(a, 1)", lambda a: _scan(a, True),
         "of equal elements the later index; NaN stays", header("ATen/native/cuda/ScanUtils.cuh",
         "binary_op_update"), REALS, _with_indices, _distinct),
    _row("cummin", "torch.cummin(a, 1)", lambda a: _scan(a, False),
         "of equal elements the later index; NaN stays", header("ATen/native/cuda/ScanUtils.cuh",
         "binary_op_update"), REALS, _with_indices, _distinct),
    _row("trace", "torch.trace(a)", lambda a: np.trace(a), "the sum of the diagonal",
         cuda("TriangularOps.cu", "trace_cuda"), REALS, _sum_type),
    _row("diff", "torch.diff(a, dim=1)", lambda a: np.diff(a, axis=1),
         "differences in the tensor's type", cite_page("diff"), (*FLOATS, *INTS)),
    _row("equal", "torch.equal(a, a.clone())", lambda a: np.asarray((a == a).all()),
         "one bool; a NaN is unequal", cuda("ReduceLogicKernel.cu", "cuda_equal"),
         result=lambda dtype: "bool"),
)  # fmt: skip
