"""Launches of this package's Triton kernels on the device of their tensors."""

from typing import Any

import torch

from tessera_torch import settings
from tessera_torch.nesting import LOCK


def launch(
    kernel: Any, grid: tuple[int, ...], device: Any, *arguments: Any, warps: int = 4
) -> None:
    """Launch a kernel on a device."""
    with torch.cuda.device(device):
        if kernel.device_caches[device.index][0]:
            kernel[grid](*arguments, num_warps=warps)
            return
        with LOCK, settings.without_ptx_check():
            kernel[grid](*arguments, num_warps=warps)
