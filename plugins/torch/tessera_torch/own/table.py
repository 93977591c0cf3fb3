"""All kernels of this folder, by the name of their overload."""

from collections.abc import Callable
from typing import Any

from tessera_torch.own import (
    composition,
    convolution,
    copying,
    creation,
    foreach,
    optimizers,
    products,
    random,
    scans,
    scattering,
    selection,
    sorting,
    spreading,
)


def kernels() -> dict[str, Callable[..., Any]]:
    """Return the kernels that are registered under their names."""
    return {
        **composition.KERNELS,
        **convolution.KERNELS,
        **copying.KERNELS,
        **creation.KERNELS,
        **foreach.kernels(),
        **optimizers.KERNELS,
        **products.KERNELS,
        **random.KERNELS,
        **scans.KERNELS,
        **scattering.KERNELS,
        **selection.KERNELS,
        **sorting.KERNELS,
        **spreading.KERNELS,
    }
