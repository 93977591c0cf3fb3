"""A small fitted correction of a mechanism's times. It is bounded, stored separately, and named in
the stack of causes.

The correction is a ridge regression of ln(measured / predicted) on random Fourier features
(Rahimi and Recht, 2007) of the mechanism's sizes, its time, and the shares of its causes. Only
the weights of the features are stored, and no measurements; a generator with a fixed seed makes
the features. A residual is never used for another board.
"""

from typing import Any, Final

import numpy as np

from vgpu_sim.perf.stack import Stack
from vgpu_sim.records import dataclass

Array = np.ndarray
Pairs = tuple[tuple[float, float], ...]
CAUSE: Final = "residual (learned)"
LEAST_ROWS: Final = 150  # rows of a fit: fewer rows do not generalise
_FEATURES: Final = 400
_LENGTH: Final = 4.0  # width of the kernel, in standard deviations
_LEAST_SPREAD: Final = 1e-4
_BOUND: Final = 0.4  # bound of ln(correction)
_FOLDS: Final = 5
_CLASSES: Final = 6
_PENALTIES: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


@dataclass(frozen=True, slots=True)
class Residual:
    """A fitted correction of predicted times: the standardisation of its inputs, its weights, and
    the scatter of the corrected predictions.

    ``scatter`` has the form of ``Fitted.scatter``. Like ``Fitted.scatter``, it comes from
    cross-validation.
    """

    mean: tuple[float, ...]
    spread: tuple[float, ...]
    weights: tuple[float, ...]
    scatter: Pairs

    def log(self, inputs: Array) -> Array:
        """Return ln(correction) for rows of inputs, limited to the residual's bound."""
        features = _features((inputs - self.mean) / self.spread)
        return np.asarray(np.clip(features @ np.array(self.weights), -_BOUND, _BOUND))

    def apply(self, stack: Stack, sizes: Array) -> Stack:
        """Return ``stack`` with one more cause: the correction."""
        factor = np.exp(self.log(inputs(stack, sizes)))
        return Stack(stack.causes | {CAUSE: stack.total * (factor - 1)})

    def as_json(self) -> dict[str, Any]:
        """Return the residual as a JSON object, in the form in which the package stores it."""
        return {
            name: [float(f"{value:.4g}") for value in getattr(self, name)]
            for name in ("mean", "spread", "weights")
        } | {"scatter": [[float(f"{value:.4g}") for value in pair] for pair in self.scatter]}

    @classmethod
    def of_json(cls, row: dict[str, Any]) -> "Residual":
        """Create a residual from a JSON object in the form of ``as_json``."""
        mean, spread, weights = (tuple(row[name]) for name in ("mean", "spread", "weights"))
        return cls(mean, spread, weights, tuple(map(tuple, row["scatter"])))


def inputs(stack: Stack, sizes: Array) -> Array:
    """Return a residual's inputs, one row per shape. A row has the shape's ``sizes`` (logarithms),
    the logarithm of the predicted time, and the share of each cause in that time.
    """
    total = stack.total
    shares = [part / total for part in stack.causes.values()]
    return np.column_stack([sizes, np.log(total), *shares])


def learn(rows: Array, errors: Array, us: Array) -> Residual | None:
    """Fit a residual. ``rows`` are its inputs, ``errors`` the ln(measured / predicted) of each row,
    and ``us`` the predicted times of the rows in microseconds.

    Return None if there are too few rows. To test the residual, the error of each row is
    corrected by a fit that did not use the row. Also return None if this reduces the mean error
    by no more than one standard error of the reduction (Breiman et al., 1984, 3.4.3).
    """
    if len(rows) < LEAST_ROWS:
        return None
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    # An input that is equal in every row carries no information, and committed values are rounded.
    spread = np.where(spread > _LEAST_SPREAD, spread, 1.0)
    features = _features((rows - mean) / spread)
    fold = np.random.RandomState(1).permutation(len(rows)) % _FOLDS
    errors_by_penalty = {
        penalty: _left_out(features, errors, fold, penalty) for penalty in _PENALTIES
    }
    penalty = min(
        errors_by_penalty, key=lambda candidate: float(np.abs(errors_by_penalty[candidate]).mean())
    )
    nearer = np.abs(errors) - np.abs(errors_by_penalty[penalty])
    if nearer.mean() <= nearer.std(ddof=1) / np.sqrt(len(nearer)):
        return None
    weights = _ridge(features, errors, penalty)
    numbers = (tuple(map(float, column)) for column in (mean, spread, weights))
    centre, width, fitted_weights = numbers
    return Residual(centre, width, fitted_weights, _scatter(np.abs(errors_by_penalty[penalty]), us))


def _features(standard: Array) -> Array:
    # RandomState's stream is frozen (NEP 19), so the weights keep matching these features.
    random = np.random.RandomState(0)
    directions = random.standard_normal((standard.shape[1], _FEATURES)) / _LENGTH
    phases = random.uniform(0, 2 * np.pi, _FEATURES)
    return np.asarray(np.cos(standard @ directions + phases) * np.sqrt(2 / _FEATURES))


def _ridge(features: Array, errors: Array, penalty: float) -> Array:
    normal = features.T @ features + penalty * np.eye(features.shape[1])
    return np.asarray(np.linalg.solve(normal, features.T @ errors))


def _left_out(features: Array, errors: Array, fold: Array, penalty: float) -> Array:
    """Return each row's remaining error, with weights fitted without the row's fold."""
    remaining = np.empty_like(errors)
    for fold_number in range(_FOLDS):
        training_mask, unseen = fold != fold_number, fold == fold_number
        weights = _ridge(features[training_mask], errors[training_mask], penalty)
        remaining[unseen] = errors[unseen] - np.clip(features[unseen] @ weights, -_BOUND, _BOUND)
    return remaining


def _scatter(errors: Array, us: Array) -> Pairs:
    classes = np.array_split(np.argsort(us), _CLASSES)
    share = [min(1.0, 0.9 * (len(rows) + 1) / len(rows)) for rows in classes]
    return tuple(
        (float(np.median(us[rows])), float(np.quantile(errors[rows], q)))
        for rows, q in zip(classes, share, strict=True)
    )
