"""Numbers rounded to those that a quantized type has, kept as floats, and their gradients."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts


def along(parameter: Any, values: Any, axis: int) -> Any:
    """Return a parameter of each channel in a shape that broadcasts to the values."""
    shape = [1] * values.dim()
    shape[axis] = -1
    return parameter.reshape(shape)


def _check_range(name: str, minimum: int, maximum: int) -> None:
    if minimum > maximum:
        raise RuntimeError(f"{name}: `quant_min` should be less than or equal to `quant_max`.")


def _check_zero_point(is_inside: bool) -> None:
    if not is_inside:
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")


def _round(
    values: Any, scale: Any, zero_point: Any, minimum: int, maximum: int, *, together: bool = False
) -> tuple[Any, Any]:
    """Return the rounded values, and where they are inside the range; halves become even.

    As in PyTorch's CUDA kernels, the scale and its reciprocal have single precision, values of
    half precision are widened, and those of channels are rounded together with the zero point.
    """
    wide = values if values.dtype == torch.float64 else values.to(torch.float32)
    scale = torch.as_tensor(scale, dtype=torch.float32)
    scaled = wide * (1 / scale)
    integers = torch.round(scaled + zero_point) if together else torch.round(scaled) + zero_point
    inside = (integers >= minimum) & (integers <= maximum)
    kind = torch.float64 if together else torch.float32
    rounded = (integers.clamp(minimum, maximum).to(kind) - zero_point) * scale
    return rounded.to(values.dtype), inside


def _per_tensor(
    self: Any, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> tuple[Any, Any]:
    counts.CALLS["fake_quantize_per_tensor_affine_cachemask"] += 1
    _check_range("fake_quantize_per_tensor_affine_cachemask", quant_min, quant_max)
    _check_zero_point(quant_min <= zero_point <= quant_max)
    return _round(self, scale, zero_point, quant_min, quant_max)


def _per_tensor_of_tensors(
    self: Any, scale: Any, zero_point: Any, fake_quant_enabled: Any, quant_min: int, quant_max: int
) -> tuple[Any, Any]:
    counts.CALLS["_fake_quantize_per_tensor_affine_cachemask_tensor_qparams"] += 1
    _check_range("fake_quantize_per_tensor_affine_cachemask", quant_min, quant_max)
    rounded, inside = _round(self, scale, zero_point, quant_min, quant_max)
    is_enabled = fake_quant_enabled != 0
    return torch.where(is_enabled, rounded, self), inside | ~is_enabled


def _per_channel(
    self: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int
) -> tuple[Any, Any]:
    counts.CALLS["fake_quantize_per_channel_affine_cachemask"] += 1
    return _round_channels(self, scale, zero_point, axis, quant_min, quant_max)


def _round_channels(
    self: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int
) -> tuple[Any, Any]:
    _check_range("fake_quantize_per_channel_affine_cachemask", quant_min, quant_max)
    if scale.dim() != 1 or zero_point.dim() != 1:
        raise RuntimeError("scale and zero point should be 1-D tensors")
    if scale.numel() != self.shape[axis] or zero_point.numel() != self.shape[axis]:
        raise RuntimeError("dimensions of scale and zero-point are not consistent with input")
    if not zero_point.is_floating_point() and zero_point.numel():
        inside = (zero_point >= quant_min) & (zero_point <= quant_max)
        _check_zero_point(bool(inside.all().item()))
    if axis < 0:
        raise RuntimeError("`axis` must be between 0 and number of dimensions of input")
    steps, zeros = along(scale, self, axis), along(zero_point, self, axis)
    return _round(self, steps, zeros, quant_min, quant_max, together=True)


def _round_zero_point(zero_point: Any, quant_min: int, quant_max: int) -> Any:
    return torch.round(zero_point.to(torch.float32)).clamp(quant_min, quant_max)


def _trained_tensor(
    self: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int,
    grad_factor: float = 1.0,
) -> Any:  # fmt: skip
    counts.CALLS["_fake_quantize_learnable_per_tensor_affine"] += 1
    zeros = _round_zero_point(zero_point, quant_min, quant_max)
    return _round(self, scale, zeros, quant_min, quant_max)[0]


def _trained_channels(
    self: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int,
    grad_factor: float = 1.0,
) -> Any:  # fmt: skip
    counts.CALLS["_fake_quantize_learnable_per_channel_affine"] += 1
    zeros = _round_zero_point(zero_point, quant_min, quant_max).to(torch.int32)
    return _round_channels(self, scale, zeros, axis, quant_min, quant_max)[0]


def _gradients(
    grad: Any, self: Any, steps: Any, zeros: Any, minimum: int, maximum: int, factor: float
) -> tuple[Any, Any, Any]:
    """Return the gradients of the values, and of scale and zero point for each value."""
    integers = torch.round(self * (1 / steps)) + zeros
    inside = (integers >= minimum) & (integers <= maximum)
    limited = integers.clamp(minimum, maximum)
    rounded = (limited - zeros) * steps
    of_scale = torch.where(inside, (rounded - self) / steps, limited - zeros)
    of_zero = torch.where(inside, 0, -steps)
    return grad * inside, grad * of_scale * factor, grad * of_zero * factor


def _tensor_backward(
    grad: Any, self: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int,
    grad_factor: float = 1.0,
) -> tuple[Any, Any, Any]:  # fmt: skip
    counts.CALLS["_fake_quantize_learnable_per_tensor_affine_backward"] += 1
    zeros = (zero_point + 0.5).clamp(quant_min, quant_max).trunc()  # PyTorch's, unlike forward
    parts = _gradients(grad, self, scale, zeros, quant_min, quant_max, grad_factor)
    return parts[0], parts[1].sum().reshape(scale.shape), parts[2].sum().reshape(zero_point.shape)


def _channels_backward(
    grad: Any, self: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int,
    grad_factor: float = 1.0,
) -> tuple[Any, Any, Any]:  # fmt: skip
    counts.CALLS["_fake_quantize_learnable_per_channel_affine_backward"] += 1
    zeros = _round_zero_point(zero_point, quant_min, quant_max)
    steps, zeros = along(scale, self, axis), along(zeros, self, axis)
    parts = _gradients(grad, self, steps, zeros, quant_min, quant_max, grad_factor)
    other_dims = [i for i in range(self.dim()) if i != axis % self.dim()]
    if not other_dims:
        return parts
    return parts[0], parts[1].sum(other_dims), parts[2].sum(other_dims)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "fake_quantize_per_tensor_affine_cachemask": _per_tensor,
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": _per_tensor_of_tensors,
    "fake_quantize_per_channel_affine_cachemask": _per_channel,
    "_fake_quantize_learnable_per_tensor_affine": _trained_tensor,
    "_fake_quantize_learnable_per_channel_affine": _trained_channels,
    "_fake_quantize_learnable_per_tensor_affine_backward": _tensor_backward,
    "_fake_quantize_learnable_per_channel_affine_backward": _channels_backward,
}
