"""Copies and memsets: PyTorch's own where bytes only move, otherwise a kernel."""

import threading
import warnings
from typing import Any, Final

import torch

from tessera_torch import counts, native
from tessera_torch.checks.conditions import check_parts
from tessera_torch.checks.messages import broadcast_shapes
from tessera_torch.checks.overlap import check_overlap, shared_dimensions
from tessera_torch.complexes.parts import COMPLEX_OF, split
from tessera_torch.operator import Operator
from tessera_torch.pausing import pause_trace
from tessera_torch.refusal import span
from tessera_torch.targets import resize

_UPLOADS: Final = threading.Lock()
_CAPTURED: Final[dict[Any, Any]] = {}  # replays read them until the process ends


def upload(table: Any, device: Any, dtype: Any = None) -> Any:
    """Return a host tensor on the device.

    A captured copy reads its source at each replay, so the source is page-locked and kept. Equal
    tables share one source.
    """
    source = table if dtype is None else table.to(dtype)
    if source.is_cuda or not torch.cuda.is_current_stream_capturing():
        return source.to(device)
    source = source.contiguous()
    key = (source.dtype, tuple(source.shape), source.view(-1).view(torch.uint8).numpy().tobytes())
    with _UPLOADS:
        if key not in _CAPTURED:
            _CAPTURED[key] = source.pin_memory()
        pinned_source = _CAPTURED[key]
    return pinned_source.to(device, non_blocking=True)


_COPY: Final = Operator("copy_", frozenset())  # within a device, as an element-wise operation


def _copy(target: Any, source: Any, non_blocking: bool = False) -> Any:
    if not isinstance(source, torch.Tensor):  # PyTorch passes Python's numbers as they are
        is_cut = isinstance(source, complex) and not target.is_complex()
        return target.fill_(source.real if is_cut else source)
    check_overlap((target,), (source,))
    if target.device == source.device and not _is_memcpy(target, source):
        if target.is_complex() or source.is_complex():
            return _copy_complex(target, source)
        if target.is_neg():
            _copy(torch._neg_view(target), -source)
            return target
        if source.is_neg():
            source = -torch._neg_view(source)
        return _COPY(target, source)
    if target.is_cuda and source.is_cuda and not _is_memcpy(target, source):
        return _copy_between(target, source, non_blocking)
    counts.CALLS["copy_"] += 1
    native.call("copy_", target, source, non_blocking)
    return target


def _copy_between(target: Any, source: Any, non_blocking: bool) -> Any:
    """Copy between devices by dense tensors: only bytes move from one device to the other."""
    dense = torch.empty(target.shape, dtype=target.dtype, device=source.device)
    _copy(dense, source.expand(target.shape))
    if _is_memcpy(target, dense):
        return _copy(target, dense, non_blocking)
    moved = torch.empty(target.shape, dtype=target.dtype, device=target.device)
    return _copy(target, _copy(moved, dense, non_blocking))


def _copy_complex(target: Any, source: Any) -> Any:
    """Copy complex numbers as pairs of real ones."""
    if target.is_conj():
        _copy_complex(torch._conj(target), torch._conj(source) if source.is_complex() else source)
        return target
    if target.is_neg():
        _copy_complex(torch._neg_view(target), -source)
        return target
    real, imag = split(source)
    if not target.is_complex():
        return _copy(target, real)
    pairs = torch.view_as_real(target)
    if source.is_complex() and not source.is_conj() and not source.is_neg():
        _copy(pairs, torch.view_as_real(source.expand(target.shape)))
    else:
        _copy(pairs.select(-1, 0), real)
        _copy(pairs.select(-1, 1), imag)
    return target


def _is_memcpy(target: Any, source: Any) -> bool:
    if target.dtype != source.dtype or target.shape != source.shape:
        return False
    if target.is_conj() != source.is_conj() or target.is_neg() != source.is_neg():
        return False
    if target.stride() != source.stride():
        return bool(target.is_contiguous() and source.is_contiguous())
    return bool(target.is_contiguous() or span(target) == target.numel())


def _zero(tensor: Any) -> Any:
    counts.CALLS["zero_"] += 1
    if span(tensor) == tensor.numel():
        native.call("zero_", tensor)
    elif tensor.is_complex():
        torch.view_as_real(tensor).fill_(0)
    else:
        tensor.fill_(0)
    return tensor


_FILL: Final = Operator("fill_.Scalar", frozenset())


def _as_element(value: Any, dtype: Any) -> Any:
    """Return a number as a tensor's element. Raises PyTorch's error if the type cannot hold it."""
    # PyTorch does not check a single element.
    element = torch.empty(2, dtype=dtype, device="cpu").fill_(value)[0].item()
    if isinstance(element, int) and element >= 2**63:
        return element - 2**64  # kernels are given signed numbers
    return element


def _fill(self: Any, value: Any) -> Any:
    distinct = self
    for dim in shared_dimensions(self):  # all elements get the same value
        distinct = distinct.narrow(dim, 0, 1)
    if self.is_complex():
        counts.CALLS["fill_.Scalar"] += 1
        pairs = torch.view_as_real(distinct)
        pairs.select(-1, 0).fill_(complex(value).real)
        pairs.select(-1, 1).fill_(complex(value).imag)
    elif self.is_floating_point() and self.element_size() == 1:  # Triton lacks some of these types
        bits = torch.full((1,), value, dtype=self.dtype, device="cpu").view(torch.uint8).item()
        _FILL(distinct.view(torch.uint8), bits)
    else:
        _FILL(distinct, _as_element(value, self.dtype))
    return self


_OF_EXPANDED: Final = (
    "Use of masked_fill_ on expanded tensors is deprecated. Please clone() the tensor before"
    " performing this operation. This also applies to advanced indexing e.g."
    " tensor[mask] = scalar"
)
_MASKED_FILL: Final = Operator("masked_fill.Scalar", frozenset())
_MASKED_FILL_IN_PLACE: Final = Operator("masked_fill_.Scalar", frozenset())


def _masked_fill(self: Any, mask: Any, value: Any) -> Any:
    if not self.is_complex():
        value = _as_element(value, self.dtype)
    return _MASKED_FILL(self, mask, value)


def _masked_fill_in_place(self: Any, mask: Any, value: Any) -> Any:
    if not self.is_complex():
        value = _as_element(value, self.dtype)
    shared = shared_dimensions(self)
    if not shared:
        return _MASKED_FILL_IN_PLACE(self, mask, value)
    warnings.warn(_OF_EXPANDED, stacklevel=2)
    distinct, chosen = self, mask.expand(self.shape)
    for dim in shared:  # an element is chosen if it is at one of its places
        distinct, chosen = distinct.narrow(dim, 0, 1), chosen.any(dim, keepdim=True)
    _MASKED_FILL_IN_PLACE(distinct, chosen, value)
    return self


def _split_copy_out(self: Any, split_sizes: Any, dim: int = 0, *, out: Any) -> None:
    counts.CALLS["split_with_sizes_copy"] += 1
    parts = self.split_with_sizes(split_sizes, dim)
    if len(out) != len(parts):
        raise RuntimeError(
            f"split_with_sizes_copy_out expected an out= argument of size {len(parts)}, got size"
            f" {len(out)}"
        )
    for target, part in zip(out, parts, strict=True):
        resize(target, part.shape).copy_(part)


def _complex_out(real: Any, imag: Any, *, out: Any) -> Any:
    counts.CALLS["complex"] += 1
    check_parts(real, imag)
    resize(out, broadcast_shapes(real.shape, imag.shape))
    pairs = torch.view_as_real(out)
    pairs.select(-1, 0).copy_(real.expand(out.shape))
    pairs.select(-1, 1).copy_(imag.expand(out.shape))
    return out


def _polar_out(abs: Any, angle: Any, *, out: Any) -> Any:  # noqa: A002 PyTorch's name
    counts.CALLS["polar"] += 1
    if abs.dtype not in COMPLEX_OF or abs.dtype != angle.dtype:
        raise RuntimeError(
            f"polar: expected two tensors of float or of double, but got {abs.dtype} and"
            f" {angle.dtype}"
        )
    return _complex_out(abs * angle.cos(), abs * angle.sin(), out=out)


KERNELS: Final = {
    "polar.out": _polar_out,
    "copy_": pause_trace(_copy),
    "zero_": _zero,
    "fill_.Scalar": _fill,
    "masked_fill.Scalar": _masked_fill,
    "masked_fill_.Scalar": _masked_fill_in_place,
    "complex.out": _complex_out,
    "split_with_sizes_copy.out": _split_copy_out,
}
