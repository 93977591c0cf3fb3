"""All kernels of this folder and of those for images, by the name of their overload."""

from collections.abc import Callable
from typing import Any

from tessera_torch.special import (
    bags,
    count_samples,
    ctc,
    dirichlet_gradient,
    distances,
    gamma_samples,
    hashes,
    incomplete_gamma,
    margins,
    observers,
    quantization,
    rounding,
    segments,
    slopes,
    stock,
)
from tessera_torch.vision import adaptive_maximum, grids, resampling


def kernels() -> dict[str, Callable[..., Any]]:
    """Return the kernels that are registered under their names."""
    return {
        **adaptive_maximum.KERNELS,
        **bags.KERNELS,
        **count_samples.KERNELS,
        **ctc.KERNELS,
        **dirichlet_gradient.KERNELS,
        **distances.KERNELS,
        **gamma_samples.KERNELS,
        **grids.KERNELS,
        **hashes.KERNELS,
        **incomplete_gamma.KERNELS,
        **margins.KERNELS,
        **observers.KERNELS,
        **quantization.KERNELS,
        **rounding.KERNELS,
        **resampling.KERNELS,
        **segments.KERNELS,
        **slopes.KERNELS,
        **stock.kernels(),
    }
