"""Launches of this package's Triton kernels on the device of their tensors."""

from typing import Any

import torch


def launch(
    kernel: Any, grid: tuple[int, ...], device: Any, *arguments: Any, warps: int = 4
) -> None:
    """Launch a kernel on a device."""
    with torch.cuda.device(device):
        kernel[grid](*arguments, num_warps=warps)
