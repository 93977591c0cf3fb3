"""Writes at computed places: scatter in its forms, and index_put."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from tessera_torch import counts, layout
from tessera_torch.checks.bounds import check_dimension, check_positions, with_checks
from tessera_torch.checks.messages import title
from tessera_torch.checks.overlap import check_apart, check_inner_overlap
from tessera_torch.complexes.parts import resolve
from tessera_torch.formulas import float8
from tessera_torch.operator import Operator, overload
from tessera_torch.own.launching import launch
from tessera_torch.own.scattering_kernels import add_runs, scatter
from tessera_torch.own.sorting import order_rows
from tessera_torch.refusal import Unsupported
from tessera_torch.targets import resize

_BLOCK: Final = 256
_CODES: Final = {"set": 0, "add": 1, "sum": 1, "amax": 2, "amin": 3}
# Atomic operations exist for these; other types are combined in one of them.
_ATOMIC: Final = (torch.float32, torch.float64, torch.int32, torch.int64)


def _combine(target: Any, places: Any, source: Any, operation: str) -> None:
    """Combine elements into a tensor, at distances in elements from its first."""
    count = places.numel()
    if not count:
        return
    if operation != "set" and target.dtype in float8.TYPES:
        raise NotImplementedError(
            f"\"scatter_gather_tensor_cuda\" not implemented for '{title(target.dtype)}'"
        )
    if operation in ("multiply", "prod"):
        _reduce(target, places, source, torch.mul)
        return
    if target.is_complex():
        if operation in ("amax", "amin"):
            raise Unsupported("scatter", (target, source), "complex numbers have no order")
        pairs = torch.stack((places * 2, places * 2 + 1), -1)
        source_pairs = torch.view_as_real(resolve(source.to(target.dtype).expand(places.shape)))
        _combine(torch.view_as_real(target), pairs, source_pairs, operation)
        return
    if operation != "set" and (
        target.dtype not in _ATOMIC
        or (target.is_floating_point() and operation[0] == "a" and operation != "add")
    ):
        _in_pairs_or_wider(target, places, source, operation)
        return
    values = source.to(target.dtype).contiguous()
    pointed = target
    if target.dtype == torch.bool or target.dtype in float8.TYPES:
        pointed, values = target.view(torch.uint8), values.view(torch.uint8)
    grid = (-(-count // _BLOCK),)
    if (
        operation in ("add", "sum")
        and target.is_floating_point()
        and torch.are_deterministic_algorithms_enabled()
    ):
        flat, order = places.reshape(-1), order_rows(places.reshape(1, -1), False)[0]
        sorted_places = flat.index_select(0, order)
        sorted_values = values.reshape(-1).index_select(0, order)
        launch(add_runs, grid, target.device, pointed, sorted_places, sorted_values, count, _BLOCK)
        return
    launch(
        scatter, grid, target.device,
        pointed, places.contiguous(), values, count, _CODES[operation], _BLOCK,
    )  # fmt: skip


def _in_pairs_or_wider(target: Any, places: Any, source: Any, operation: str) -> None:
    if operation in ("add", "sum"):
        wide = torch.float32 if target.is_floating_point() else torch.int32
        copy = target.to(wide).contiguous()
        if copy.stride() != target.stride():
            copy = torch.empty_strided(
                target.shape, target.stride(), dtype=wide, device=target.device
            )
            copy.copy_(target)
        _combine(copy, places, source.to(wide), operation)
        target.copy_(copy != 0 if target.dtype == torch.bool else copy)
        return
    combine = torch.maximum if operation == "amax" else torch.minimum
    _reduce(target, places, source, combine)


def _reduce(target: Any, places: Any, source: Any, combine: Callable[[Any, Any], Any]) -> None:
    """Combine the elements of each place in pairs, and the result with what is at the place.

    No step depends on the host's knowledge of the places, so a CUDA graph can capture it. Outside
    of a capture, the host ends the steps when no place has more elements.
    """
    is_captured = torch.cuda.is_current_stream_capturing()
    flat, values = places.reshape(-1), source.to(target.dtype).reshape(-1)
    order = order_rows(flat[None], False)[0]
    flat, values = flat.index_select(0, order), values.index_select(0, order)
    count, distance = flat.numel(), 1
    while distance < count:  # an element has combined as many of its place as the distance is
        is_same = flat[distance:] == flat[:-distance]
        if not is_captured and not bool(is_same.any()):
            break
        near, far = values[:-distance], values[distance:]
        joined = torch.where(is_same, combine(near, far), near)
        values = torch.cat((joined, values[count - distance :]))
        distance *= 2
    is_first = torch.ones(flat.shape, dtype=torch.bool, device=flat.device)
    is_first[1:] = flat[1:] != flat[:-1]
    own = torch.arange(count, device=flat.device)
    begins = torch.where(is_first, own, 0).cummax(0)[0]
    values = values.index_select(0, begins)  # the same for all elements of a place
    span = 1 + sum((n - 1) * s for n, s in zip(target.shape, target.stride(), strict=True))
    memory = target.as_strided((span,), (1,))
    _combine(memory, flat, combine(memory.index_select(0, flat), values), "set")


def _places(target: Any, dim: int, index: Any) -> Any:
    """Return the distances in elements of ``target[..., index, ...]`` from its first element."""
    places = index * (target.stride(dim) if target.dim() else 1)
    for axis in range(index.dim()):
        if axis == dim:
            continue
        shape = [1] * index.dim()
        shape[axis] = index.shape[axis]
        steps = torch.arange(index.shape[axis], device=index.device) * target.stride(axis)
        places = places + steps.view(shape)
    return places.to(torch.int64)


def _check_shapes(target: Any, dim: int, index: Any, source: Any) -> None:
    """Raise RuntimeError if an index has more elements than its target or its source."""
    source_tensor = source if isinstance(source, torch.Tensor) and source.dim() else None
    ranks = {
        max(tensor.dim(), 1) for tensor in (target, index, source_tensor) if tensor is not None
    }
    if len(ranks) > 1:
        operand_name = "self" if max(target.dim(), 1) != max(index.dim(), 1) else "src"
        raise RuntimeError(
            f"Index tensor must have the same number of dimensions as {operand_name} tensor"
        )
    dim %= max(target.dim(), 1)
    is_large = any(
        index.shape[i] > target.shape[i] for i in range(target.dim()) if i != dim and index.dim()
    )
    if source_tensor is not None and any(
        n > m for n, m in zip(index.shape, source_tensor.shape, strict=False)
    ):
        is_large = True
    if is_large:
        src = (
            ""
            if source_tensor is None
            else f" and to be no larger size than src {list(source_tensor.shape)}"
        )
        raise RuntimeError(
            f"Expected index {list(index.shape)} to be no larger than self {list(target.shape)}"
            f" apart from dimension {dim}{src}"
        )


def _scatter_into(target: Any, dim: int, index: Any, source: Any, operation: str) -> Any:
    counts.CALLS["scatter"] += 1
    is_tensor = isinstance(source, torch.Tensor)
    if is_tensor and source.dtype != target.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    if not index.numel():  # of any type
        return target
    if index.dtype not in (torch.int64, torch.int32):
        raise RuntimeError("scatter(): Expected dtype int32/int64 for index")
    _check_shapes(target, dim, index, source)
    check_apart(target, (index, source))
    dim = dim % max(target.dim(), 1)
    check_dimension(target, dim, index)
    if not is_tensor:
        source = torch.full(index.shape, source, dtype=target.dtype, device=target.device)
    elif source.dim():
        source = source[tuple(slice(n) for n in index.shape)]
    _combine(target, _places(target, dim, index), source.expand(index.shape), operation)
    return target


def _reduce_into(
    target: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True
) -> Any:
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}."
        )
    if not index.numel():
        return target
    if not include_self:
        start: Any = {"sum": 0, "mean": 0, "prod": 1}.get(reduce)
        if start is None and target.dtype == torch.bool:
            start = reduce == "amin"
        elif start is None:
            info = torch.finfo if target.is_floating_point() else torch.iinfo
            limits = info(target.dtype)
            start = limits.min if reduce == "amax" else limits.max
            if target.is_floating_point():
                start = float("-inf") if reduce == "amax" else float("inf")
        _scatter_into(target, dim, index, start, "set")
    if reduce != "mean":
        return _scatter_into(target, dim, index, source, reduce)
    increments = torch.ones(index.shape, dtype=target.dtype, device=target.device)
    number = torch.ones_like(target) if include_self else torch.zeros_like(target)
    _scatter_into(target, dim, index, source, "sum")
    _scatter_into(number, dim, index, increments, "sum")
    number.clamp_(min=1)
    if target.is_floating_point():
        return target.div_(number)
    return target.copy_(torch.div(target, number, rounding_mode="floor"))


def _forms(name: str, into: Callable[..., Any], overload: str) -> dict[str, Callable[..., Any]]:
    """Return the functional, in-place and out= forms of an operator."""
    suffix = f".{overload}" if overload else ""

    def functional(self: Any, *arguments: Any, **keywords: Any) -> Any:
        return into(self.clone(memory_format=torch.contiguous_format), *arguments, **keywords)

    def out_form(self: Any, *arguments: Any, out: Any, **keywords: Any) -> Any:
        result = functional(self, *arguments, **keywords)
        return resize(out, result.shape).copy_(result)

    out = f"{name}.{overload}_out" if overload else f"{name}.out"
    return {f"{name}{suffix}": functional, f"{name}_{suffix}": into, out: out_form}


def _set(self: Any, dim: int, index: Any, source: Any) -> Any:
    return _scatter_into(self, dim, index, source, "set")


def _add(self: Any, dim: int, index: Any, source: Any) -> Any:
    return _scatter_into(self, dim, index, source, "add")


def _old_reduce(self: Any, dim: int, index: Any, source: Any, *, reduce: str) -> Any:
    return _scatter_into(self, dim, index, source, reduce)


def _two(
    self: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Any:
    return _reduce_into(self, dim, index, src, reduce, include_self)


def _check_mask(mask: Any, shape: Sequence[int], place: int) -> None:
    """Raise IndexError if a mask has other sizes than the dimensions from a place on."""
    for i, size in enumerate(mask.shape):
        if place + i < len(shape) and size != shape[place + i]:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {i} does not match the shape of"
                f" the indexed tensor {list(shape)} at index {place + i}"
            )


def _expand(indices: Sequence[Any], shape: Sequence[int]) -> list[Any]:
    """Return one tensor of integers, or None, for each dimension."""
    expanded_indices: list[Any] = []
    for index in indices:
        if index is None:
            expanded_indices.append(None)
        elif index.dtype in (torch.bool, torch.uint8):
            _check_mask(index, shape, len(expanded_indices))
            expanded_indices.extend(index.nonzero().unbind(1))
        else:
            expanded_indices.append(index)
    return expanded_indices + [None] * (len(shape) - len(expanded_indices))


def _index_put(
    self: Any, indices: Sequence[Any], values: Any, accumulate: bool = False, unsafe: bool = False
) -> Any:
    counts.CALLS["index_put"] += 1
    if self.is_complex():  # pairs of real numbers have one more dimension, which no index takes
        resolved_values = resolve(values.to(device=self.device, dtype=self.dtype))
        _index_put(
            torch.view_as_real(self),
            indices,
            torch.view_as_real(resolved_values),
            accumulate,
            unsafe,
        )
        return self
    chosen = _expand(indices, self.shape)
    if len(chosen) > self.dim():
        raise IndexError(
            f"too many indices for tensor of dimension {self.dim()} (got {len(chosen)})"
        )
    check_apart(self, (values, *indices))
    check_positions(self, chosen)
    indexed = [i for i, index in enumerate(chosen) if index is not None]
    if not indexed:
        return self.add_(values) if accumulate else self.copy_(values.expand(self.shape))
    tensors = torch.broadcast_tensors(*(chosen[i].to(self.device) for i in indexed))
    together = indexed[-1] - indexed[0] == len(indexed) - 1
    lead = [i for i in range(self.dim()) if chosen[i] is None and together and i < indexed[0]]
    trailing_dims = [i for i in range(self.dim()) if chosen[i] is None and i not in lead]
    shape = [
        *(self.shape[i] for i in lead),
        *tensors[0].shape,
        *(self.shape[i] for i in trailing_dims),
    ]
    places = torch.zeros((), dtype=torch.int64, device=self.device)
    for i, index in zip(indexed, tensors, strict=True):
        wrapped = torch.where(index < 0, index + self.shape[i], index).to(torch.int64)
        places = places + wrapped * self.stride(i)
    places = places.view(*tensors[0].shape, *[1] * len(trailing_dims))
    for order, i in enumerate((*lead, *trailing_dims)):
        later_dim_count = (
            len(shape) - order - 1
            if order < len(lead)
            else len(trailing_dims) - (order - len(lead)) - 1
        )
        steps = torch.arange(self.shape[i], device=self.device) * self.stride(i)
        places = places + steps.view(-1, *[1] * later_dim_count)
    values = values.to(self.device)
    if values.dtype != self.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got"
            f" {self.dtype} for the destination and {values.dtype} for the source."
        )
    if layout.broadcast_to(tuple(values.shape), tuple(shape)) is None:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to"
            f" indexing result of shape {shape}"
        )
    _combine(self, places.expand(shape), values.expand(shape), "add" if accumulate else "set")
    return self


_INDEX: Final = Operator("index.Tensor", frozenset())


def _index(self: Any, indices: Sequence[Any]) -> Any:
    """Index a tensor; masks are replaced by the positions of their true elements.

    Indices may be on the CPU.
    """
    masks = [
        index for index in indices if index is not None and index.dtype in (torch.bool, torch.uint8)
    ]
    chosen = _expand(indices, self.shape) if masks else indices
    check_positions(self, chosen)
    return _INDEX(self, [index if index is None else index.to(self.device) for index in chosen])


def _index_out(self: Any, indices: Sequence[Any], *, out: Any) -> Any:
    result = _index(self, indices)
    return resize(out, result.shape).copy_(result)


def _put(self: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """Write at places of the flattened tensor."""
    if source.numel() != index.numel():
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got"
            f" source.numel() = {source.numel()}, index.numel() = {index.numel()}"
        )
    if index.dtype != torch.int64:
        raise RuntimeError(
            f"put_(): Expected a long tensor for index, but got {title(index.dtype)}"
        )
    if source.dtype != self.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype ="
            f" {title(self.dtype)} and source.dtype = {title(source.dtype)}"
        )
    check_inner_overlap((self,))
    check_apart(self, (index, source))
    flat = self.contiguous().view(-1)
    _index_put(flat, (index.reshape(-1),), source.reshape(-1), accumulate)
    return self if self.is_contiguous() else self.copy_(flat.view(self.shape))


KERNELS: Final = {
    "put_": with_checks("put_", overload("put_"), _put),
    "index.Tensor": _index,
    "index.Tensor_out": _index_out,
    **_forms("scatter", _set, "src"),
    **_forms("scatter", _set, "value"),
    **_forms("scatter", _old_reduce, "reduce"),
    **_forms("scatter", _old_reduce, "value_reduce"),
    **_forms("scatter_add", _add, ""),
    **_forms("scatter_reduce", _two, "two"),
    "_index_put_impl_": _index_put,
}
