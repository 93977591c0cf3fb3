"""Operators on lists of tensors: PyTorch's general form, one operator for each tensor."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts

_KEYS: Final = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)


def kernels() -> dict[str, Callable[..., Any]]:
    """Return a kernel for each list operator that has one for CUDA and one for the CPU."""
    kernels_by_name = {}
    for full in torch._C._dispatch_get_registrations_for_dispatch_key("CUDA"):
        name = full.removeprefix("aten::")
        if name.startswith("_foreach_"):
            kernels_by_name[name] = _forward(name)
    return kernels_by_name


def _forward(name: str) -> Callable[..., Any]:
    kernels: list[Any] = []

    def compute(*arguments: Any, **keywords: Any) -> Any:
        counts.CALLS[name] += 1
        if not kernels:
            kernels.append(torch.library.get_kernel(f"aten::{name}", "CPU"))
        return kernels[0].call_boxed(_KEYS, *arguments, **keywords)

    return compute
