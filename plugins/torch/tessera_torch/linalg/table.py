"""All kernels of this folder, by the name of their overload."""

import functools
from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch.linalg import (
    cholesky,
    eigen,
    indefinite,
    lu,
    orthogonal,
    solutions,
    spectra,
    triangles,
)

_USE_THE_HOST: Final = frozenset(
    {
        "_linalg_eigh",
        "_linalg_svd",
        "linalg_eig",
        "_linalg_eigvals",
        "linalg_ldl_solve",
        "linalg_matrix_exp",
    }
)


def kernels() -> dict[str, Callable[..., Any]]:
    """Return the kernels that are registered under their names."""
    kernels_by_name: dict[str, Callable[..., Any]] = {
        **cholesky.KERNELS,
        **eigen.KERNELS,
        **indefinite.KERNELS,
        **lu.KERNELS,
        **orthogonal.KERNELS,
        **solutions.KERNELS,
        **spectra.KERNELS,
        **triangles.KERNELS,
    }
    return {
        name: _outside_graphs(name, kernel) if name.partition(".")[0] in _USE_THE_HOST else kernel
        for name, kernel in kernels_by_name.items()
    }


def _outside_graphs(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that is refused while a CUDA graph is captured: it needs the host."""

    @functools.wraps(compute)
    def compute_outside(*arguments: Any, **keywords: Any) -> Any:
        if torch.cuda.is_current_stream_capturing():
            raise NotImplementedError(
                f"aten::{name} has no kernel on Tessera's simulated GPU that a CUDA graph can"
                " capture: it exchanges numbers with the host. Compute it outside of the graph"
            )
        return compute(*arguments, **keywords)

    return compute_outside
