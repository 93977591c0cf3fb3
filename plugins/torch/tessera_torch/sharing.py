"""Tensors that share memory until one is written, as ``torch._lazy_clone`` makes them.

Python's ``data_ptr`` copies the memory of such a tensor, because a program may write there. A
kernel that only reads gets another tensor at the same address.
"""

from collections.abc import Sequence
from typing import Any

import torch

from tessera_torch.signature import Signature

in_use = False
"""Whether the process has made such a tensor: until then no call looks for them."""

NAME = "_lazy_clone"
_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.CompositeExplicitAutograd)


def lazy_clone(self: Any) -> Any:
    """Make a tensor that shares its memory, with PyTorch's own function."""
    global in_use
    in_use = True
    return torch.ops.aten._lazy_clone.default.redispatch(_KEYS, self)


def read_in_place(
    signature: Signature, arguments: Sequence[Any], keywords: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return a call's arguments, where tensors that the call only reads share nothing."""
    if signature.overload.is_view:
        return list(arguments), keywords
    written = {signature.names[i] for i in signature.writes}
    places = [
        argument if name in written else _at_same_address(argument)
        for name, argument in zip(signature.names, arguments, strict=False)
    ]
    named = {
        name: argument if name in written else _at_same_address(argument)
        for name, argument in keywords.items()
    }
    return places, named


def _at_same_address(argument: Any) -> Any:
    if isinstance(argument, (list, tuple)):
        return type(argument)(_at_same_address(x) for x in argument)
    if (
        not isinstance(argument, torch.Tensor)
        or not argument.is_cuda
        or not torch._C._is_cow_tensor(argument)
    ):
        return argument
    last = sum((n - 1) * s for n, s in zip(argument.shape, argument.stride(), strict=True))
    size = (last + 1) * argument.element_size() if argument.numel() else 0
    storage = torch._C._construct_storage_from_data_pointer(
        torch._C._data_address(argument), argument.device, size
    )
    alias = torch.empty(0, dtype=argument.dtype, device=argument.device)
    return alias.set_(storage, 0, argument.shape, argument.stride())
