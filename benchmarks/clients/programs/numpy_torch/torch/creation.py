"""Functions that make tensors; the random ones use one generator, which ``manual_seed`` resets."""

import numpy as np

from torch.tensor import Tensor, allocate, as_type, host_of, make
from torch.types import TYPES, device as Device

_random = np.random.default_rng(0)


def manual_seed(seed):
    """Reset the generator of random numbers."""
    global _random
    _random = np.random.default_rng(seed)


def _place(device):
    return Device("cpu") if device is None else Device(str(device))


def _shape(shape):
    if len(shape) == 1 and not isinstance(shape[0], int):
        return tuple(shape[0])
    return tuple(int(extent) for extent in shape)


def empty(*shape, size=None, dtype=None, device=None, pin_memory=False, **_):
    """Make a tensor whose elements are not initialized."""
    kind = as_type(dtype or TYPES["float32"])
    extents = _shape(shape if size is None else (size,))
    return allocate(extents, kind, _place(device), pin_memory)


def _filled(value):
    def apply(*shape, dtype=None, device=None, **_):
        kind = as_type(dtype or TYPES["float32"])
        return make(np.full(_shape(shape), value, kind.numpy), kind, _place(device))

    return apply


zeros, ones = _filled(0), _filled(1)


def full(size, fill_value, dtype=None, device=None, **_):
    """Make a tensor with one value everywhere."""
    default = {bool: "bool", int: "int64"}.get(type(fill_value), "float32")
    kind = as_type(dtype or default)
    shape = (size,) if isinstance(size, int) else tuple(size)
    return make(np.full(shape, fill_value).astype(kind.numpy), kind, _place(device))


def tensor(values, dtype=None, device=None, **_):
    """Make a tensor with these values."""
    array = np.asarray(host_of(values))
    if dtype is None and not isinstance(values, (np.ndarray, np.generic, Tensor)):
        dtype = "float32" if array.dtype == np.float64 else None
    return make(array, None if dtype is None else as_type(dtype), _place(device))


def from_numpy(array):
    """Make a tensor with an array's values."""
    return make(array)


def arange(*bounds, dtype=None, device=None, **_):
    """Make a tensor of equally spaced values."""
    return tensor(np.arange(*bounds), dtype, device)


def linspace(start, end, steps, dtype=None, device=None, **_):
    """Make a tensor of ``steps`` equally spaced values, of which ``end`` is the last."""
    return tensor(np.linspace(start, end, steps, dtype=np.float32), dtype, device)


def _drawn(draw):
    def apply(*shape, dtype=None, device=None, **_):
        kind = as_type(dtype or TYPES["float32"])
        return make(draw(_shape(shape)), kind, _place(device))

    return apply


rand = _drawn(lambda shape: _random.random(shape, np.float32))
randn = _drawn(lambda shape: _random.standard_normal(shape, np.float32))


def randint(*bounds, size=None, dtype=None, device=None, low=None, high=None, **_):
    """Make a tensor of random integers below a bound."""
    *limits, extents = bounds if size is None else (*bounds, size)
    limits = limits or [bound for bound in (low, high) if bound is not None]
    kind = as_type(dtype or TYPES["int64"])
    first, last = limits if len(limits) == 2 else (0, limits[0])
    return make(_random.integers(first, last, tuple(extents)), kind, _place(device))


def randperm(count, device=None, **_):
    """Make a random permutation."""
    return make(_random.permutation(count), TYPES["int64"], _place(device))


def like(create):
    """Make a creation function that takes shape, type and device from a tensor."""

    def apply(tensor, *values, dtype=None, device=None, **_):
        place = device or tensor.device
        return create(tuple(tensor.shape), *values, dtype=dtype or tensor.dtype, device=place)

    return apply


empty_like, zeros_like, ones_like = like(empty), like(zeros), like(ones)
rand_like, randn_like, full_like = like(rand), like(randn), like(full)


def _normal(self, mean=0.0, std=1.0):
    return self.store(_random.standard_normal(self.shape, np.float32) * std + mean)


Tensor.normal_ = _normal
Tensor.zero_ = lambda self: self.store(0)
Tensor.fill_ = lambda self, value: self.store(value)
Tensor.copy_ = lambda self, other, *_: self.store(other.host())
Tensor.new_empty = lambda self, shape, dtype=None, device=None: empty(
    tuple(shape), dtype=dtype or self.dtype, device=device or self.device
)
