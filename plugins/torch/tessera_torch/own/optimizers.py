"""Fused optimizers and gradient scaling, as sequences of element-wise operators.

Steps, rates and whether a gradient is infinite are read on the host: numbers are faster than
tensors. While a CUDA graph is captured they stay tensors, with other numbers at each replay.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch

from tessera_torch import counts


def _with_skips(compute: Callable[..., None]) -> Callable[..., None]:
    """Return an optimizer that changes nothing if a gradient is infinite."""

    def compute_unless_infinite(
        *lists: Sequence[Any], found_inf: Any = None, **keywords: Any
    ) -> None:
        if found_inf is None:
            compute(*lists, **keywords)
        elif not _captures():
            if not found_inf.item():
                compute(*lists, **keywords)
        else:
            copies = [[tensor.clone() for tensor in tensors] for tensors in lists]
            compute(*copies, **keywords)
            for tensors, changed in zip(lists, copies, strict=True):
                for tensor, updated_tensor in zip(tensors, changed, strict=True):
                    tensor.copy_(
                        torch.where(found_inf.to(tensor.device) != 0, tensor, updated_tensor)
                    )

    return compute_unless_infinite


def _captures() -> bool:
    return bool(torch.cuda.is_current_stream_capturing())


def _number(number: Any) -> Any:
    """Return a number, or a tensor of it while a graph is captured."""
    if isinstance(number, torch.Tensor) and number.is_cuda and _captures():
        return number.to(torch.float64)
    return float(number)


def _add(target: Any, part: Any, factor: Any) -> None:
    if isinstance(factor, torch.Tensor):
        target.add_(part * factor)
    else:
        target.add_(part, alpha=factor)


def _scale_gradient(gradient: Any, maximize: bool, grad_scale: Any) -> Any:
    if grad_scale is not None:
        gradient.div_(grad_scale)
    return -gradient if maximize else gradient


def _prepare_gradients(
    parameters: Sequence[Any], gradients: Sequence[Any], weight_decay: float, maximize: bool,
    grad_scale: Any,
) -> Iterator[tuple[int, Any, Any]]:  # fmt: skip
    """Yield each parameter with its number and the gradient to descend, with the decay's part."""
    for i, parameter in enumerate(parameters):
        gradient = _scale_gradient(gradients[i], maximize, grad_scale)
        if weight_decay:
            gradient = gradient.add(parameter, alpha=weight_decay)
        yield i, parameter, gradient


def _adam(decoupled: bool) -> Any:
    def compute(
        parameters: Sequence[Any], gradients: Sequence[Any], averages: Sequence[Any],
        squares: Sequence[Any], largest: Sequence[Any], steps: Sequence[Any], *,
        lr: Any, beta1: float, beta2: float, weight_decay: float, eps: float,
        amsgrad: bool, maximize: bool, grad_scale: Any = None,
    ) -> None:  # fmt: skip
        counts.CALLS["_fused_adamw_" if decoupled else "_fused_adam_"] += 1
        rate = _number(lr)
        decay = 0 if decoupled else weight_decay
        for i, parameter, gradient in _prepare_gradients(
            parameters, gradients, decay, maximize, grad_scale
        ):
            if weight_decay and decoupled:
                parameter.mul_(1 - rate * weight_decay)
            step = _number(steps[i])
            averages[i].lerp_(gradient, 1 - beta1)
            squares[i].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
            second = squares[i]
            if amsgrad:
                second = torch.maximum(largest[i], squares[i], out=largest[i])
            divisor = second.sqrt() / (1 - beta2**step) ** 0.5 + eps
            _add(parameter, averages[i] / divisor, -rate / (1 - beta1**step))

    return _with_skips(compute)


def _sgd(
    parameters: Sequence[Any], gradients: Sequence[Any], momenta: Sequence[Any], *,
    weight_decay: float, momentum: float, lr: Any, dampening: float, nesterov: bool,
    maximize: bool, is_first_step: bool, grad_scale: Any = None,
) -> None:  # fmt: skip
    counts.CALLS["_fused_sgd_"] += 1
    prepared_gradients = _prepare_gradients(
        parameters, gradients, weight_decay, maximize, grad_scale
    )
    for i, parameter, gradient in prepared_gradients:
        if momentum:
            if is_first_step:
                momenta[i].copy_(gradient)
            else:
                momenta[i].mul_(momentum).add_(gradient, alpha=1 - dampening)
            gradient = gradient.add(momenta[i], alpha=momentum) if nesterov else momenta[i]
        _add(parameter, gradient, -_number(lr))


def _adagrad(
    parameters: Sequence[Any], gradients: Sequence[Any], sums: Sequence[Any],
    steps: Sequence[Any], *, lr: Any, lr_decay: float, weight_decay: float, eps: float,
    maximize: bool, grad_scale: Any = None,
) -> None:  # fmt: skip
    counts.CALLS["_fused_adagrad_"] += 1
    prepared_gradients = _prepare_gradients(
        parameters, gradients, weight_decay, maximize, grad_scale
    )
    for i, parameter, gradient in prepared_gradients:
        rate = _number(lr) / (1 + (_number(steps[i]) - 1) * lr_decay)
        sums[i].addcmul_(gradient, gradient)
        _add(parameter, gradient / (sums[i].sqrt() + eps), -rate)


def _unscale(gradients: Sequence[Any], found_inf: Any, inv_scale: Any) -> None:
    counts.CALLS["_amp_foreach_non_finite_check_and_unscale_"] += 1
    for gradient in gradients:
        bad = (~gradient.isfinite()).any()
        found_inf.copy_(torch.maximum(found_inf, bad.to(found_inf.dtype)))
        gradient.mul_(inv_scale)


def _update_scale(
    scale: Any, tracker: Any, found_inf: Any, growth: float, backoff: float, interval: int
) -> Any:
    counts.CALLS["_amp_update_scale_"] += 1
    bad = found_inf > 0
    successes = tracker + 1
    grows = (successes >= interval) & ~bad
    grown = scale * growth
    grown = torch.where(grown.isfinite(), grown, scale)
    scale.copy_(torch.where(bad, scale * backoff, torch.where(grows, grown, scale)))
    tracker.copy_(torch.where(bad | grows, 0, successes))
    return scale


KERNELS: Final = {
    "_fused_adam_": _adam(False),
    "_fused_adam_.tensor_lr": _adam(False),
    "_fused_adamw_": _adam(True),
    "_fused_adamw_.tensor_lr": _adam(True),
    "_fused_adagrad_": _with_skips(_adagrad),
    "_fused_adagrad_.tensor_lr": _with_skips(_adagrad),
    "_fused_sgd_": _with_skips(_sgd),
    "_fused_sgd_.tensor_lr": _with_skips(_sgd),
    "_amp_foreach_non_finite_check_and_unscale_": _unscale,
    "_amp_update_scale_": _update_scale,
}
