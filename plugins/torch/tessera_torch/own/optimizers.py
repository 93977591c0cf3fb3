"""Fused optimizers and gradient scaling: each step of a tensor is one kernel over its elements.

Kernels have the types of CUDA's (fused_adam_utils.cuh, FusedSgdKernel.cu, fused_adagrad_utils.cuh):
numbers are doubles, so that terms with one are computed in double, other terms in float32 for
16-bit tensors, and each tensor is rounded once. Steps, rates and whether a gradient is infinite are
read on the host. While a CUDA graph is captured they stay tensors, with other numbers at each
replay.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import torch

from tessera_torch import counts, pointwise
from tessera_torch.own.foreach import opmath


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


def _double(number: Any) -> Any:
    """Return a tensor of a number, which a kernel takes in double."""
    is_double = isinstance(number, torch.Tensor) and number.dtype == torch.float64
    return number if is_double else torch.tensor(float(number), dtype=torch.float64)


def _wide(value: Any) -> Any:
    return value.to(torch.float64)


def _change(
    name: str,
    flags: tuple[bool, ...],
    formula: Callable[..., Sequence[Any]],
    tensors: Sequence[Any],
    numbers: Sequence[Any],
    grad_scale: Any,
) -> None:
    """Change a parameter, its gradient and its state by one kernel.

    The formula takes the tensors and the type in which CUDA computes, the numbers in double, and
    the scale or None. It returns a value for each tensor; without a scale, the gradient stays.
    """
    has_scale, inner, count = grad_scale is not None, opmath(tensors[0].dtype), len(tensors)
    scales = [_number(grad_scale)] if has_scale else []

    def compute(*values: Any) -> Sequence[Any]:
        loaded = [value.to(inner) for value in values[:count]]
        gradient = loaded[1]
        if has_scale:
            gradient = (_wide(gradient) / values[-1]).to(inner)
        own = values[count : count + len(numbers)]
        results = formula(loaded[0], gradient, loaded[2:], own, inner)
        return (results[0], *([gradient] if has_scale else []), *results[1:])

    targets = [tensors[0], *(tensors[1:] if has_scale else tensors[2:])]
    inputs = [*tensors, *map(_double, [*numbers, *scales])]
    pointwise.compute_into(name, (*flags, has_scale, count, inner), compute, inputs, targets)
    torch.autograd.graph.increment_version(targets)


def _adam(decoupled: bool) -> Any:
    name = "_fused_adamw_" if decoupled else "_fused_adam_"

    def compute(
        parameters: Sequence[Any], gradients: Sequence[Any], averages: Sequence[Any],
        squares: Sequence[Any], largest: Sequence[Any], steps: Sequence[Any], *,
        lr: Any, beta1: float, beta2: float, weight_decay: float, eps: float,
        amsgrad: bool, maximize: bool, grad_scale: Any = None,
    ) -> None:  # fmt: skip
        counts.CALLS[name] += 1
        rate = _number(lr)
        flags = (amsgrad, maximize, bool(weight_decay))

        def formula(
            parameter: Any, gradient: Any, state: Sequence[Any], numbers: Sequence[Any], inner: Any
        ) -> Sequence[Any]:
            rate, beta1, beta2, decay, eps, correction1, correction2 = numbers
            average, square, *maximum = state
            if maximize:
                gradient = -gradient
            if weight_decay and decoupled:
                wide = _wide(parameter)
                parameter = (wide - rate * decay * wide).to(inner)
            elif weight_decay:
                gradient = (_wide(gradient) + _wide(parameter) * decay).to(inner)
            wide = _wide(gradient)
            average = (beta1 * _wide(average) + (1 - beta1) * wide).to(inner)
            square = (beta2 * _wide(square) + (1 - beta2) * wide * wide).to(inner)
            second = square
            if amsgrad:
                second = torch.where(maximum[0] < square, square, maximum[0])
                maximum = [second]
            divisor = second.sqrt() / correction2.to(inner)
            divisor = (_wide(divisor) + eps).to(inner)
            size = (rate / _wide(correction1.to(inner))).to(inner)
            return parameter - size * average / divisor, average, square, *maximum

        for i, parameter in enumerate(parameters):
            step = _number(steps[i])
            corrections = 1 - beta1**step, (1 - beta2**step) ** 0.5
            state = [averages[i], squares[i], *([largest[i]] if amsgrad else [])]
            numbers = (rate, beta1, beta2, weight_decay, eps, *corrections)
            tensors = (parameter, gradients[i], *state)
            _change(name, flags, formula, tensors, numbers, grad_scale)

    return _with_skips(compute)


def _sgd(
    parameters: Sequence[Any], gradients: Sequence[Any], momenta: Sequence[Any], *,
    weight_decay: float, momentum: float, lr: Any, dampening: float, nesterov: bool,
    maximize: bool, is_first_step: bool, grad_scale: Any = None,
) -> None:  # fmt: skip
    counts.CALLS["_fused_sgd_"] += 1
    flags = (bool(momentum), nesterov, maximize, is_first_step, bool(weight_decay))

    def formula(
        parameter: Any, gradient: Any, state: Sequence[Any], numbers: Sequence[Any], inner: Any
    ) -> Sequence[Any]:
        rate, decay, factor, share = numbers
        if maximize:
            gradient = -gradient
        if weight_decay:
            gradient = (_wide(gradient) + decay * _wide(parameter)).to(inner)
        step, buffers = _wide(gradient), []
        if momentum:
            buffer = step if is_first_step else factor * _wide(state[0]) + share * step
            buffers = [buffer.to(inner)]
            step = _wide((step + factor * buffer if nesterov else buffer).to(inner))
        return (_wide(parameter) - rate * step).to(inner), *buffers

    numbers = (_number(lr), weight_decay, momentum, 1 - dampening)
    for i, parameter in enumerate(parameters):
        tensors = (parameter, gradients[i], *([momenta[i]] if momentum else []))
        _change("_fused_sgd_", flags, formula, tensors, numbers, grad_scale)


def _adagrad(
    parameters: Sequence[Any], gradients: Sequence[Any], sums: Sequence[Any],
    steps: Sequence[Any], *, lr: Any, lr_decay: float, weight_decay: float, eps: float,
    maximize: bool, grad_scale: Any = None,
) -> None:  # fmt: skip
    counts.CALLS["_fused_adagrad_"] += 1
    flags = (maximize, bool(weight_decay))

    def formula(
        parameter: Any, gradient: Any, state: Sequence[Any], numbers: Sequence[Any], inner: Any
    ) -> Sequence[Any]:
        rate, decay, eps = numbers
        if maximize:
            gradient = -gradient
        if weight_decay:
            gradient = (_wide(gradient) + _wide(parameter) * decay).to(inner)
        total = state[0] + gradient * gradient
        step = rate * _wide(gradient) / (_wide(total.sqrt()) + eps)
        return (_wide(parameter) - step).to(inner), total

    for i, parameter in enumerate(parameters):
        rate = _number(lr) / (1 + (_number(steps[i]) - 1) * lr_decay)
        tensors = (parameter, gradients[i], sums[i])
        _change("_fused_adagrad_", flags, formula, tensors, (rate, weight_decay, eps), grad_scale)


def _unscaled(inner: Any, gradient: Any, factor: Any) -> Sequence[Any]:
    return (torch.where(factor == 1, gradient.to(inner), gradient.to(inner) * factor),)


def _unscale(gradients: Sequence[Any], found_inf: Any, inv_scale: Any) -> None:
    counts.CALLS["_amp_foreach_non_finite_check_and_unscale_"] += 1
    for gradient in gradients:
        bad = (~gradient.isfinite()).any()
        found_inf.copy_(torch.maximum(found_inf, bad.to(found_inf.dtype)))
        inner = opmath(gradient.dtype)
        inputs = (gradient, inv_scale.reshape(()).to(torch.float32))
        pointwise.compute_into("_unscale", inner, partial(_unscaled, inner), inputs, (gradient,))
    torch.autograd.graph.increment_version(gradients)


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
