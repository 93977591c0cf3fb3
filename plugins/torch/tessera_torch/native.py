"""PyTorch's own CUDA kernels that Tessera can run: copies, memsets and calls of cuBLAS."""

from typing import Any, Final

import torch

_KERNELS: Final[dict[str, Any]] = {}
_KEYS: Final = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
PRODUCTS: Final = (
    "mm",
    "mm.out",
    "bmm",
    "bmm.out",
    "addmm_",
    "addmv_",
    "baddbmm",
    "baddbmm.out",
    "baddbmm_",
    "dot",
    "vdot",
)
_FORWARDED: Final = ("copy_", "zero_", "addmm", "addmm.out", "addmv", "addmv.out", *PRODUCTS)


def remember() -> None:
    """Keep PyTorch's kernels, before ours replace them."""
    for name in _FORWARDED:
        remember_kernel(name)


def remember_kernel(name: str) -> None:
    """Keep PyTorch's kernel of an operator, before another one replaces it."""
    _KERNELS[name] = torch.library.get_kernel(f"aten::{name}", "CUDA")


def call(name: str, *arguments: Any, **keywords: Any) -> Any:
    """Call PyTorch's own kernel of an operator, with all arguments of its schema."""
    return _KERNELS[name].call_boxed(_KEYS, *arguments, **keywords)


def copy_bytes(target: Any, source: Any) -> None:
    """Copy between tensors of one type and layout: a copy of memory."""
    call("copy_", target, source, False)
