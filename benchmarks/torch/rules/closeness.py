"""Expected results of operators that compute in opmath, and round once."""

import numpy as np

from benchmarks.torch.rules.dtypes import FLOATS, Array, cast, opmath, spacing
from benchmarks.torch.rules.row import Expected


def close(exact: Array, target: str, ulps: float, scale: Array | float = 0.0) -> Expected:
    """Describe a result that is rounded once, after an error of some distances in opmath.

    The distance is that of the numbers at the result, or at ``scale`` where this is larger:
    terms of that size may cancel.
    """
    exact = np.asarray(exact)
    if target not in FLOATS:
        return Expected(target, (cast(exact, target),), zero_sign=False)
    wide = opmath(target)
    rounded = cast(cast(exact, wide), target)
    if not ulps:
        return Expected(target, (rounded,), zero_sign=False)
    with np.errstate(invalid="ignore"):
        reach = ulps * spacing(np.fmax(np.abs(exact), scale), wide)
    low, high = (cast(cast(exact + sign * reach, wide), target) for sign in (-1, 1))
    return Expected(target, (rounded,), low, high, zero_sign=False)
