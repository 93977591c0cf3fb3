"""Random numbers with the sequences of PyTorch's CUDA generator."""

import math
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.checks.messages import broadcast_shapes, title
from tessera_torch.own import random_kernels
from tessera_torch.own.launching import launch
from tessera_torch.targets import resize

_BLOCK: Final = 256
_UNROLL: Final = 4
_WIDE_SPAN: Final = 2**28  # from here on CUDA draws 64 bits, so that a remainder is almost fair


def _generator(device: Any, generator: Any) -> Any:
    if generator is not None and generator.device.type != "cuda":
        raise RuntimeError(
            f"Expected a 'cuda' device type for generator but found '{generator.device.type}'"
        )
    return generator or torch.cuda.default_generators[device.index]


def _reserve(count: int, device: Any, generator: Any, per_call: int) -> tuple[Any, ...]:
    """Return the threads of CUDA's grid and the generator's state; advance the generator."""
    properties = torch.cuda.get_device_properties(device)
    resident = properties.max_threads_per_multi_processor // _BLOCK
    grid = min(-(-count // _BLOCK), properties.multi_processor_count * resident)
    threads = _BLOCK * grid
    advance = ((count - 1) // (threads * per_call) + 1) * _UNROLL
    return threads, *reserve(device, generator, advance)


def reserve(device: Any, generator: Any, advance: int) -> tuple[Any, Any, int, bool]:
    """Return the generator's state, and advance its offset by a multiple of 4.

    The state is the seed, the offset, and 0 and False; while a graph is captured it is tensors on
    the device that have both at a replay, the offset inside the graph, and True.
    """
    own = _generator(device, generator)
    if torch.cuda.is_current_stream_capturing():
        seed, offset, inside = own.philox_state(advance)
        return seed, offset, int(inside), True
    seed, offset = own.initial_seed(), own.get_offset()
    own.set_offset(offset + advance)
    return _signed(seed), offset, 0, False


def reserve_on_device(device: Any, advance: int) -> tuple[Any, Any]:
    """Return the default generator's seed and offset in tensors, and advance it."""
    seed, offset, inside, is_captured = reserve(device, None, advance)
    if is_captured:
        return seed.reshape(()).clone(), offset.reshape(()) + inside
    return tuple(
        torch.full((), number, dtype=torch.int64, device=device) for number in (seed, offset)
    )


def draw_of_state(shape: Any, seed: Any, offset: Any) -> Any:
    """Return floats in (0, 1] for a state in tensors: those of equal states are equal.

    Each element is the first number of its own thread, so it takes 4 of the offset.
    """
    out = torch.empty(shape, dtype=torch.float32, device=seed.device)
    if count := out.numel():
        grid = (-(-count // _BLOCK),)
        kernel = random_kernels.draw_single
        launch(
            kernel, grid, out.device,
            out, count, count, seed, offset, 0, True, False, False, _BLOCK,
        )  # fmt: skip
    return out


def _signed(seed: int) -> int:
    return seed - 2**64 if seed >= 2**63 else seed


def _draw(count: int, dtype: Any, device: Any, generator: Any, normal: bool) -> Any:
    """Return a vector of uniform numbers in (0, 1], or of normal ones."""
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    out = torch.empty(count, dtype=wide, device=device)
    _draw_into(out, generator, normal, False)
    return out


def _draw_into(out: Any, generator: Any, normal: bool, reverse: bool) -> None:
    """Fill a contiguous tensor of floats or doubles; ``reverse`` makes 0 of 1."""
    count, device = out.numel(), out.device
    double = out.dtype == torch.float64
    kernel = random_kernels.draw_double if double else random_kernels.draw_single
    if count:
        state = _reserve(count, device, generator, 2 if double else 4)
        grid = (-(-count // _BLOCK),)
        launch(kernel, grid, device, out, count, *state, normal, reverse, _BLOCK)


def _is_filled_directly(out: Any) -> bool:
    return out.dtype in (torch.float32, torch.float64) and bool(out.is_contiguous())


def draw_like(tensor: Any, generator: Any, normal: bool = False) -> Any:
    """Return uniform numbers in (0, 1], or normal ones, in a tensor's shape."""
    flat = _draw(tensor.numel(), tensor.dtype, tensor.device, generator, normal)
    return flat.view(tensor.shape)


def _uniform(self: Any, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Any:
    counts.CALLS["uniform_"] += 1
    if low > high:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}"
        )
    if self.is_complex():
        _uniform(torch.view_as_real(self), low, high, generator=generator)
        return self
    if (low, high) == (0.0, 1.0) and _is_filled_directly(self):
        _draw_into(self, generator, False, True)
        return self
    # CUDA draws from (0, 1] and reverses the bounds: 1 becomes the lower one.
    value = draw_like(self, generator)
    # Bounds are rounded to the type, too.
    low, high = torch.tensor([low, high], dtype=self.dtype, device="cpu").tolist()
    if (low, high) != (0.0, 1.0):
        value = value * (high - low) + low
    value = value.to(self.dtype)
    return self.copy_(torch.where(value == high, low, value))


def _normal(self: Any, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Any:
    counts.CALLS["normal_"] += 1
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    if self.is_complex():
        _normal(torch.view_as_real(self), mean, std / math.sqrt(2), generator=generator)
        return self
    if (mean, std) == (0.0, 1.0) and _is_filled_directly(self):
        _draw_into(self, generator, True, False)
        return self
    value = draw_like(self, generator, normal=True)
    if (mean, std) != (0.0, 1.0):
        value = value * std + mean
    return self.copy_(value)


def _check_continuous(title: str, self: Any) -> None:
    if not self.is_floating_point():
        raise RuntimeError(
            f"{title} distribution is a continuous probability distribution. dtype must be a"
            f" floating point but you specified {self.dtype}"
        )


def _exponential(self: Any, lambd: float = 1.0, *, generator: Any = None) -> Any:
    counts.CALLS["exponential_"] += 1
    _check_continuous("Exponential", self)
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    value = draw_like(self, generator)
    half = torch.finfo(value.dtype).eps / 2
    log = torch.where(value >= 1 - half, -half, value.log())
    return self.copy_(log * (-1.0 / lambd))


def _cauchy(self: Any, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Any:
    counts.CALLS["cauchy_"] += 1
    _check_continuous("Cauchy", self)
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    return self.copy_(median + sigma * torch.tan(math.pi * (draw_like(self, generator) - 0.5)))


def _log_normal(self: Any, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Any:
    counts.CALLS["log_normal_"] += 1
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    return self.copy_((draw_like(self, generator, normal=True) * std + mean).exp())


def _geometric(self: Any, p: float, *, generator: Any = None) -> Any:
    counts.CALLS["geometric_"] += 1
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    value = _draw(self.numel(), torch.float32, self.device, generator, False).view(self.shape)
    return self.copy_((value.log() / math.log1p(-p)).ceil())


def _bernoulli_number(self: Any, p: float = 0.5, *, generator: Any = None) -> Any:
    counts.CALLS["bernoulli_"] += 1
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    dtype = self.dtype if self.is_floating_point() else torch.float32
    flat = _draw(self.numel(), dtype, self.device, generator, False)
    return self.copy_(flat.view(self.shape) <= p if p else torch.zeros_like(self))


def _bernoulli_tensor(self: Any, p: Any, *, generator: Any = None) -> Any:
    counts.CALLS["bernoulli_"] += 1
    flat = _draw(self.numel(), torch.float32, self.device, generator, False)
    return self.copy_(flat.view(self.shape) <= p.to(self.device).to(torch.float32))


def _bernoulli(self: Any, *, generator: Any = None) -> Any:
    return _bernoulli_tensor(torch.empty_like(self), self, generator=generator)


def _bernoulli_out(self: Any, *, generator: Any = None, out: Any) -> Any:
    return _bernoulli_tensor(out.resize_(self.shape), self, generator=generator)


def _bits(count: int, device: Any, generator: Any, wide: bool) -> Any:
    out = torch.empty(count, dtype=torch.int64, device=device)
    if count:
        state = _reserve(count, device, generator, 2 if wide else 4)
        grid = (-(-count // _BLOCK),)
        launch(random_kernels.draw_bits, grid, device, out, count, *state, wide, _BLOCK)
    return out


def _random_from(self: Any, low: int, high: int | None, *, generator: Any = None) -> Any:
    counts.CALLS["random_"] += 1
    if high is None:
        high = _largest(self.dtype) + 1
    if low >= high:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    for name, bound in (("from", low), ("to - 1", high - 1)):
        _check_integer(name, bound, self.dtype)
    return _draw_integers(self, low, high - low, high - low >= _WIDE_SPAN, generator)


def _check_integer(name: str, value: int, dtype: Any) -> None:
    """Raise RuntimeError if a type of integers lacks a bound."""
    if dtype.is_floating_point:
        return
    minimum = 0 if dtype == torch.bool else torch.iinfo(dtype).min
    if not minimum <= value <= _largest(dtype):
        type_ = "unsigned char" if dtype == torch.uint8 else str(dtype).removeprefix("torch.")
        raise RuntimeError(f"{name} is out of bounds for {type_}")


def _draw_integers(self: Any, low: int, span: int, wide: bool, generator: Any) -> Any:
    bits = _bits(self.numel(), self.device, generator, wide)
    value = _remainder(bits, span) if wide else bits % span
    return self.copy_((value + low if low else value).view(self.shape))


def _remainder(bits: Any, span: int) -> Any:
    """Return the remainder of unsigned numbers of 64 bits, which tensors hold as signed ones."""
    if span == 2**64:
        return bits
    if span >= 2**63:  # the quotient is 0 or 1; an unsigned order is the signed one of x - 2**63
        minimum = -(2**63)
        return torch.where((bits ^ minimum) < span - 2**63, bits, bits - _signed(span))
    half = ((bits >> 1) & (2**63 - 1)) % span  # twice this may need 64 bits
    complement = span - half
    even = torch.where(half >= complement, half - complement, half + half) + (bits & 1)
    return torch.where(even == span, 0, even)


def _random_to(self: Any, to: int, *, generator: Any = None) -> Any:
    return _random_from(self, 0, to, generator=generator)


def _random(self: Any, *, generator: Any = None) -> Any:
    counts.CALLS["random_"] += 1
    wide = self.dtype in (torch.int64, torch.float64)
    return _draw_integers(self, 0, _largest(self.dtype) + 1, wide, generator)


def _largest(dtype: Any) -> int:
    if dtype.is_floating_point:
        digits: int = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24}.get(dtype, 53)
        return 1 << digits
    return 1 if dtype == torch.bool else int(torch.iinfo(dtype).max)


def _randperm_out(n: int, *, generator: Any = None, out: Any) -> Any:
    counts.CALLS["randperm"] += 1
    largest = _largest(out.dtype)
    if out.is_floating_point() and n > largest + 1:
        raise RuntimeError(f"n cannot be greater than {largest + 1} for {title(out.dtype)} type.")
    if not out.is_floating_point() and n > largest:
        name = f"{out.dtype}_t".removeprefix("torch.")
        raise RuntimeError(f"value cannot be converted to type {name} without overflow")
    out.resize_(n)
    if not n:
        return out
    keys = _bits(n, out.device, generator, True)
    return out.copy_(torch.argsort(keys))


def _check_probabilities(probabilities: Any) -> None:
    """Raise RuntimeError for wrong ones; a graph that is captured cannot read them."""
    if not probabilities.numel() or torch.cuda.is_current_stream_capturing():
        return
    if not bool(((probabilities >= 0) & probabilities.isfinite()).all()):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if not bool((probabilities.sum(-1) > 0).all()):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


def _multinomial(
    self: Any, num_samples: int, replacement: bool = False, *, generator: Any = None
) -> Any:
    counts.CALLS["multinomial"] += 1
    if not 1 <= self.dim() <= 2:
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not self.is_floating_point():
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {title(self.dtype)}"
        )
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    _check_probabilities(self)
    if not replacement or num_samples == 1:
        if num_samples > self.shape[-1]:
            raise RuntimeError(
                "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
            )
        wait = _exponential(torch.empty_like(self), generator=generator)
        first = self / wait
        if num_samples == 1:
            return first.argmax(-1, keepdim=True)
        return first.topk(num_samples, -1)[1]
    total = self.cumsum(-1)
    shape = (*self.shape[:-1], num_samples)
    points = torch.empty(shape, dtype=self.dtype, device=self.device)
    _uniform(points, generator=generator)
    samples = torch.searchsorted(total, points * total[..., -1:], right=True)
    return samples.clamp_(max=self.shape[-1] - 1)


def _multinomial_out(
    self: Any, num_samples: int, replacement: bool = False, *, generator: Any = None, out: Any
) -> Any:
    samples = _multinomial(self, num_samples, replacement, generator=generator)
    return out.resize_(samples.shape).copy_(samples)


def _native_dropout(self: Any, p: float, train: bool | None) -> tuple[Any, Any]:
    counts.CALLS["native_dropout"] += 1
    if train is False or not self.numel():
        return self.clone(), torch.ones_like(self, dtype=torch.bool)
    if p == 1:
        return torch.zeros_like(self), torch.zeros_like(self, dtype=torch.bool)
    count = self.numel()
    width = 4 if count % 4 == 0 else 2 if count % 2 == 0 else 1
    state = _reserve(count, self.device, None, 4)
    drawn = torch.empty(count, dtype=torch.float32, device=self.device)
    grid = (-(-count // _BLOCK),)
    launch(random_kernels.draw_dropout, grid, self.device, drawn, count, *state, width, _BLOCK)
    mask = (drawn < 1 - p).view(self.shape)
    return self * mask * (1 / (1 - p)), mask


def _native_dropout_backward(gradient: Any, mask: Any, scale: float) -> Any:
    counts.CALLS["native_dropout_backward"] += 1
    return gradient * mask * scale


def _check_deviations(std: Any) -> None:
    """Raise RuntimeError if a deviation is negative; a graph that is captured cannot read it."""
    if not isinstance(std, torch.Tensor):
        if std < 0:
            raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    elif std.is_complex():
        raise RuntimeError("normal expects standard deviation to be non-complex")
    elif not (std.is_cuda and torch.cuda.is_current_stream_capturing()) and bool((std < 0).any()):
        raise RuntimeError("normal expects all elements of std >= 0.0")


def _normal_of(mean: Any, std: Any = 1.0, *, generator: Any = None) -> Any:
    """Draw with a mean and a deviation for each element."""
    shape = broadcast_shapes(getattr(mean, "shape", ()), getattr(std, "shape", ()))
    like = mean if isinstance(mean, torch.Tensor) else std
    _check_deviations(std)
    drawn = torch.empty(shape, dtype=like.dtype, device=like.device)
    return _normal(drawn, generator=generator) * std + mean


def _normal_of_out(mean: Any, std: Any = 1.0, *, generator: Any = None, out: Any) -> Any:
    if isinstance(mean, torch.Tensor) and isinstance(std, torch.Tensor):
        resize(out, broadcast_shapes(mean.shape, std.shape))
    _check_deviations(std)
    return _normal(out, generator=generator).mul_(std).add_(mean)


KERNELS: Final = {
    "normal.Tensor_Tensor": _normal_of,
    "normal.Tensor_float": _normal_of,
    "normal.float_Tensor": _normal_of,
    "normal.Tensor_Tensor_out": _normal_of_out,
    "normal.Tensor_float_out": _normal_of_out,
    "normal.float_Tensor_out": _normal_of_out,
    "uniform_": _uniform,
    "normal_": _normal,
    "exponential_": _exponential,
    "cauchy_": _cauchy,
    "log_normal_": _log_normal,
    "geometric_": _geometric,
    "bernoulli_.float": _bernoulli_number,
    "bernoulli_.Tensor": _bernoulli_tensor,
    "bernoulli": _bernoulli,
    "bernoulli.out": _bernoulli_out,
    "random_": _random,
    "random_.to": _random_to,
    "random_.from": _random_from,
    "randperm.generator_out": _randperm_out,
    "multinomial": _multinomial,
    "multinomial.out": _multinomial_out,
    "native_dropout": _native_dropout,
    "native_dropout_backward": _native_dropout_backward,
}
