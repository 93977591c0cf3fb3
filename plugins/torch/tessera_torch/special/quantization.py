"""Tensors of quantized types: made from floats, and turned into floats or integers."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.operator import overload
from tessera_torch.refusal import refusal
from tessera_torch.special.rounding import along

_INTEGERS: Final = {
    torch.qint8: torch.int8,
    torch.quint8: torch.uint8,
    torch.qint32: torch.int32,
}


def _limits(dtype: Any) -> tuple[int, int]:
    info = torch.iinfo(_INTEGERS[dtype])
    return info.min, info.max


def _check(name: str, tensor: Any, dtype: Any) -> None:
    if dtype not in _INTEGERS:
        raise NotImplementedError(refusal(name, tensor, f"{dtype} is not computed"))


def _check_values(tensor: Any) -> None:
    if tensor.dtype != torch.float32:
        type_name = tensor.type().rpartition(".")[2].removesuffix("Tensor")
        raise RuntimeError(f"Quantize only works on Float Tensor, got {type_name}")


def _check_zero_point(name: str, zero_point: float, dtype: Any) -> None:
    minimum, maximum = _limits(dtype)
    if not minimum <= zero_point <= maximum:
        bound = "above upper" if zero_point > maximum else "below lower"
        raise RuntimeError(f"{name} zero_point {zero_point} is {bound} bound.")


def _integers(quantized: Any) -> Any:
    """Return a view of the memory as integers."""
    view = torch.empty(0, dtype=_INTEGERS[quantized.dtype], device=quantized.device)
    return view.set_(
        quantized.untyped_storage(),
        quantized.storage_offset(),
        quantized.shape,
        quantized.stride(),
    )


def _fill(quantized: Any, integers: Any) -> Any:
    minimum, maximum = _limits(quantized.dtype)
    storage_type = _INTEGERS[quantized.dtype]
    target = _integers(quantized)
    if storage_type is torch.int32:  # a float has no 2147483647
        wide = integers.to(torch.float64).clamp(minimum, maximum)
        target.copy_(wide.to(torch.int64).to(storage_type))
    else:
        target.copy_(integers.clamp(minimum, maximum).to(storage_type))
    return quantized


def _per_tensor(self: Any, scale: float, zero_point: int, dtype: Any) -> Any:
    counts.CALLS["quantize_per_tensor"] += 1
    _check("quantize_per_tensor", self, dtype)
    _check_values(self)
    _check_zero_point("quantize_tensor_per_tensor_affine", zero_point, dtype)
    out = torch._empty_affine_quantized(
        self.shape, scale=scale, zero_point=zero_point, dtype=dtype, device=self.device
    )
    return _fill(out, torch.round(self.contiguous().to(torch.float64) / scale) + zero_point)


def _per_tensor_of_tensors(self: Any, scale: Any, zero_point: Any, dtype: Any) -> Any:
    return _per_tensor(self, float(scale.item()), int(zero_point.item()), dtype)


def _per_channel(self: Any, scales: Any, zero_points: Any, axis: int, dtype: Any) -> Any:
    counts.CALLS["quantize_per_channel"] += 1
    _check("quantize_per_channel", self, dtype)
    _check_values(self)
    if zero_points.numel():
        for extreme in torch.aminmax(zero_points):
            _check_zero_point("quantize_tensor_per_channel_affine", extreme.item(), dtype)
    out = torch._empty_per_channel_affine_quantized(
        self.shape, scales=scales, zero_points=zero_points, axis=axis, dtype=dtype,
        device=self.device,
    )  # fmt: skip
    values = self.contiguous()
    zeros = along(zero_points, self, axis)
    if zero_points.is_floating_point():
        steps = along(scales.to(torch.float32), self, axis)
        return _fill(out, torch.round(values * (1 / steps) + zeros.to(torch.float32)))
    steps = along(scales.to(torch.float64), self, axis)
    return _fill(out, torch.round(values.to(torch.float64) / steps) + zeros)


def _int_repr(self: Any) -> Any:
    counts.CALLS["int_repr"] += 1
    _check("int_repr", self, self.dtype)
    return _integers(self).clone()


def _dequantize(self: Any) -> Any:
    counts.CALLS["dequantize"] += 1
    _check("dequantize", self, self.dtype)
    integers = _integers(self)
    if self.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return (integers.to(torch.float32) - self.q_zero_point()) * self.q_scale()
    axis = self.q_per_channel_axis()
    zeros = along(self.q_per_channel_zero_points(), self, axis)
    steps = along(self.q_per_channel_scales(), self, axis).to(torch.float32)
    return (integers.to(torch.float32) - zeros) * steps


def _dequantize_floats(self: Any) -> Any:
    return self.to(torch.float32)


def _refuse(name: str) -> Callable[..., Any]:
    def compute(*arguments: Any, **keywords: Any) -> Any:
        tensors = (arguments, keywords)
        reason = "operators of quantized tensors are not computed: call dequantize() first"
        raise NotImplementedError(refusal(name, tensors, reason))

    return compute


_REFUSED: Final = (
    "fill_.Scalar",
    "fill_.Tensor",
    "masked_fill_.Scalar",
    "masked_fill_.Tensor",
    "gelu",
    "index_select",
    "index_select.out",
    "_adaptive_avg_pool2d",
    "min.dim",
    "max.dim",
    "flip",
    "relu",
    "relu_",
    "quantized_max_pool2d",
    "_index_put_impl_",
)


def refusals() -> dict[str, Callable[..., Any]]:
    """Return what refuses the operators of quantized tensors that have a kernel in PyTorch."""
    registered = set(torch._C._dispatch_get_registrations_for_dispatch_key("QuantizedCUDA"))
    names = [name for name in _REFUSED if f"aten::{name}" in registered]
    return {name: _refuse(str(overload(name)._schema.name).split("::")[1]) for name in names}


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "quantize_per_tensor": _per_tensor,
    "quantize_per_tensor.tensor_qparams": _per_tensor_of_tensors,
    "quantize_per_channel": _per_channel,
    "quantize_per_tensor_dynamic": _refuse("quantize_per_tensor_dynamic"),
    "dequantize.self": _dequantize_floats,
}
QUANTIZED_KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "int_repr": _int_repr,
    "dequantize.self": _dequantize,
}
