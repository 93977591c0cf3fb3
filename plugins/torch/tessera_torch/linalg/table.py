"""All kernels of this folder, by the name of their overload."""

from collections.abc import Callable
from typing import Any

from tessera_torch.linalg import cholesky, lu, orthogonal, solutions, spectra, triangles


def kernels() -> dict[str, Callable[..., Any]]:
    """Return the kernels that are registered under their names."""
    return {
        **cholesky.KERNELS,
        **lu.KERNELS,
        **orthogonal.KERNELS,
        **solutions.KERNELS,
        **spectra.KERNELS,
        **triangles.KERNELS,
    }
