"""Operators on lists of tensors, and fused optimizers: no number is rounded, and quotients are exact."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.torch.rules.dtypes import FLOATS, HALVES, Array, cast, opmath
from benchmarks.torch.rules.elementwise import Functor, binary
from benchmarks.torch.rules.families.arithmetic import power
from benchmarks.torch.rules.row import Case, Expected, Operand, Row
from benchmarks.torch.rules.sources import cuda

_COUNT = 41
_STEP = 3  # of an optimizer
_RATE, _DECAY, _EPS = 0.0123, 0.1, 1e-8
_FIRST, _SECOND = 0.9, 0.999
_MOMENTUM, _DAMPENING = 0.9, 0.3
_SCALE = 1024.0 * 3
_SINGLE = (*HALVES, "float32")
State = tuple[Array, ...]


def _parts(dtype: str, count: int) -> list[Array]:
    """Return tensors of a parameter, its gradient, and states, of which the last is positive."""
    places = np.arange(_COUNT)
    values = [(((places * (7 + 2 * i)) % 23) - 11) / 7.3 for i in range(count)]
    return [cast(np.abs(part) if i > 2 else part, dtype) for i, part in enumerate(values)]


def _wide(values: Array) -> Array:
    return values.astype("float64")


def _gradient(parts: Sequence[Array], inner: str, has_scale: bool, maximize: bool) -> State:
    """Return the gradient that is stored, and the one to descend."""
    stored = cast(_wide(parts[1]) / _SCALE, inner) if has_scale else parts[1]
    return stored, -stored if maximize else stored


def _adam(decoupled: bool, amsgrad: bool) -> Callable[..., list[State]]:
    def compute(parts: Sequence[Array], inner: str, has_scale: bool) -> list[State]:
        parameter, _, average, square, *largest = parts
        stored, gradient = _gradient(parts, inner, has_scale, maximize=amsgrad)
        if decoupled:
            parameter = cast(_wide(parameter) - _RATE * _DECAY * _wide(parameter), inner)
        else:
            gradient = cast(_wide(gradient) + _wide(parameter) * _DECAY, inner)
        average = cast(_FIRST * _wide(average) + (1 - _FIRST) * _wide(gradient), inner)
        part = (1 - _SECOND) * _wide(gradient) * _wide(gradient)
        square = cast(_SECOND * _wide(square) + part, inner)
        largest = [np.maximum(largest[0], square)] if amsgrad else []
        root = cast(np.asarray((1 - _SECOND**_STEP) ** 0.5), inner)
        divisor = cast(_wide(np.sqrt([*largest, square][0]) / root) + _EPS, inner)
        correction = cast(np.asarray(1 - _FIRST**_STEP), inner)
        size = cast(np.asarray(_RATE / _wide(correction)), inner)
        return [(parameter - size * average / divisor, stored, average, square, *largest)]

    return compute


def _sgd(parts: Sequence[Array], inner: str, has_scale: bool) -> list[State]:
    parameter, _, buffer = parts
    stored, gradient = _gradient(parts, inner, has_scale, maximize=False)
    gradient = cast(_wide(gradient) + _DECAY * _wide(parameter), inner)
    wide = _MOMENTUM * _wide(buffer) + (1 - _DAMPENING) * _wide(gradient)
    step = cast(_wide(gradient) + _MOMENTUM * wide, inner)
    return [(cast(_wide(parameter) - _RATE * _wide(step), inner), stored, cast(wide, inner))]


def _adagrad(parts: Sequence[Array], inner: str, has_scale: bool) -> list[State]:
    """Compute both states: the square and the sum may be one fused operation."""
    parameter, _, _, total = parts
    stored, gradient = _gradient(parts, inner, has_scale, maximize=False)
    gradient = cast(_wide(gradient) + _wide(parameter) * _DECAY, inner)
    fused = cast(_wide(total) + _wide(gradient) * _wide(gradient), inner)
    rate = _RATE / (1 + (_STEP - 1) * _DECAY)
    choices: list[State] = []
    for added in (total + gradient * gradient, fused):
        step = rate * _wide(gradient) / (_wide(np.sqrt(added)) + _EPS)
        choices.append((cast(_wide(parameter) - step, inner), stored, added))
    return choices


def _optimizer(
    call: str, letters: str, compute: Callable[..., list[State]], skipped: int | None = None
) -> Callable[[Row, str], Iterator[Case]]:
    """Make a step with and without a gradient's scale; one of the parts may be no operand."""

    def make(row: Row, dtype: str) -> Iterator[Case]:
        parts = _parts(dtype, len(letters) + (skipped is not None))
        inner = opmath(dtype)
        operands = [Operand(part, dtype) for i, part in enumerate(parts) if i != skipped]
        for has_scale in (False, True):
            states = compute([cast(part, inner) for part in parts], inner, has_scale)
            results = tuple(
                Expected(dtype, tuple(cast(values, dtype) for values in choices))
                for choices in zip(*states, strict=True)
            )
            scale = f"torch.tensor({_SCALE}, device=DEVICE)" if has_scale else "None"
            text = f"({call.format(scale)}, {', '.join(letters)})[1:]"
            yield Case(text, tuple(operands), results, label=f"{dtype} scale {has_scale}")

    return make


def _row(
    name: str,
    make: Callable[[Row, str], Iterator[Case]],
    rule: str,
    source: str,
    accepts: tuple[str, ...] = FLOATS,
) -> Row:
    return Row(name, "lists", rule, source, accepts, make)


def _quotient(first: Array, second: Array) -> Array:
    return np.asarray(first / second)


_TIME = f"[torch.tensor({float(_STEP)}, device=DEVICE)]"
_RATES = f"lr={_RATE}, weight_decay={_DECAY}, eps={_EPS}, grad_scale={{0}}"
_BETAS = f"{_RATES}, beta1={_FIRST}, beta2={_SECOND}"
_STEP_OF_SGD = (
    f"torch._fused_sgd_([a], [b], [c], lr={_RATE}, weight_decay={_DECAY}, momentum={_MOMENTUM},"
    f" dampening={_DAMPENING}, nesterov=True, maximize=False, is_first_step=False, grad_scale={{0}})"
)
_DIVIDES = "a number in opmath is a divisor: one division, rounded once"
_POWER = "the number in opmath, no special case of an exponent; rounded once"
_DOUBLES = "terms with a number in double, others in opmath; tensors are rounded once"
_SCALAR = cuda("ForeachBinaryOpScalar.cu", "FOREACH_BINARY_OP_SCALAR(div, std::divides)")
_ADAM = cuda("fused_adam_utils.cuh", "adam_math")
_POWERS = (2, 3, 0.5, -0.5, 0.1, 1.7, -2)

ROWS = (
    _row("_foreach_div", binary(Functor(_quotient, narrow=False), "torch._foreach_div([a], b)[0]",
         tensors=False), _DIVIDES, _SCALAR),
    _row("_foreach_div_", binary(Functor(_quotient, narrow=False),
         "(torch._foreach_div_([a], b), a)[1]", tensors=False), _DIVIDES, _SCALAR),
    _row("_foreach_div.list", binary(Functor(_quotient, narrow=False),
         "torch._foreach_div([a, a[:3]], [b, b])[0]", tensors=False, zero_dim=False), _DIVIDES,
         cuda("ForeachBinaryOpScalarList.cu", "FOREACH_BINARY_OP_SCALARLIST(div, std::divides)")),
    _row("_foreach_pow", binary(Functor(power, narrow=False, ulps=4), "torch._foreach_pow([a], b)[0]",
         reverse="torch._foreach_pow(a, [b])[0]", tensors=False, zero_dim=False, chosen=_POWERS),
         _POWER, cuda("ForeachFunctors.cuh", "power_functor, reverse_power_functor")),
    _row("_fused_adam_", _optimizer(f"torch._fused_adam_([a], [b], [c], [d], [], {_TIME}, {_BETAS},"
         " amsgrad=False, maximize=False)", "abcd", _adam(False, False)), _DOUBLES, _ADAM, _SINGLE),
    _row("_fused_adamw_", _optimizer(f"torch._fused_adamw_([a], [b], [c], [d], [e], {_TIME}, {_BETAS},"
         " amsgrad=True, maximize=True)", "abcde", _adam(True, True)), _DOUBLES, _ADAM, _SINGLE),
    _row("_fused_sgd_", _optimizer(_STEP_OF_SGD, "abc", _sgd), _DOUBLES,
         cuda("FusedSgdKernel.cu", "sgd_math"), _SINGLE),
    _row("_fused_adagrad_", _optimizer(f"torch._fused_adagrad_([a], [b], [c], {_TIME}, {_RATES},"
         f" lr_decay={_DECAY}, maximize=False)", "abc", _adagrad, skipped=2), _DOUBLES,
         cuda("fused_adagrad_utils.cuh", "adagrad_math"), _SINGLE),
    _row("_amp_foreach_non_finite_check_and_unscale_", _optimizer("torch._amp_foreach_non_finite_check"
         "_and_unscale_([a], torch.zeros((), device=DEVICE), torch.tensor(2.0**-25, device=DEVICE))",
         "a", lambda parts, inner, has_scale: [(parts[0] * np.float32(2.0**-25),)]),
         "the product with the scale in opmath, rounded once",
         cuda("AmpKernels.cu", "_amp_foreach_non_finite_check_and_unscale_cuda_"), _SINGLE),
)  # fmt: skip
