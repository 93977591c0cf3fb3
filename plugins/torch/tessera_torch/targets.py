"""Forms with out= of operators that this package computes, made from their functional forms."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch


def out_form(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel of an overload with out=, which copies what ``compute`` returns."""
    packet, _, overload_name = name.partition(".")
    overload = getattr(getattr(torch.ops.aten, packet), overload_name)
    names = [a.name for a in overload._schema.arguments if a.is_out]

    def compute_into(*arguments: Any, **keywords: Any) -> Any:
        targets = [keywords.pop(target_name) for target_name in names]
        results = compute(*arguments, **keywords)
        listed = results if isinstance(results, (tuple, list)) else (results,)
        for target, output in zip(targets, listed, strict=True):
            write(name, target, output)
        return targets[0] if len(targets) == 1 else tuple(targets)

    return compute_into


def write(name: str, target: Any, result: Any) -> None:
    """Copy a result into an out= tensor. Raises RuntimeError if its type cannot hold it."""
    if not torch.can_cast(result.dtype, target.dtype):
        raise RuntimeError(
            f"{name}: result type {result.dtype} can't be cast to the desired output type"
            f" {target.dtype}"
        )
    resize(target, result.shape).copy_(result)


def resize(target: Any, shape: Sequence[int]) -> Any:
    """Give an out= tensor the shape of a result; warn of it as PyTorch does, and return it."""
    if tuple(target.shape) == tuple(shape):
        return target
    if target.numel():
        warnings.warn(
            "An output with one or more elements was resized since it had shape"
            f" {list(target.shape)}, which does not match the required output shape {list(shape)}."
            " This behavior is deprecated, and in a future PyTorch release outputs will not be"
            " resized unless they have zero elements. You can explicitly reuse an out tensor t by"
            " resizing it, inplace, to zero elements with t.resize_(0).",
            stacklevel=2,
        )
    return target.resize_(shape)


def both(name: str, out: str, compute: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Return an operator's functional form and its form with out=, by their names."""
    return {name: compute, out: out_form(out, compute)}
