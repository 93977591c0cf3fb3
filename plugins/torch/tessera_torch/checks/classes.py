"""Losses of classes that are bytes, which PyTorch's decompositions do not gather by."""

from collections.abc import Callable
from typing import Any, Final

import torch

_PLACES: Final = {"nll_loss_forward": 1, "nll_loss_backward": 2}  # of the classes


def with_bytes(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that also takes classes of 8 bits, if it is that of such a loss."""
    place = _PLACES.get(name.partition(".")[0])
    if place is None:
        return compute

    def compute_widened(*arguments: Any, **keywords: Any) -> Any:
        if len(arguments) > place and arguments[place].dtype == torch.uint8:
            wide = arguments[place].to(torch.int64)
            arguments = (*arguments[:place], wide, *arguments[place + 1 :])
        return compute(*arguments, **keywords)

    return compute_widened
