"""The pattern of one tensor's sizes and strides, for kernels of operators that are no loops."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tessera_torch.layout import INT32_MAX, Ints, dense_order

_ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class Layout:
    """What a kernel depends on: not on sizes above 1, nor on strides above 1."""

    sizes: Ints  # 0, 1, or 2 for more
    order: Ints | None  # of the dimensions of a dense tensor, innermost first
    strides: Ints  # of any other tensor: 0, 1, or 2 for more
    aligned: bool
    big: bool

    def values(self, tensor: Any) -> list[int]:
        """Return the values of the symbols, in their order."""
        symbol_values = [n for n in tensor.shape if n > 1]
        if self.order is None:
            symbol_values.extend(s for s in tensor.stride() if s > 1)
        return symbol_values

    def symbols(self, tensor: Any, symbol: Callable[[int], Any]) -> tuple[Any, Any]:
        """Return sizes and strides with a symbol for each value."""
        sizes = tuple(symbol(n) if n > 1 else n for n in tensor.shape)
        if self.order is None:
            return sizes, tuple(symbol(s) if s > 1 else s for s in tensor.stride())
        strides = [1] * len(sizes)
        step: Any = 1
        for dimension in self.order:
            strides[dimension] = step
            if tensor.shape[dimension] > 1:
                step = step * sizes[dimension]
        return sizes, tuple(strides)


def layout_of(tensor: Any) -> Layout:
    """Return a tensor's layout."""
    shape = tuple(tensor.shape)
    sizes = tuple(min(n, 2) for n in shape)
    aligned = tensor.data_ptr() % _ALIGNMENT == 0
    big = tensor.numel() > INT32_MAX
    if tensor.is_contiguous():
        return Layout(sizes, tuple(reversed(range(len(shape)))), (), aligned, big)
    strides = tensor.stride()
    order = dense_order(shape, strides)
    if order is not None:
        return Layout(sizes, order, (), aligned, big)
    return Layout(sizes, None, tuple(min(s, 2) for s in strides), aligned, big)
