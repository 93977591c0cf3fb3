"""Fourier transforms: stages of small radices, and Bluestein's algorithm for large primes."""

import math
from collections.abc import Sequence
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.complexes.parts import COMPLEX_OF, REAL_OF, join, resolve, split
from tessera_torch.own.launching import launch
from tessera_torch.refusal import Unsupported
from tessera_torch.targets import both
from tessera_torch.transforms.fft_kernels import transform_stage
from tessera_torch.transforms.fft_plan import padded_length, stages
from tessera_torch.transforms.tables import Tables

_BLOCK: Final = 256


def _make_table(device: Any, length: int) -> tuple[Any]:
    """Return the powers of exp(-2 pi i / length) as pairs in double precision."""
    angles = torch.arange(length, dtype=torch.float64) * (-2 * math.pi / length)
    return (torch.stack((angles.cos(), angles.sin()), -1).to(device),)


_POWERS: Final = Tables(_make_table)


def _transform_rows(name: str, rows: Any, sign: int) -> Any:
    """Return the transforms of the rows of a contiguous complex matrix."""
    length = rows.shape[-1]
    radices = stages(length)
    if radices is None:
        return _transform_by_convolution(name, rows, sign)
    (table,) = _POWERS.get(name, rows.device, length)
    source = torch.view_as_real(rows)
    part_length, total = 1, rows.numel()
    for radix in radices:
        out = torch.empty_like(source)
        grid = (-(-total // _BLOCK),)
        launch(
            transform_stage, grid, rows.device,
            source, out, table, total, length, radix, part_length, float(sign), _BLOCK,
        )  # fmt: skip
        source, part_length = out, part_length * radix
    return torch.view_as_complex(source)


def _make_chirp(device: Any, length: int, sign: int) -> tuple[Any, ...]:
    """Return exp(-i pi k^2 / n), and the transform of its padded conjugate, in two parts each."""
    padded = padded_length(length)
    squares = torch.arange(length, dtype=torch.int64) ** 2 % (2 * length)
    angles = squares.to(torch.float64) * (-sign * math.pi / length)
    chirp = torch.complex(angles.cos(), angles.sin())
    filter_ = torch.zeros(padded, dtype=torch.complex128)
    filter_[:length] = chirp.conj().resolve_conj()
    if length > 1:
        filter_[padded - length + 1 :] = filter_[1:length].flip(0)
    answer = _transform_rows("_fft_c2c", filter_.to(device)[None], 1)[0]
    return *split(chirp.to(device)), *split(answer)


_CHIRPS: Final = Tables(_make_chirp)


def _transform_by_convolution(name: str, rows: Any, sign: int) -> Any:
    """Bluestein's algorithm: a transform of any length by three of a power of two."""
    length = rows.shape[-1]
    padded = padded_length(length)
    chirp_real, chirp_imag, filter_real, filter_imag = _CHIRPS.get(name, rows.device, length, sign)
    real, imag = (part.to(torch.float64) for part in split(rows))
    work = torch.zeros((rows.shape[0], padded), dtype=torch.complex128, device=rows.device)
    parts = torch.view_as_real(work)
    parts[:, :length, 0] = real * chirp_real - imag * chirp_imag
    parts[:, :length, 1] = real * chirp_imag + imag * chirp_real
    real, imag = split(_transform_rows(name, work, 1))
    product = join(real * filter_real - imag * filter_imag, real * filter_imag + imag * filter_real)
    real, imag = (part[:, :length] / padded for part in split(_transform_rows(name, product, -1)))
    return join(
        real * chirp_real - imag * chirp_imag, real * chirp_imag + imag * chirp_real, rows.dtype
    )


def _transform(name: str, tensor: Any, dims: Sequence[int], sign: int) -> Any:
    """Return the transforms of a complex tensor along dimensions, without a factor."""
    for dim in dims:
        if tensor.shape[dim] == 1 or not tensor.numel():
            continue
        moved = resolve(tensor.movedim(dim, -1))
        rows = moved.view(-1, moved.shape[-1])
        tensor = _transform_rows(name, rows, sign).view(moved.shape).movedim(-1, dim)
    return resolve(tensor)


def _scale(result: Any, sizes: Sequence[int], normalization: int) -> Any:
    """Apply PyTorch's factor in place: 1, the root of the number of elements, or that number."""
    if normalization and result.numel():
        count = math.prod(sizes)
        factor = 1 / (math.sqrt(count) if normalization == 1 else count)
        (torch.view_as_real(result) if result.is_complex() else result).mul_(factor)
    return result


def _check(name: str, tensor: Any, dims: Sequence[int]) -> list[int]:
    if tensor.dtype not in COMPLEX_OF and tensor.dtype not in REAL_OF:
        raise Unsupported(name, (tensor,), "transforms need 32 or 64 bits")
    return [dim % tensor.dim() for dim in dims]


def _complex_to_complex(self: Any, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    counts.CALLS["_fft_c2c"] += 1
    dims = _check("_fft_c2c", self, dim)
    result = _transform("_fft_c2c", self, dims, 1 if forward else -1)
    if result is self or result.data_ptr() == self.data_ptr():
        result = result.clone()
    return _scale(result, [self.shape[axis] for axis in dims], normalization)


def _real_to_complex(self: Any, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    counts.CALLS["_fft_r2c"] += 1
    dims = _check("_fft_r2c", self, dim)
    whole = join(self, torch.zeros((), dtype=self.dtype, device=self.device))
    result = _transform("_fft_r2c", whole, dims, 1)
    if onesided:
        result = resolve(result.narrow(dims[-1], 0, self.shape[dims[-1]] // 2 + 1))
    return _scale(result, [self.shape[axis] for axis in dims], normalization)


def _complex_to_real(self: Any, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    counts.CALLS["_fft_c2r"] += 1
    dims = _check("_fft_c2r", self, dim)
    last, count = dims[-1], last_dim_size
    if count < 1:
        raise RuntimeError(f"Invalid number of data points ({count}) specified")
    half_count = count // 2 + 1
    half = _transform("_fft_c2r", self, dims[:-1], -1).narrow(last, 0, half_count)
    real, imag = split(half)
    # The other half of a real signal's transform is the conjugate of this one, reversed.
    mirrored = [part.narrow(last, 1, count - half_count).flip(last) for part in (real, imag)]
    whole = join(torch.cat((real, mirrored[0]), last), torch.cat((imag, -mirrored[1]), last))
    result = split(_transform("_fft_c2r", whole, [last], -1))[0].contiguous()
    return _scale(result, [whole.shape[axis] for axis in dims], normalization)


KERNELS: Final = {
    **both("_fft_c2c", "_fft_c2c.out", _complex_to_complex),
    **both("_fft_r2c", "_fft_r2c.out", _real_to_complex),
    **both("_fft_c2r", "_fft_c2r.out", _complex_to_real),
}
