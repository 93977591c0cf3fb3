"""All kernels of this folder, by the name of their overload."""

from collections.abc import Callable
from typing import Any

from tessera_torch.own import copying, foreach, random, selection, sorting


def kernels() -> dict[str, Callable[..., Any]]:
    """Return the kernels that are registered under their names."""
    return {
        **copying.KERNELS,
        **foreach.kernels(),
        **random.KERNELS,
        **selection.KERNELS,
        **sorting.KERNELS,
    }
