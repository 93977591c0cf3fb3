"""New tensors with computed elements: sequences, identities and indices of triangles."""

import math
import struct
import warnings
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.complexes.parts import REAL_OF, join, split
from tessera_torch.own.creation_kernels import between, sequence
from tessera_torch.own.launching import launch
from tessera_torch.own.selection import positions

_BLOCK: Final = 256
_NARROW: Final = (torch.float16, torch.bfloat16)


def _bits(number: float) -> int:
    """Return the bits of a double: Triton passes Python's floats as float32."""
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def _fill(out: Any, count: int, first: float, step: float) -> Any:
    """Resize a tensor to a vector, and fill it with first + i * step."""
    if out.numel() != count:
        out.resize_(count)
    if not count:
        return out
    whole = isinstance(first, int) and isinstance(step, int)
    whole = whole and not out.is_floating_point()
    numbers = (first, step) if whole else (_bits(first), _bits(step))
    target = out if out.is_contiguous() else torch.empty_like(out).contiguous()
    single = out.dtype in (torch.float32, torch.float16, torch.bfloat16)
    grid = (-(-count // _BLOCK),)
    launch(sequence, grid, out.device, target, *numbers, count, whole, single, _BLOCK)
    return out if target is out else out.copy_(target)


def _arange(start: Any, end: Any, step: Any = 1, *, out: Any) -> Any:
    counts.CALLS["arange"] += 1
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if all(isinstance(number, int) for number in (start, end, step)):
        count = -((start - end) // step)
    else:
        size = (end - start) / step
        if not math.isfinite(size):
            raise RuntimeError(f"unsupported range: {start} -> {end}")
        count = math.ceil(size)
    if not out.is_floating_point():
        start, step = int(start), int(step)
    if out.numel() not in (0, count):
        warnings.warn(
            f"The number of elements in the out tensor of shape {list(out.shape)} is {out.numel()}"
            f" which does not match the computed number of elements {count}. Note that this may"
            " occur as a result of rounding error. The out tensor will be resized to a tensor of"
            f" shape ({count},).",
            stacklevel=2,
        )
    return _fill(out, count, start, step)


def _range(start: Any, end: Any, step: Any = 1, *, out: Any) -> Any:
    counts.CALLS["range"] += 1
    return _fill(out, int((end - start) / step) + 1, start, step)


def _linspace(start: Any, end: Any, steps: int, *, out: Any) -> Any:
    counts.CALLS["linspace"] += 1
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    if out.numel() != steps:
        out.resize_(steps)
    if not steps:
        return out
    if steps == 1:
        return out.fill_(start)
    if out.is_complex():
        parts = (
            torch.linspace(*ends, steps, dtype=REAL_OF[out.dtype], device=out.device)
            for ends in zip(split(start), split(end), strict=True)
        )
        return out.copy_(join(*parts))
    return _fill_between(out, start, end, steps, out.dtype)


def _fill_between(out: Any, start: Any, end: Any, steps: int, dtype: Any) -> Any:
    """Fill a vector with numbers between ends, which are converted to a type first."""
    # A whole element's overflow raises PyTorch's error, which it does not check for a single one.
    ends = torch.empty((2, 2), dtype=dtype, device="cpu")
    ends[0].fill_(start)
    ends[1].fill_(end)
    inner = dtype if dtype.is_floating_point else torch.float32
    first, last = ends[0, 0].to(inner), ends[1, 0].to(inner)
    step = (last - first) / torch.tensor(steps - 1, dtype=inner, device="cpu")
    numbers = [_bits(float(number)) for number in (first, last, step)]
    target = out if out.is_contiguous() else torch.empty_like(out).contiguous()
    is_narrow, is_integer = inner in _NARROW, not out.is_floating_point()
    grid, is_float = (-(-steps // _BLOCK),), inner != torch.float64
    launch(
        between, grid, out.device,
        target, *numbers, steps, is_narrow, is_float, is_integer, _BLOCK,
    )  # fmt: skip
    return out if target is out else out.copy_(target)


def _logspace(start: Any, end: Any, steps: int, base: float = 10.0, *, out: Any) -> Any:
    counts.CALLS["logspace"] += 1
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    if out.numel() != steps:
        out.resize_(steps)
    if not steps:
        return out
    if steps == 1:
        return out.fill_(base**start)
    if out.is_complex():
        exponents = torch.linspace(start, end, steps, dtype=out.dtype, device=out.device)
    else:
        inner = out.dtype if out.is_floating_point() else torch.float32
        exponents = torch.empty(steps, dtype=inner, device=out.device)
        _fill_between(exponents, start, end, steps, out.dtype)
    return out.copy_(torch.pow(base, exponents))


def _eye(n: int, m: int | None = None, *, out: Any) -> Any:
    counts.CALLS["eye"] += 1
    m = n if m is None else m
    for letter, size in (("n", n), ("m", m)):
        if size < 0:
            raise RuntimeError(f"{letter} must be greater or equal to 0, got {size}")
    out.resize_((n, m)).zero_()
    out.diagonal().fill_(1)
    return out


def _eye_square(n: int, *, out: Any) -> Any:
    return _eye(n, n, out=out)


def _triangle(upper: bool) -> Any:
    def compute(
        row: int, col: int, offset: int = 0, *, dtype: Any = None, layout: Any = None,
        device: Any = None, pin_memory: Any = None,
    ) -> Any:  # fmt: skip
        counts.CALLS["triu_indices" if upper else "tril_indices"] += 1
        full_mask = torch.ones((row, col), dtype=torch.bool, device=device)
        mask = full_mask.triu(offset) if upper else full_mask.tril(offset)
        below = offset - 1 if upper else offset
        size = sum(min(max(i + below + 1, 0), col) for i in range(row))
        flat_positions = positions(mask.reshape(-1), row * col - size if upper else size)
        pairs = torch.stack((flat_positions // max(col, 1), flat_positions % max(col, 1)))
        return pairs.to(dtype or torch.int64)

    return compute


KERNELS: Final = {
    "arange.start_out": _arange,
    "range.out": _range,
    "linspace.out": _linspace,
    "logspace.out": _logspace,
    "eye.out": _eye_square,
    "eye.m_out": _eye,
    "tril_indices": _triangle(False),
    "triu_indices": _triangle(True),
}
