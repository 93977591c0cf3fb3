"""Fits the parameters of a model to measured times, by robust least squares of the logarithms of
times.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from vgpu_sim.perf.parameters import Fitted, Parameter, Values, starts
from vgpu_sim.records import dataclass

FOLDS: Final = 4
_PRIOR: Final = 0.02  # how strongly a parameter that the rows do not determine stays at its start
_ROBUST: Final = 0.05  # log error above which a row counts less
_ROUNDS: Final = 30
_STEP: Final = 1e-4  # of a logarithm, for derivatives
_CLASSES: Final = 6  # time classes for which the scatter is computed


@dataclass(frozen=True, slots=True)
class Problem:
    """The input of a fit: the parameters, the measured times, and a model that predicts these
    times. Each measurement is a row.

    ``choose`` finds each row's fastest kernel, which is the expensive part; ``times`` computes the
    rows' times with the chosen kernels. Where a row's time is a minimum over kernels, its
    derivative equals that of the fastest kernel's time (the envelope theorem). Derivatives are
    therefore computed without a new choice of kernels.
    """

    parameters: Sequence[Parameter]
    us: np.ndarray
    choose: Callable[[Values, np.ndarray], Any]
    times: Callable[[Values, np.ndarray, Any], np.ndarray]

    def predict(self, values: Values, rows: np.ndarray) -> np.ndarray:
        """Return the predicted times of rows, with each row's fastest kernel."""
        return self.times(values, rows, self.choose(values, rows))


def fit(problem: Problem, source: str, seeds: Sequence[int] = (0,)) -> Fitted:
    """Fit the parameters to all rows, once from each of several start points, and return the best
    fit. The scatter in the result comes from cross-validation: each fold of the rows is
    predicted by a fit to the other folds.
    """
    every = np.arange(len(problem.us))
    tries = [_solve(problem, every, seed) for seed in seeds]
    cost, values, jacobian = min(tries, key=lambda found: found[0])
    names = tuple(parameter.name for parameter in problem.parameters)
    return Fitted(
        values, names, _covariance(jacobian, cost), _scatter(problem, values), len(every), source
    )


def _solve(
    problem: Problem, rows: np.ndarray, seed: int, start: Values | None = None
) -> tuple[float, dict[str, float], np.ndarray]:
    from scipy.optimize import least_squares

    parameters = problem.parameters
    low, high = (np.log([getattr(p, bound) for p in parameters]) for bound in ("low", "high"))
    centre = np.log(list((start or starts(parameters)).values()))
    spread = 0.15 * seed * np.random.default_rng(seed).standard_normal(len(centre))
    measured = np.log(problem.us[rows])
    weight = _PRIOR * np.sqrt(len(rows)) / (high - low)

    def to_dict(x: np.ndarray) -> dict[str, float]:
        return {p.name: float(v) for p, v in zip(parameters, np.exp(x), strict=True)}

    def errors(x: np.ndarray) -> np.ndarray:
        logs = np.log(problem.predict(to_dict(x), rows))
        return np.asarray(np.concatenate((logs - measured, weight * (x - centre))))

    def jacobian(x: np.ndarray) -> np.ndarray:
        kernels = problem.choose(to_dict(x), rows)

        def logs(x: np.ndarray) -> np.ndarray:
            return np.asarray(np.log(problem.times(to_dict(x), rows, kernels)))

        steps = np.eye(len(x)) * _STEP
        columns = [(logs(x + step) - logs(x - step)) / (2 * _STEP) for step in steps]
        return np.concatenate((np.stack(columns, axis=1), np.diag(weight)))

    solution = least_squares(
        errors,
        np.clip(centre + spread, low + 1e-3, high - 1e-3),
        jacobian,
        bounds=(low, high),
        loss="soft_l1",
        f_scale=_ROBUST,
        max_nfev=_ROUNDS,
    )
    return float(solution.cost), to_dict(solution.x), np.asarray(solution.jac)


def _covariance(jacobian: np.ndarray, cost: float) -> tuple[tuple[float, ...], ...]:
    """Return the covariance of the parameters' logarithms at the optimum (Gauss-Newton
    approximation).
    """
    free = max(1, jacobian.shape[0] - jacobian.shape[1])
    inverse = np.linalg.pinv(jacobian.T @ jacobian, hermitian=True)
    return tuple(tuple(map(float, row)) for row in inverse * (2 * cost / free))


def _scatter(problem: Problem, start: Values) -> tuple[tuple[float, float], ...]:
    """Return pairs of a time and the 90th percentile of |ln error| around it. Each row is predicted
    by a fit without the row's fold.
    """
    rows = np.arange(len(problem.us))
    fold = np.random.default_rng(7).permutation(len(rows)) % FOLDS
    errors, times = np.empty(len(rows)), np.empty(len(rows))
    for left_out in range(FOLDS):
        training_rows, unseen = rows[fold != left_out], rows[fold == left_out]
        _, values, _ = _solve(problem, training_rows, 0, start)
        times[unseen] = problem.predict(values, unseen)
        errors[unseen] = np.abs(np.log(times[unseen] / problem.us[unseen]))
    order = np.array_split(np.argsort(times), _CLASSES)
    # The rank counts one more row than exists, so that a small class does not promise too much.
    share = [min(1.0, 0.9 * (len(part) + 1) / len(part)) for part in order]
    return tuple(
        (float(np.median(times[part])), float(np.quantile(errors[part], q)))
        for part, q in zip(order, share, strict=True)
    )
