"""tessera_torch's plans of Fourier transforms: radices, and the length of a convolution."""

import cmath
import math

import pytest

from tessera_torch.transforms import fft_plan


@pytest.mark.parametrize("length", [1, 2, 6, 8, 60, 61, 97 * 2, 1024, 3**5, 61 * 61])
def test_radices_multiply_to_the_length_unless_a_prime_is_large(length):
    radices = fft_plan.stages(length)
    if length == 97 * 2:
        assert radices is None
    else:
        assert math.prod(radices) == length


@pytest.mark.parametrize("length", [1, 2, 3, 67, 128])
def test_a_convolution_fits_into_its_padded_length(length):
    padded = fft_plan.padded_length(length)
    assert padded >= 2 * length - 1
    assert padded & (padded - 1) == 0


def _transform(numbers, radices):
    """The stages of transforms/fft_kernels.py, for one row."""
    length, done = len(numbers), 1
    for radix in radices:
        span = radix * done
        groups = length // span
        numbers = [
            sum(
                numbers[(i // span + groups * j) * done + i % span % done]
                * cmath.exp(-2j * cmath.pi * (j * (i % span) % span) / span)
                for j in range(radix)
            )
            for i in range(length)
        ]
        done = span
    return numbers


def test_stages_in_order_are_a_fourier_transform():
    numbers = [complex(k * k % 7, k % 3) for k in range(60)]
    found = _transform(numbers, fft_plan.stages(60))
    for k in (0, 1, 17, 59):
        wanted = sum(x * cmath.exp(-2j * cmath.pi * j * k / 60) for j, x in enumerate(numbers))
        assert abs(found[k] - wanted) < 1e-9
