"""Ranges of values that quantization-aware training observes, and rounding by them."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.special.rounding import KERNELS as _ROUNDING

_LEAST_SCALE: Final = 0.1  # PyTorch's, where all values are zero
_PER_TENSOR: Final = _ROUNDING["_fake_quantize_per_tensor_affine_cachemask_tensor_qparams"]
_PER_CHANNEL: Final = _ROUNDING["fake_quantize_per_channel_affine_cachemask"]


def _observe(values: Any, running: tuple[Any, Any], weight: float) -> None:
    """Move the running ranges, a number for each row of the values, towards these."""
    observed_ranges = values.amin(-1), values.amax(-1)
    for bound, observation in zip(running, observed_ranges, strict=True):
        if bound.numel() != observation.numel():
            bound.resize_(observation.shape).fill_(float("inf"))
        shaped = observation.reshape(bound.shape)
        moved = bound + weight * (shaped - bound)
        bound.copy_(torch.where(bound.isinf(), shaped, moved))


def _choose(
    minimum: Any, maximum: Any, quant_min: int, quant_max: int, symmetric: bool
) -> tuple[Any, Any]:
    """Return scale and zero point for ranges, which are on the host in double precision."""
    minimum, maximum = minimum.clamp(max=0), maximum.clamp(min=0)
    both_signs = (minimum < 0) & (maximum > 0) & symmetric
    half = (quant_max - quant_min) // 2
    widest = torch.maximum((minimum / -(half + 1)).abs(), (maximum / half).abs())
    minimum = torch.where(both_signs, -widest * (half + 1), minimum)
    maximum = torch.where(both_signs, widest * half, maximum)
    single = ((maximum - minimum) / (quant_max - quant_min)).to(torch.float32)
    single = torch.where((single == 0) | (1 / single).isinf(), _LEAST_SCALE, single)
    scale = single.to(torch.float64)  # PyTorch's CUDA kernel keeps the rounded scale
    low, high = minimum / scale, maximum / scale
    is_low = abs(quant_min) - low.abs() < abs(quant_max) - high.abs()
    zero = torch.where(is_low, quant_min - low, quant_max - high)
    zero = torch.where(both_signs, (quant_min + quant_max) / 2, zero)
    return scale, zero.clamp(quant_min, quant_max).round()


def _observe_and_round(
    self: Any, observer_on: Any, fake_quant_on: Any, running_min: Any, running_max: Any,
    scale: Any, zero_point: Any, averaging_const: float, quant_min: int, quant_max: int,
    ch_axis: int, per_row_fake_quant: bool = False, symmetric_quant: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    counts.CALLS["_fused_moving_avg_obs_fq_helper"] += 1
    running = running_min, running_max
    if int(observer_on.item()):
        rows = self.transpose(0, ch_axis).flatten(1) if per_row_fake_quant else self.flatten()
        _observe(rows, running, averaging_const)
    if not int(fake_quant_on.item()):
        return self.clone(), torch.ones_like(self, dtype=torch.bool)
    minimum, maximum = (bound.to("cpu", torch.float64) for bound in running)
    chosen = _choose(minimum, maximum, quant_min, quant_max, symmetric_quant)
    for target, choice in zip((scale, zero_point), chosen, strict=True):
        if target.numel() != choice.numel():
            target.resize_(choice.shape)
        target.copy_(choice.to(target.dtype).reshape(target.shape))
    if per_row_fake_quant:
        return _PER_CHANNEL(self, scale, zero_point, ch_axis, quant_min, quant_max)  # type: ignore[no-any-return]
    return _PER_TENSOR(self, scale, zero_point, fake_quant_on, quant_min, quant_max)  # type: ignore[no-any-return]


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "_fused_moving_avg_obs_fq_helper": _observe_and_round,
}
