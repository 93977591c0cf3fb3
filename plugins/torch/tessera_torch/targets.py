"""Forms with out= of operators that this package computes, made from their functional forms."""

from collections.abc import Callable
from typing import Any

import torch


def out_form(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel of an overload with out=, which copies what ``compute`` returns."""
    packet, _, other = name.partition(".")
    overload = getattr(getattr(torch.ops.aten, packet), other)
    names = [a.name for a in overload._schema.arguments if a.is_out]

    def compute_into(*arguments: Any, **keywords: Any) -> Any:
        targets = [keywords.pop(one) for one in names]
        results = compute(*arguments, **keywords)
        listed = results if isinstance(results, (tuple, list)) else (results,)
        for target, one in zip(targets, listed, strict=True):
            write(name, target, one)
        return targets[0] if len(targets) == 1 else tuple(targets)

    return compute_into


def write(name: str, target: Any, result: Any) -> None:
    """Copy a result into an out= tensor. Raises RuntimeError if its type cannot hold it."""
    if not torch.can_cast(result.dtype, target.dtype):
        raise RuntimeError(
            f"{name}: result type {result.dtype} can't be cast to the desired output type"
            f" {target.dtype}"
        )
    if target.shape != result.shape:
        target.resize_(result.shape)
    target.copy_(result)


def both(name: str, out: str, compute: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Return an operator's functional form and its form with out=, by their names."""
    return {name: compute, out: out_form(out, compute)}
