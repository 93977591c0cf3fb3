"""Shapes and strides of an element-wise operation, in its fewest dimensions; no torch here.

The order of dimensions, the strides of a new result and the merging of dimensions are those of
PyTorch's TensorIterator, so results have the strides that they have on a GPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass

Ints = tuple[int, ...]
INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Iteration:
    """A loop over elements: its sizes, outermost first, and the strides of each operand."""

    shape: Ints  # of the result, as the user sees it
    result_strides: Ints  # of a new result
    sizes: Ints
    strides: tuple[Ints, ...]
    result_loop_strides: Ints  # a new result's, in the loop's dimensions

    def pattern(self, with_result: bool) -> tuple[object, ...]:
        """Return what a kernel for this loop depends on: not on sizes, nor on other strides."""
        operands = (*self.strides, self.result_loop_strides) if with_result else self.strides
        classes = tuple(tuple(min(s, 2) for s in operand) for operand in operands)
        return len(self.sizes), classes, self.is_big(operands)

    def is_big(self, operands: Sequence[Ints]) -> bool:
        """Return whether an index of an operand exceeds 32 bits."""
        count = 1
        for size in self.sizes:
            count *= size
        spans = (
            sum((n - 1) * s for n, s in zip(self.sizes, strides, strict=True))
            for strides in operands
        )
        return max(count, *spans, 0) > INT32_MAX


def broadcast(shapes: Sequence[Ints]) -> Ints:
    """Return the common shape of operands. Raises ValueError if there is none."""
    rank = max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for i, size in enumerate(shape, rank - len(shape)):
            if size == 1 or size == result[i]:
                continue
            if result[i] != 1:
                raise ValueError(f"sizes {result[i]} and {size} in dimension {i}")
            result[i] = size
    return tuple(result)


def broadcast_to(own: Ints, shape: Ints) -> Ints | None:
    """Return the shape if a tensor of another one can be expanded to it."""
    lead = len(shape) - len(own)
    fits = lead >= 0 and all(n in (1, m) for n, m in zip(own, shape[max(lead, 0) :], strict=False))
    return shape if fits else None


def expand(shape: Ints, own: Ints, strides: Ints) -> Ints:
    """Return an operand's strides in the common shape: 0 where it is repeated."""
    lead = len(shape) - len(own)
    kept_strides = (
        0 if n == 1 and shape[lead + i] != 1 else s
        for i, (n, s) in enumerate(zip(own, strides, strict=True))
    )
    return (0,) * lead + tuple(kept_strides)


def contiguous_strides(shape: Sequence[int]) -> Ints:
    """Return the strides of a new tensor in row-major order."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def iterate(operands: Sequence[tuple[Ints, Ints]], shape: Ints | None = None) -> Iteration:
    """Return the loop over operands, given as (shape, strides); those that are written first.

    ``shape`` is the result's where it is given (in-place operations).

    Raises:
        ValueError: the shapes do not broadcast.
    """
    common = broadcast([own for own, _ in operands])
    if shape is not None:
        if common != shape and broadcast([common, shape]) != shape:
            raise ValueError(f"the result has shape {list(common)}, its target {list(shape)}")
        common = shape
    expanded = [expand(common, own, strides) for own, strides in operands]
    order = _order(common, expanded)  # innermost first
    result = [0] * len(common)
    step = 1
    for dimension in order:
        result[dimension] = step
        step *= max(common[dimension], 1)
    sizes, strides = _merge(common, order, [*expanded, tuple(result)])
    return Iteration(common, tuple(result), sizes, strides[:-1], strides[-1])


def _order(shape: Ints, operands: Sequence[Ints]) -> list[int]:
    """Return the dimensions from the innermost to the outermost, by insertion as PyTorch does."""
    order = list(reversed(range(len(shape))))
    for i in range(1, len(order)):
        inner = i
        for outer in range(i - 1, -1, -1):
            swap = _compare(shape, operands, order[outer], order[inner])
            if swap > 0:
                order[outer], order[inner] = order[inner], order[outer]
                inner = outer
            elif swap < 0:
                break
    return order


def _compare(shape: Ints, operands: Sequence[Ints], first: int, second: int) -> int:
    for strides in operands:
        a, b = strides[first], strides[second]
        if a == 0 or b == 0:
            continue
        if a != b:
            return -1 if a < b else 1
        if shape[first] > shape[second]:
            return 1
    return 0


def _merge(
    shape: Ints, order: Sequence[int], operands: Sequence[Ints]
) -> tuple[Ints, tuple[Ints, ...]]:
    """Merge neighbouring dimensions that every operand passes in one stride."""
    sizes: list[int] = []
    strides: list[list[int]] = [[] for _ in operands]
    for dimension in order:
        if shape[dimension] == 1:
            continue
        if sizes and all(
            own[-1] * sizes[-1] == operand[dimension]
            for own, operand in zip(strides, operands, strict=True)
        ):
            sizes[-1] *= shape[dimension]
            continue
        sizes.append(shape[dimension])
        for own, operand in zip(strides, operands, strict=True):
            own.append(operand[dimension])
    return tuple(reversed(sizes)), tuple(tuple(reversed(own)) for own in strides)


def dense_order(shape: Ints, strides: Ints) -> Ints | None:
    """Return the dimensions of a dense tensor from the innermost on; None if it is not dense.

    Dimensions of size 1 count as if they continued their neighbour.
    """
    order = sorted(range(len(shape)), key=lambda i: (strides[i], -i))
    step = 1
    for i in order:
        if shape[i] == 1:
            continue
        if strides[i] != step:
            return None
        step *= shape[i]
    return tuple(order)


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether a tensor's elements fill its range of memory, each once."""
    expected = 1
    for stride, size in sorted((s, n) for n, s in zip(shape, strides, strict=True) if n > 1):
        if stride != expected:
            return False
        expected *= size
    return True


def are_channels_last(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether PyTorch takes strides for those of channels_last.

    One channel or one pixel may be strided in either way: the first dimension's stride decides.
    """
    if strides[1] == 0:
        return False
    minimum_stride = 0
    for dimension in (1, *range(len(sizes) - 1, 1, -1), 0):
        if sizes[dimension] == 0 or strides[dimension] < minimum_stride:
            return False
        if dimension == 0 and minimum_stride == strides[1]:
            return False
        minimum_stride = strides[dimension] * sizes[dimension]
    return True
