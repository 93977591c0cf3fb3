"""Convolutions of one to three dimensions, transposed ones and their gradients."""

from collections.abc import Sequence
from typing import Any, Final

import torch
import triton.language as tl

from tessera_torch import counts
from tessera_torch.formats import format_of_convolution
from tessera_torch.own.convolution_kernels import gather_product, weight_product
from tessera_torch.own.launching import launch
from tessera_torch.refusal import Unsupported

_BLOCK: Final = 32
_CUDNN_SETTINGS: Final = 4  # at the end of `_convolution`
_WARPS: Final = 2  # fewer than a warp group: Triton then uses no wgmma
_TYPES: Final = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
Three = tuple[int, int, int]


def _three(values: Sequence[int], rank: int, fill: int) -> Three:
    """Return one value for each of three dimensions."""
    own = list(values) if len(values) == rank else [values[0]] * rank
    first, second, third = [fill] * (3 - rank) + own
    return first, second, third


def _spatial(tensor: Any) -> Any:
    """Return a view of images with three dimensions."""
    while tensor.dim() < 5:
        tensor = tensor.unsqueeze(2)
    return tensor


class _Shape:
    """The numbers of one convolution, in three dimensions."""

    def __init__(self, rank: int, stride: Any, padding: Any, dilation: Any, groups: int) -> None:
        self.rank = rank
        self.stride = _three(stride, rank, 1)
        self.padding = _three(padding, rank, 0)
        self.dilation = _three(dilation, rank, 1)
        self.groups = groups

    def forward(self) -> tuple[int, ...]:
        """Return the factors that lead from a result's position and a tap to the image's."""
        return *self.stride, *self.dilation, *(-p for p in self.padding)

    def backward(self) -> tuple[int, ...]:
        """Return the factors that lead from an image's position and a tap to the result's."""
        return 1, 1, 1, *(-d for d in self.dilation), *self.padding


def _check(name: str, *tensors: Any) -> None:
    for tensor in tensors:
        if tensor.dtype not in _TYPES:
            raise Unsupported(name, tensors, "convolutions need floating point")
    if len({tensor.dtype for tensor in tensors}) > 1:
        first, second = tensors[0].dtype, tensors[1].dtype
        raise RuntimeError(f"Input type ({first}) and weight type ({second}) should be the same")


def _check_ranks(x: Any, weight: Any) -> None:
    if weight.dim() < 3:
        raise RuntimeError("weight should have at least three dimensions")
    if x.dim() != weight.dim():
        raise RuntimeError(
            f"Expected {weight.dim()}-dimensional input for {weight.dim()}-dimensional weight"
            f" {list(weight.shape)}, but got {x.dim()}-dimensional input of size {list(x.shape)}"
            " instead"
        )


def _by(sizes: Sequence[int]) -> str:
    return f"({' x '.join(str(n) for n in sizes)})"


def _empty(like: Any, shape: Sequence[int], layout: Any) -> Any:
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=layout)


def _accumulator(dtype: Any) -> Any:
    return tl.float64 if dtype == torch.float64 else tl.float32


def _gather(x: Any, weight: Any, out: Any, shape: _Shape, transposed: bool) -> Any:
    """Compute a convolution (or, transposed, its gradient of the input) into ``out``."""
    if not out.numel():
        return out
    x, weight, target = _spatial(x), _spatial(weight), _spatial(out)
    groups = shape.groups
    inner, outer = x.shape[1] // groups, target.shape[1] // groups
    if not inner:
        return out.zero_()
    factors = shape.backward() if transposed else shape.forward()
    divisors = shape.stride if transposed else (1, 1, 1)
    to_inner, to_outer = (0, 1) if transposed else (1, 0)
    rows = target.shape[0] * target.shape[2] * target.shape[3] * target.shape[4]
    grid = (-(-rows // _BLOCK), -(-outer // _BLOCK), groups)
    launch(
        gather_product, grid, x.device,
        x, weight, target, rows, inner, outer,
        *target.shape[2:], *weight.shape[2:], *x.shape[2:], *factors, *divisors, *x.stride(),
        weight.shape[0] // groups * weight.stride(0),
        weight.stride(to_outer), weight.stride(to_inner), *weight.stride()[2:], *target.stride(),
        _accumulator(x.dtype), _BLOCK, warps=_WARPS,
    )  # fmt: skip
    return out


def _weights(gradient: Any, x: Any, weight: Any, shape: _Shape) -> Any:
    """Return the weights' gradient: ``gradient`` has the positions, ``x`` the taps."""
    out = torch.zeros(weight.shape, dtype=weight.dtype, device=weight.device)
    gradient, x, taps = _spatial(gradient), _spatial(x), _spatial(weight)
    groups = shape.groups
    positions = gradient.shape[0] * gradient.shape[2] * gradient.shape[3] * gradient.shape[4]
    outer, inner = gradient.shape[1] // groups, x.shape[1] // groups
    columns = inner * taps.shape[2] * taps.shape[3] * taps.shape[4]
    if positions and outer and columns:
        grid = (-(-outer // _BLOCK), -(-columns // _BLOCK), groups)
        launch(
            weight_product, grid, x.device,
            gradient, x, out, positions, outer, inner,
            *gradient.shape[2:], *taps.shape[2:], *x.shape[2:], *shape.forward(),
            *gradient.stride(), *x.stride(), _accumulator(x.dtype), _BLOCK, warps=_WARPS,
        )  # fmt: skip
    return out


def _result_shape(x: Any, weight: Any, shape: _Shape, transposed: bool, extra: Three) -> list[int]:
    lead = 3 - shape.rank
    sizes = [x.shape[0], weight.shape[1] * shape.groups if transposed else weight.shape[0]]
    for i in range(lead, 3):
        size, taps = x.shape[2 + i - lead], weight.shape[2 + i - lead]
        reach = shape.dilation[i] * (taps - 1) + 1
        if transposed:
            sizes.append((size - 1) * shape.stride[i] - 2 * shape.padding[i] + reach + extra[i])
        else:
            sizes.append((size + 2 * shape.padding[i] - reach) // shape.stride[i] + 1)
    if not transposed and min(sizes[2:]) < 1:
        padded = [n + 2 * p for n, p in zip(x.shape[2:], shape.padding[lead:], strict=True)]
        reaches = [
            d * (n - 1) + 1 for n, d in zip(weight.shape[2:], shape.dilation[lead:], strict=True)
        ]
        raise RuntimeError(
            f"Calculated padded input size per channel: {_by(padded)}. Kernel size:"
            f" {_by(reaches)}. Kernel size can't be greater than actual input size"
        )
    if min(sizes[2:]) < 0:
        raise RuntimeError(
            f"Calculated output size {sizes} is too small: kernel size can't be greater than"
            " actual input size"
        )
    return sizes


def _check_numbers(stride: Any, padding: Any, dilation: Any) -> None:
    if min(padding) < 0:
        raise RuntimeError("negative padding is not supported")
    if min(stride) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if min(dilation) <= 0:
        raise RuntimeError(f"dilation should be greater than zero, but got {list(dilation)}")


def _convolution(
    x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> Any:  # fmt: skip
    counts.CALLS["convolution"] += 1
    if torch._C._get_tracing_state() is not None:
        # torch.jit.trace records not this operator, but the one that PyTorch's kernel calls.
        cudnn = torch.backends.cudnn
        return torch.ops.aten._convolution.default(
            x, weight, bias, stride, padding, dilation, transposed, output_padding, groups,
            cudnn.benchmark, cudnn.deterministic, cudnn.enabled, cudnn.allow_tf32,
        )  # fmt: skip
    _check("convolution", x, weight)
    rank = x.dim() - 2
    _check_ranks(x, weight)
    _check_numbers(stride, padding, dilation)
    shape = _Shape(rank, stride, padding, dilation, groups)
    channels = weight.shape[0] if transposed else weight.shape[1] * groups
    if x.shape[1] != channels:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(weight.shape)}, expected input"
            f"{list(x.shape)} to have {channels} channels, but got {x.shape[1]} channels instead"
        )
    extra = _three(output_padding, rank, 0)
    layout = format_of_convolution(x, weight)
    out = _empty(x, _result_shape(x, weight, shape, transposed, extra), layout)
    _gather(x, weight, out, shape, transposed)
    return out if bias is None else out.add_(bias.view(1, -1, *[1] * rank))


def _recorded_convolution(*arguments: Any) -> Any:
    """Compute the operator of recorded programs, which ends with four settings of cuDNN."""
    return _convolution(*arguments[:-_CUDNN_SETTINGS])


def _convolution_backward(
    gradient: Any, x: Any, weight: Any, bias_sizes: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int, output_mask: Sequence[bool],
) -> tuple[Any, Any, Any]:  # fmt: skip
    counts.CALLS["convolution_backward"] += 1
    _check("convolution_backward", gradient, x, weight)
    shape = _Shape(x.dim() - 2, stride, padding, dilation, groups)
    layout = format_of_convolution(x, weight)
    of_x = of_weight = of_bias = None
    if output_mask[0]:
        of_x = _gather(gradient, weight, _empty(x, x.shape, layout), shape, not transposed)
    if output_mask[1]:
        first, second = (x, gradient) if transposed else (gradient, x)
        of_weight = _weights(first, second, weight, shape).contiguous(memory_format=layout)
    if output_mask[2]:
        of_bias = gradient.sum([0, *range(2, gradient.dim())])
    return of_x, of_weight, of_bias


KERNELS: Final = {
    "_convolution": _recorded_convolution,
    "convolution": _convolution,
    "convolution_overrideable": _convolution,
    "convolution_backward": _convolution_backward,
}
