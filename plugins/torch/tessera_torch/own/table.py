"""All kernels of this folder, by the name of their overload."""

from collections.abc import Callable
from typing import Any

from tessera_torch.own import copying


def kernels() -> dict[str, Callable[..., Any]]:
    """Return the kernels that are registered under their names."""
    return {**copying.KERNELS}
