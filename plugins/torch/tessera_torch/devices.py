"""Copies between several devices of a process, without NCCL.

PyTorch's ``DataParallel`` broadcasts and adds with NCCL where it was built with it. Tessera's NCCL
has communicators of one rank, so here both are copies, and PyTorch's own additions.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch


def avoid_nccl() -> None:
    """Let ``torch.nn.parallel.comm`` copy from device to device."""
    from torch.cuda import nccl
    from torch.nn.parallel import comm

    # The types of PyTorch's functions are wider: they take what only their C++ part distinguishes.
    replaced: tuple[tuple[Any, str, Any], ...] = (
        (nccl, "is_available", _is_available),
        (comm, "broadcast", _broadcast),
        (comm, "broadcast_coalesced", _broadcast_coalesced),
    )
    for module, name, function in replaced:
        setattr(module, name, function)


def _is_available(tensors: Iterable[Any]) -> bool:
    return False


def _device(device: Any) -> torch.device:
    return torch.device("cuda", device) if isinstance(device, int) else torch.device(device)


def _broadcast(tensor: Any, devices: Any = None, *, out: Any = None) -> Any:
    """Copy a tensor to devices, or into tensors there."""
    if (devices is None) == (out is None):
        raise RuntimeError(
            "Exactly one of 'devices' and 'out' must be specified, but got"
            f" devices={devices} and out={out}"
        )
    if out is not None:
        for target in out:
            if target.data_ptr() != tensor.data_ptr() or target.device != tensor.device:
                target.copy_(tensor, non_blocking=True)
        return tuple(out)
    return tuple(tensor.to(_device(device), non_blocking=True) for device in devices)


def _broadcast_coalesced(
    tensors: Sequence[Any], devices: Sequence[Any], buffer_size: int = 10485760
) -> list[tuple[Any, ...]]:
    """Copy tensors to devices; those of the first device are the tensors themselves."""
    places = [_device(device) for device in devices]
    for tensor in tensors:
        if tensor.device != places[0]:
            raise RuntimeError(f"all tensors must be on devices[0]: {places[0]}")
    return [tuple(tensor.to(place, non_blocking=True) for tensor in tensors) for place in places]
