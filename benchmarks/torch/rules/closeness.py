"""Expected results of operators that compute in opmath, and round once."""

import numpy as np

from benchmarks.torch.rules.dtypes import FLOATS, Array, cast, opmath, spacing
from benchmarks.torch.rules.row import Expected


def close(exact: Array, target: str, ulps: float) -> Expected:
    """Describe a result that is rounded once, after an error of some distances in opmath."""
    exact = np.asarray(exact)
    if target not in FLOATS:
        return Expected(target, (cast(exact, target),), zero_sign=False)
    wide = opmath(target)
    rounded = cast(cast(exact, wide), target)
    if not ulps:
        return Expected(target, (rounded,), zero_sign=False)
    reach = ulps * spacing(exact, wide)
    low, high = (cast(cast(exact + sign * reach, wide), target) for sign in (-1, 1))
    return Expected(target, (rounded,), low, high, zero_sign=False)
