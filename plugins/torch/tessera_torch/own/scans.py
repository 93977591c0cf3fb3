"""Running maxima, and running sums of exponentials."""

from collections.abc import Callable
from typing import Any, Final

import torch

from tessera_torch import counts
from tessera_torch.operator import Operator
from tessera_torch.targets import both


def _helper(name: str) -> Callable[..., Any]:
    compute = Operator(name, frozenset())

    def scan(self: Any, values: Any, indices: Any, dim: int) -> None:
        counts.CALLS[f"_{name}_helper"] += 1
        scanned_values, places = compute(self, dim)
        values.copy_(scanned_values)
        indices.copy_(places)

    return scan


def _logcumsumexp(self: Any, dim: int) -> Any:
    """Combine each element with that twice as far before it, until all are (Hillis and Steele)."""
    counts.CALLS["_logcumsumexp"] += 1
    result = self.clone()
    if not self.dim():
        return result
    count, step = self.shape[dim], 1
    while step < count:
        remaining_count = count - step
        sums = torch.logaddexp(
            result.narrow(dim, step, remaining_count), result.narrow(dim, 0, remaining_count)
        )
        result = torch.cat((result.narrow(dim, 0, step), sums), dim)
        step *= 2
    return result


KERNELS: Final = {
    "_cummax_helper": _helper("cummax"),
    "_cummin_helper": _helper("cummin"),
    **both("_logcumsumexp", "_logcumsumexp.out", _logcumsumexp),
}
