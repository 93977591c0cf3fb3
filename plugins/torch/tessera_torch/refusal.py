"""What happens to an operation without a kernel: an error, or the CPU if the user chose it."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from tessera_torch import counts, settings
from tessera_torch.native import copy_bytes
from tessera_torch.signature import Signature


class Unsupported(NotImplementedError):
    """A kernel of this package does not compute a call; the registered operator may fall back."""

    def __init__(self, name: str, tensors: Any, reason: str) -> None:
        super().__init__(refusal(name, tensors, reason))
        self.reason = reason


def refuse_or_fall_back(
    signature: Signature, arguments: Sequence[Any], keywords: dict[str, Any], reason: str
) -> Any:
    """Compute on the CPU if the user chose that.

    Raises:
        NotImplementedError: the user did not.
    """
    if not settings.falls_back_to_cpu():
        raise NotImplementedError(refusal(signature.name, (arguments, keywords), reason))
    counts.ON_CPU[signature.name] += 1
    if counts.ON_CPU[signature.name] == 1:
        counts.say(f"aten::{signature.name} runs on the CPU: {reason}")
    return _compute_on_cpu(signature, arguments, keywords)


def refusal(name: str, arguments: Any, reason: str) -> str:
    """Return the message of an operation without a kernel."""
    tensors = [leaf for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
    dtypes = ", ".join(
        dict.fromkeys(str(tensor.dtype).removeprefix("torch.") for tensor in tensors)
    )
    return (
        f"aten::{name} ({dtypes or 'no tensors'}) has no kernel on Tessera's simulated GPU:"
        f" {reason}. Compute it on the CPU (tensor.cpu()), or set"
        f" {settings.FALLBACK_VARIABLE}=cpu to let tessera-torch do so"
    )


def _compute_on_cpu(
    signature: Signature, arguments: Sequence[Any], keywords: dict[str, Any]
) -> Any:
    leaves = tree_leaves((arguments, keywords))
    device = _device(leaves)

    def down(argument: Any) -> Any:
        if isinstance(argument, torch.Tensor):
            return (
                argument.cpu() if argument.is_cuda and not argument.dim() else _download(argument)
            )
        if isinstance(argument, torch.device):
            return torch.device("cpu")
        return None if isinstance(argument, torch.Generator) else argument

    below, below_keywords = tree_map(down, (list(arguments), dict(keywords)))
    result = signature.overload(*below, **below_keywords)
    full = signature.bind(arguments, keywords)
    full_below = signature.bind(below, below_keywords)
    for i in signature.writes:
        pairs = zip(_list(full[i]), _list(full_below[i]), strict=True)
        for target, source in pairs:
            if target.shape != source.shape:
                target.resize_(source.shape)
            _upload(target, source)
    if signature.writes:
        return signature.answer(full)

    def up(tensor: Any) -> Any:
        if not isinstance(tensor, torch.Tensor):
            return tensor
        target = torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device
        )
        _upload(target, tensor)
        return target

    return tree_map(up, result)


def _list(answer: Any) -> Iterable[Any]:
    if answer is None:
        return ()
    return (answer,) if isinstance(answer, torch.Tensor) else answer


def _device(leaves: Sequence[Any]) -> Any:
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and leaf.is_cuda:
            return leaf.device
    for leaf in leaves:
        if isinstance(leaf, torch.device):
            return leaf
    return torch.device("cuda", torch.cuda.current_device())


def span(tensor: Any) -> int:
    """Return the number of elements from a tensor's first to its last in memory."""
    if not tensor.numel():
        return 0
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return 1 + int(sum((n - 1) * s for n, s in steps))


def _download(tensor: Any) -> Any:
    """Return a copy on the CPU with the same strides: bytes only, no kernel."""
    if not tensor.is_cuda:
        return tensor
    count = span(tensor)
    flat = torch.empty(count, dtype=tensor.dtype)
    if count:
        copy_bytes(flat, tensor.as_strided((count,), (1,)))
    return flat.as_strided(tensor.shape, tensor.stride())


def _upload(target: Any, source: Any) -> None:
    count = span(target)
    if not count:
        return
    flat = torch.empty(count, dtype=target.dtype)
    if count != target.numel():  # keep what is between the target's elements
        copy_bytes(flat, target.as_strided((count,), (1,)))
    flat.as_strided(target.shape, target.stride()).copy_(source)
    copy_bytes(target.as_strided((count,), (1,)), flat)
