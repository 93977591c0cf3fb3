"""Indexing, scattering, sorting and searching."""

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.torch.rules.dtypes import FLOATS, INTS, REALS, Array, cast, special_values
from benchmarks.torch.rules.exact import MOVED, results, small, special_array
from benchmarks.torch.rules.row import Case, Operand, Row
from benchmarks.torch.rules.sources import cite_page, cuda, header

_INDEX = "IndexKernel.cu"
_SCATTER = "ScatterGatherKernel.cu"
_ORDERED = (*INTS, "float16", "bfloat16", "float32", "float64")
Make = Callable[[Row, str], Iterator[Case]]


def _with_index(
    call: str,
    index: Array,
    function: Callable[..., Array],
    source_shape: tuple[int, ...] | None = None,
    whole: bool = False,
) -> Make:
    """Make a case of a tensor ``a``, an index ``b`` and perhaps a source ``c``."""

    def make(row: Row, dtype: str) -> Iterator[Case]:
        fill = small if whole else special_array
        operands = [Operand(fill(dtype, (4, 5)), dtype), Operand(index, "int64")]
        if source_shape is not None:
            source = np.flip(fill(dtype, source_shape)).copy()
            operands.append(Operand(source, dtype))
        computed = function(*(operand.values.copy() for operand in operands))
        yield Case(call, tuple(operands), results(computed, dtype), label=dtype)

    return make


def _assign(values: Array, index: Array, source: object) -> Array:
    values[:, index] = source
    return values


def _add_at(values: Array, index: Array, source: Array) -> Array:
    for place, column in enumerate(index):
        values[:, column] += source[:, place]
    return values


def _scatter(values: Array, index: Array, source: Array | int) -> Array:
    np.put_along_axis(values, index, source, 1)
    return values


def _scatter_add(values: Array, index: Array, source: Array) -> Array:
    rows = np.broadcast_to(np.arange(len(index))[:, None], index.shape)
    np.add.at(values, (rows, index), source)
    return values


def _scatter_extreme(values: Array, index: Array, source: Array) -> Array:
    rows = np.broadcast_to(np.arange(len(index))[:, None], index.shape)
    np.maximum.at(values, (rows, index), source)
    return values


def _put(values: Array, index: Array, source: Array) -> Array:
    values.ravel()[index] = source
    return values


def _masked_scatter(values: Array, mask: Array, source: Array) -> Array:
    values[mask] = source[: mask.sum()]
    return values


def _sorted(call: str, descending: bool, index_only: bool = False, count: int = 0) -> Make:
    """Make a case of distinct numbers in which NaN is the largest."""

    def make(row: Row, dtype: str) -> Iterator[Case]:
        values = np.unique(special_values(dtype))
        values = values[~((values == 0) & np.signbit(values.astype("float64")))]
        mixed = np.roll(values[::-1], 3).copy()
        order = np.argsort(mixed, kind="stable")
        order = order[::-1] if descending else order
        order = order[: count or None]
        names = "int64" if index_only else (dtype, "int64")
        computed = order if index_only else [mixed[order], order]
        expected = results(computed, names, zero_sign=False)
        yield Case(call, (Operand(mixed, dtype),), expected, label=dtype)

    return make


def _search(call: str, side: str, reverse: bool) -> Make:
    """Make a case whose boundaries are finite numbers; a NaN is larger than all."""

    def make(row: Row, dtype: str) -> Iterator[Case]:
        values = special_values(dtype)
        finite = np.unique(values[np.isfinite(values.astype("float64"))])
        places = np.searchsorted(finite, values, "right" if side == "right" else "left")
        pair = [Operand(finite, dtype), Operand(values, dtype)]
        yield Case(
            call, tuple(pair[::-1] if reverse else pair), results(places, "int64"), label=dtype
        )

    return make


def _nonzero(row: Row, dtype: str) -> Iterator[Case]:
    values = special_array(dtype, (4, 5))
    places = np.argwhere(values != 0)
    yield Case("torch.nonzero(a)", (Operand(values, dtype),), results(places, "int64"), label=dtype)


def _argwhere(row: Row, dtype: str) -> Iterator[Case]:
    values = special_array(dtype, (4, 5))
    places = np.argwhere(values != 0)
    yield Case(
        "torch.argwhere(a)", (Operand(values, dtype),), results(places, "int64"), label=dtype
    )


def _unique(call: str, consecutive: bool) -> Make:
    def make(row: Row, dtype: str) -> Iterator[Case]:
        values = np.sort(small(dtype, (12,))) if consecutive else small(dtype, (12,))
        expected = results(np.unique(values), dtype)
        yield Case(call, (Operand(values, dtype),), expected, label=dtype)

    return make


def _one_hot(row: Row, dtype: str) -> Iterator[Case]:
    values = np.array([[0, 2], [1, 3]], dtype=dtype)
    expected = results(np.eye(5, dtype="int64")[values], "int64")
    yield Case("F.one_hot(a, 5)", (Operand(values, dtype),), expected, label=dtype)


def _mode(row: Row, dtype: str) -> Iterator[Case]:
    values = cast(np.array([[3, 1, 1, 2, 2], [5, 4, 5, 4, 1]]), dtype)
    expected = results(np.array([1, 4]), dtype)
    yield Case("torch.mode(a, 1).values", (Operand(values, dtype),), expected, label=dtype)


def _kth(row: Row, dtype: str) -> Iterator[Case]:
    values = np.unique(special_values(dtype))[::-1].copy()
    order = np.argsort(values, kind="stable")[2]
    expected = results([values[order], order], (dtype, "int64"), zero_sign=False)
    yield Case("torch.kthvalue(a, 3)", (Operand(values, dtype),), expected, label=dtype)


def _row(name: str, make: Make, rule: str, source: str, accepts: tuple[str, ...] = MOVED) -> Row:
    return Row(name, "indexing", rule, source, accepts, make)


_COLUMNS = np.array([3, 0, 2])
_SIGNED = np.array([-1, 0, 2])
_TABLE = np.array([[0, 2, 1], [4, 3, 0], [1, 1, 1], [2, 0, 4]])
_APART = np.array([[0, 2, 1], [4, 3, 0], [1, 2, 3], [2, 0, 4]])
_NAN_LAST = "NaN is larger than every number; equal elements keep no order"
_BITS = "elements keep their bits"
_ATOMIC = "atomic additions in the tensor's type, in any order"
_SORT = header("ATen/native/cuda/SortingCommon.cuh", "GTOp, LTOp with handleNaN")

ROWS = (
    _row("index_select", _with_index("torch.index_select(a, 1, b)", _COLUMNS, lambda a, b: a[:, b]),
         _BITS, cite_page("index_select")),
    _row("index", _with_index("a[:, b]", _SIGNED, lambda a, b: a[:, b]),
         "negative indices count from the end", cuda(_INDEX, "index_kernel_impl")),
    _row("gather", _with_index("torch.gather(a, 1, b)", _TABLE,
         lambda a, b: np.take_along_axis(a, b, 1)), _BITS, cuda(_SCATTER, "gather_cuda_kernel")),
    _row("take_along_dim", _with_index("torch.take_along_dim(a, b, 1)", _TABLE,
         lambda a, b: np.take_along_axis(a, b, 1)), _BITS, cite_page("take_along_dim")),
    _row("index_fill", _with_index("a.index_fill(1, b, 1)", _SIGNED,
         lambda a, b: _assign(a, b, 1)), "the number is converted to the type",
         cuda(_INDEX, "index_fill_kernel")),
    _row("index_copy", _with_index("a.index_copy(1, b, c)", _COLUMNS, _assign, (4, 3)), _BITS,
         cuda(_INDEX, "index_copy_kernel_impl")),
    _row("index_put", _with_index("a.index_put((torch.arange(4, device=DEVICE)[:, None], b), c)",
         _COLUMNS, _assign, (4, 3)), _BITS, cuda(_INDEX, "index_put_kernel_impl")),
    _row("index_put.accumulate", _with_index(
         "a.index_put((torch.arange(4, device=DEVICE)[:, None], b), c, accumulate=True)",
         np.array([3, 0, 3]), _add_at, (4, 3), True), _ATOMIC, cite_page("Tensor.index_put_"),
         REALS),
    _row("index_add", _with_index("a.index_add(1, b, c)", np.array([3, 0, 3]), _add_at, (4, 3),
         True), _ATOMIC, cite_page("Tensor.index_add_"), REALS),
    _row("scatter", _with_index("a.scatter(1, b, c)", _APART, _scatter, (4, 3)), _BITS,
         cuda(_SCATTER, "scatter_cuda_kernel")),
    _row("scatter.value", _with_index("a.scatter(1, b, 1)", _APART,
         lambda a, b: _scatter(a, b, 1)), "the number is converted to the type",
         cuda(_SCATTER, "scatter_fill_cuda_kernel")),
    _row("scatter_add", _with_index("a.scatter_add(1, b, c)", _TABLE, _scatter_add, (4, 3), True),
         _ATOMIC, cuda(_SCATTER, "scatter_add_cuda_kernel"), REALS),
    _row("scatter_reduce", _with_index("a.scatter_reduce(1, b, c, 'sum')", _TABLE, _scatter_add,
         (4, 3), True), _ATOMIC, cuda(_SCATTER, "scatter_reduce_cuda_kernel"), REALS),
    _row("scatter_reduce.amax", _with_index("a.scatter_reduce(1, b, c, 'amax')", _TABLE,
         _scatter_extreme, (4, 3), True), "the largest of self and source",
         cite_page("Tensor.scatter_reduce_"), REALS),
    _row("put", _with_index("a.put(b, c)", np.array([7, -1, 0]), _put, (3,)),
         "negative indices count from the end", cuda(_INDEX, "put_kernel")),
    _row("masked_scatter", _with_index("a.masked_scatter(b % 2 == 0, c)",
         np.arange(20).reshape(4, 5), lambda a, b, c: _masked_scatter(a, b % 2 == 0, c), (10,)),
         "the source's elements in order", cuda(_INDEX, "launch_masked_scatter_kernel")),
    _row("nn.functional.embedding", _with_index("F.embedding(b, a)", np.array([[3, 0], [2, 2]]),
         lambda a, b: a[b]), _BITS, cite_page("embedding"), FLOATS),
    _row("sort", _sorted("torch.sort(a)", False), _NAN_LAST, _SORT, _ORDERED),
    _row("argsort", _sorted("torch.argsort(a, descending=True)", True, True), _NAN_LAST, _SORT,
         _ORDERED),
    _row("topk", _sorted("torch.topk(a, 4)", True, count=4), _NAN_LAST,
         header("ATen/native/cuda/SortingRadixSelect.cuh", "TopKTypeConfig"), _ORDERED),
    _row("kthvalue", _kth, _NAN_LAST, header("ATen/native/cuda/SortingRadixSelect.cuh",
         "TopKTypeConfig"), _ORDERED),
    _row("mode", _mode, "the least of the most frequent", cite_page("mode"), _ORDERED),
    _row("searchsorted", _search("torch.searchsorted(a, b)", "left", False),
         "lower bound by not (mid >= value): NaN is behind all",
         cuda("Bucketization.cu", "lower_bound"), _ORDERED),
    _row("searchsorted.right", _search("torch.searchsorted(a, b, right=True)", "right", False),
         "upper bound by not (mid > value): NaN is behind all",
         cuda("Bucketization.cu", "upper_bound"), _ORDERED),
    _row("bucketize", _search("torch.bucketize(a, b)", "left", True), "as searchsorted",
         cuda("Bucketization.cu", "bucketize_cuda"), _ORDERED),
    _row("nonzero", _nonzero, "in the order of the elements; NaN is not zero",
         cite_page("nonzero")),
    _row("argwhere", _argwhere, "in the order of the elements; NaN is not zero",
         cite_page("argwhere")),
    _row("unique", _unique("torch.unique(a)", False), "sorted", cite_page("unique"), REALS),
    _row("unique_consecutive", _unique("torch.unique_consecutive(a)", True), "in order",
         cite_page("unique_consecutive"), REALS),
    _row("nn.functional.one_hot", _one_hot, "int64", cite_page("nn.functional.one_hot"),
         ("int64",)),
)  # fmt: skip
