"""Connectionist temporal classification: the loss of sequences without alignment.

The recursions are those of Graves and others (2006), in logarithms.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from tessera_torch import counts

_NONE: Final = float("-inf")


def _lengths(lengths: Any) -> list[int]:
    return [int(length) for length in (lengths.tolist() if torch.is_tensor(lengths) else lengths)]


def _targets(targets: Any, lengths: Sequence[int], blank: int, device: Any) -> Any:
    """Return the classes of each sequence with blanks between: (batch, 2 * longest + 1)."""
    longest = max(lengths, default=0)
    host = targets.cpu().to(torch.int64)
    spread = torch.full((len(lengths), 2 * longest + 1), blank, dtype=torch.int64)
    start = 0
    for i, length in enumerate(lengths):
        own = host[i, :length] if host.dim() == 2 else host[start : start + length]
        spread[i, 1 : 2 * length + 1 : 2] = own
        start += length
    return spread.to(device)


def _may_skip(spread: Any) -> Any:
    """Return where a path may come from two places before: no blank, and another class."""
    earlier_labels = torch.roll(spread, 2, 1)
    odd = torch.arange(spread.shape[1], device=spread.device) % 2 == 1
    skip = odd & (spread != earlier_labels)
    skip[:, :2] = False
    return skip


def _shift(rows: Any, distance: int) -> Any:
    """Return rows moved towards larger places, or smaller ones if the distance is negative."""
    empty = torch.full_like(rows[:, : abs(distance)], _NONE)
    if rows.shape[1] <= abs(distance):
        return torch.full_like(rows, _NONE)
    parts = (empty, rows[:, :-distance]) if distance > 0 else (rows[:, -distance:], empty)
    return torch.cat(parts, 1)


def _sum(parts: Sequence[Any]) -> Any:
    """Return the logarithm of a sum, also where all parts are zero."""
    stacked = torch.stack(list(parts))
    largest = stacked.amax(0)
    largest = torch.where(largest == _NONE, 0.0, largest)
    return (stacked - largest).exp().sum(0).log() + largest


def _ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any,
    blank: int = 0, zero_infinity: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    counts.CALLS["_ctc_loss"] += 1
    if not log_probs.numel():
        raise RuntimeError("log_probs tensor must not be empty")
    steps, batch, classes = log_probs.shape
    times, lengths = _lengths(input_lengths), _lengths(target_lengths)
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    if len(times) != batch or len(lengths) != batch:
        raise RuntimeError("input_lengths and target_lengths must be of size batch_size")
    if times and (max(times) > steps or min(times) < 0):
        raise RuntimeError(
            f"Expected input_lengths to have values between 0 and {steps}, but got {times}"
        )
    device = log_probs.device
    spread = _targets(targets, lengths, blank, device)
    if spread.numel() and not 0 <= int(spread.min()) <= int(spread.max()) < classes:
        raise RuntimeError("targets must be in label range")
    ends = torch.tensor(lengths, dtype=torch.int64).to(device)
    skip = _may_skip(spread)
    width = spread.shape[1]
    first = torch.arange(width, device=device) < 2
    place = torch.arange(width, device=device)
    inside = place <= 2 * ends[:, None]
    alpha = torch.full((batch, steps, width), _NONE, dtype=log_probs.dtype, device=device)
    rows = None
    for t in range(steps):
        emitted = log_probs[t].gather(1, spread)
        if rows is None:
            rows = torch.where(first & inside, emitted, _NONE)
        else:
            twice = torch.where(skip, _shift(rows, 2), _NONE)
            rows = torch.where(inside, _sum((rows, _shift(rows, 1), twice)) + emitted, _NONE)
        alpha[:, t] = rows
    last = torch.tensor(times, dtype=torch.int64).to(device)
    final = alpha.gather(1, (last - 1).clamp(min=0)[:, None, None].expand(batch, 1, width))[:, 0]
    whole = final.gather(1, (2 * ends)[:, None])[:, 0]
    without = final.gather(1, (2 * ends - 1).clamp(min=0)[:, None])[:, 0]
    loss = -_sum((whole, torch.where(ends > 0, without, _NONE)))
    loss = torch.where(last == 0, torch.where(ends == 0, 0.0, float("inf")), loss)
    return loss, alpha


def _ctc_loss_backward(
    grad: Any, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any,
    neg_log_likelihood: Any, log_alpha: Any, blank: int, zero_infinity: bool = False,
) -> Any:  # fmt: skip
    counts.CALLS["_ctc_loss_backward"] += 1
    steps, batch, classes = log_probs.shape
    device = log_probs.device
    times, lengths = _lengths(input_lengths), _lengths(target_lengths)
    spread = _targets(targets, lengths, blank, device)
    width = spread.shape[1]
    ends = torch.tensor(lengths, dtype=torch.int64).to(device)[:, None]
    last = torch.tensor(times, dtype=torch.int64).to(device)[:, None]
    place = torch.arange(width, device=device)
    final = (place == 2 * ends) | (place == 2 * ends - 1)
    # A path skips from a place to two after it where the later place may be skipped to.
    skip = torch.roll(_may_skip(spread), -2, 1)
    skip[:, -2:] = False
    result = torch.zeros_like(log_probs)
    rows = torch.full((batch, width), _NONE, dtype=log_probs.dtype, device=device)
    for t in reversed(range(steps)):
        emitted = log_probs[t].gather(1, spread)
        twice = torch.where(skip, _shift(rows, -2), _NONE)
        following = _sum((rows, _shift(rows, -1), twice)) + emitted
        rows = torch.where(last - 1 == t, torch.where(final, emitted, _NONE), following)
        rows = torch.where(place <= 2 * ends, rows, _NONE)
        shares = (log_alpha[:, t] + rows - emitted + neg_log_likelihood[:, None]).exp()
        shares = torch.where(rows == _NONE, 0.0, shares)
        class_shares = torch.zeros((batch, classes), dtype=log_probs.dtype, device=device)
        class_shares.scatter_add_(1, spread, shares)
        step = (log_probs[t].exp() - class_shares) * grad[:, None]
        result[t] = torch.where(last > t, step, 0.0)
    if zero_infinity:
        result = torch.where(neg_log_likelihood[None, :, None] == float("inf"), 0.0, result)
    return result


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "_ctc_loss": _ctc_loss,
    "_ctc_loss.Tensor": _ctc_loss,
    "_ctc_loss_backward": _ctc_loss_backward,
    "_ctc_loss_backward.Tensor": _ctc_loss_backward,
}
