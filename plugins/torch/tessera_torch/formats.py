"""The memory formats of convolutions, which are those that cuDNN uses on a real GPU."""

from typing import Any, Final

import torch

from tessera_torch.layout import are_channels_last

_CHANNELS_LAST: Final = {4: torch.channels_last, 5: torch.channels_last_3d}
_TAG: Final = "formats of cuDNN;"


def format_of_convolution(x: Any, weight: Any) -> Any:
    """Return the memory format of a convolution's result and gradients."""
    if torch.float64 in (x.dtype, weight.dtype):
        return torch.contiguous_format
    if not (_has_channels_last(x) or _has_channels_last(weight)):
        return torch.contiguous_format
    return _CHANNELS_LAST.get(weight.dim(), torch.contiguous_format)


def _has_channels_last(tensor: Any) -> bool:
    if tensor.dim() not in _CHANNELS_LAST:
        return False
    return are_channels_last(tensor.shape, tensor.stride())


def inform_compilers() -> None:
    """Let PyTorch's compilers know these formats: cuDNN is switched off, which has contiguous ones.

    A compiled program checks the strides of what an operator returns.
    """
    determine = torch._C._conv_determine_backend_memory_format

    def determine_format(x: Any, weight: Any, backend: Any) -> Any:
        if x.device.type == "cuda":
            return format_of_convolution(x, weight)
        return determine(x, weight, backend)

    torch._C._conv_determine_backend_memory_format = determine_format
    # A program that was compiled for other strides may be in a cache: its key is of its operators.
    torch.compiler.config.cache_key_tag += _TAG
