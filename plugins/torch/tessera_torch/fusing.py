"""Functions of several steps as one kernel over elements, which writes into given tensors.

Steps are in the types in which the function computes them: nothing is rounded between two of them.
"""

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from tessera_torch.signature import Signature

if TYPE_CHECKING:
    from tessera_torch.pointwise import Pointwise

_LOCK: Final = threading.Lock()
_KERNELS: Final[dict[Any, "Pointwise"]] = {}


class _Form(Signature):
    """A function in place of an overload: the last of its arguments are written."""

    def __init__(self, name: str, inputs: int, targets: int) -> None:
        self.name = name
        self.is_out = False
        self.functional = None
        self.alpha = -1
        self.numbers = [True] * inputs
        self.writes = list(range(inputs, inputs + targets))
        self.results = ()

    def without_targets(self, full: Sequence[Any]) -> list[Any]:
        """Return the inputs."""
        return list(full[: self.writes[0]])


def compute_into(
    name: str,
    key: Any,
    formula: Callable[..., Sequence[Any]],
    inputs: Sequence[Any],
    targets: Sequence[Any],
) -> None:
    """Write a function's results into tensors, which may be inputs too.

    Args:
        name: names the function in counts.
        key: distinguishes functions of that name: kernels are kept by both.
        formula: takes the inputs' tensors and returns a result for each target.
        inputs: tensors and Python's numbers, which are broadcast.
        targets: each result is rounded to the type of its target.
    """
    with _LOCK:
        kernel = _KERNELS.get((name, key))
        if kernel is None:
            kernel = _KERNELS[name, key] = _prepare(name, formula, len(inputs), len(targets))
    kernel([*inputs, *targets])


def _prepare(
    name: str, formula: Callable[..., Sequence[Any]], inputs: int, targets: int
) -> "Pointwise":
    from tessera_torch.pointwise import Pointwise

    return Pointwise(_Form(name, inputs, targets), lambda arguments, scaled: formula(*arguments))
