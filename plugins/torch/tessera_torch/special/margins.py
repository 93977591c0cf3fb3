"""Gradients of losses with margins between classes."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.targets import both

_MEAN: Final = 1
_NONE: Final = 0


def _multi_margin_backward(
    gradient: Any, self: Any, target: Any, p: Any, margin: Any, weight: Any = None,
    reduction: int = _MEAN,
) -> Any:  # fmt: skip
    counts.CALLS["multi_margin_loss_backward"] += 1
    scores = self if self.dim() > 1 else self.reshape(1, -1)
    classes = target.reshape(-1, 1)
    distance = margin - scores.gather(1, classes) + scores
    slope = (distance > 0).to(scores.dtype)
    if p == 2:
        slope = slope * 2 * distance
    if weight is not None:
        slope = slope * weight[classes]
    slope = slope / scores.shape[1]
    slope.scatter_(1, classes, 0.0)
    slope.scatter_(1, classes, -slope.sum(1, keepdim=True))
    if reduction == _MEAN:
        slope = slope / scores.shape[0]
    scale = gradient.reshape(-1, 1) if reduction == _NONE else gradient
    return (slope * scale).reshape(self.shape)


def _multilabel_margin_backward(
    gradient: Any, self: Any, target: Any, reduction: int, is_target: Any
) -> Any:
    counts.CALLS["multilabel_margin_loss_backward"] += 1
    scores = self if self.dim() > 1 else self.reshape(1, -1)
    labels = target if target.dim() > 1 else target.reshape(1, -1)
    marked = is_target.reshape(scores.shape) != 0
    # Labels end at the first negative one.
    valid = (labels < 0).to(torch.int64).cumsum(1) == 0
    places = torch.where(valid, labels, 0)
    chosen = scores.gather(1, places)
    over = (1 - chosen[:, :, None] + scores[:, None, :]) > 0
    over = over & valid[:, :, None] & ~marked[:, None, :]
    hits = over.to(scores.dtype)
    slope = hits.sum(1)
    slope = slope.scatter_add(1, places, -hits.sum(2)) / scores.shape[1]
    if reduction == _MEAN:
        slope = slope / scores.shape[0]
    scale = gradient.reshape(-1, 1) if reduction == _NONE else gradient
    return (slope * scale).reshape(self.shape)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    **both(
        "multi_margin_loss_backward",
        "multi_margin_loss_backward.grad_input",
        _multi_margin_backward,
    ),
    **both(
        "multilabel_margin_loss_backward",
        "multilabel_margin_loss_backward.grad_input",
        _multilabel_margin_backward,
    ),
}
