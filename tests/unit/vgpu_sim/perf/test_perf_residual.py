"""The fitted residual: it corrects systematic errors, ignores noise, and is bounded."""

import json

import numpy as np
import pytest

from vgpu_sim.perf import parameters
from vgpu_sim.perf.residual import Residual, inputs, learn
from vgpu_sim.perf.stack import Stack

COUNT = 400


def rows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (count, 3))


def truth(of: np.ndarray) -> np.ndarray:
    return np.asarray(0.2 * np.sin(2 * of[:, 0]) + 0.1 * of[:, 1] * of[:, 2])


def test_a_smooth_error_is_fitted_and_predicted_for_new_rows() -> None:
    residual = learn(rows(COUNT), truth(rows(COUNT)), np.linspace(1, 9, COUNT))
    assert residual is not None
    unseen = rows(200, 1)
    left = np.abs(residual.log(unseen) - truth(unseen)).mean()
    assert left < 0.2 * np.abs(truth(unseen)).mean()
    assert all(0 < width < 0.1 for _, width in residual.scatter)


@pytest.mark.parametrize("seed", [2, 5])
def test_noise_is_not_fitted(seed: int) -> None:
    """For seed 2 the left-out rows improve by chance, but by less than a standard error."""
    noise = np.random.default_rng(seed).normal(0, 0.1, COUNT)
    assert learn(rows(COUNT, seed), noise, np.linspace(1, 9, COUNT)) is None


def test_few_rows_are_not_fitted() -> None:
    assert learn(rows(100), truth(rows(100)), np.linspace(1, 9, 100)) is None


def test_the_correction_is_bounded_far_from_the_fitted_rows() -> None:
    residual = learn(rows(COUNT), 5 * truth(rows(COUNT)), np.linspace(1, 9, COUNT))
    assert residual is not None
    assert np.abs(residual.log(100 * rows(500, 2))).max() <= 0.4


def test_the_committed_form_gives_the_same_correction() -> None:
    residual = learn(rows(COUNT), truth(rows(COUNT)), np.linspace(1, 9, COUNT))
    assert residual is not None
    again = Residual.of_json(json.loads(json.dumps(residual.as_json())))
    np.testing.assert_allclose(again.log(rows(50, 3)), residual.log(rows(50, 3)), atol=2e-3)


def test_an_input_equal_in_every_row_is_ignored_despite_rounding() -> None:
    """ln 0.5 is committed as -0.6931: divided by a spread of almost 0, the rounding would
    dominate.
    """

    def beside(of: np.ndarray) -> np.ndarray:
        return np.column_stack([of, np.full(len(of), np.log(0.5))])

    residual = learn(beside(rows(COUNT)), truth(rows(COUNT)), np.linspace(1, 9, COUNT))
    assert residual is not None
    again = Residual.of_json(json.loads(json.dumps(residual.as_json())))
    unseen = rows(200, 1)
    left = np.abs(again.log(beside(unseen)) - truth(unseen)).mean()
    assert left < 0.2 * np.abs(truth(unseen)).mean()


def test_it_is_the_last_cause_and_the_causes_still_add() -> None:
    residual = learn(rows(COUNT), truth(rows(COUNT)), np.linspace(1, 9, COUNT))
    assert residual is not None
    stack = Stack({"launch": np.array([2.0, 3.0])})
    sizes = np.zeros((2, 1))
    assert inputs(stack, sizes).shape == (2, 3)
    found = residual.apply(stack, sizes)
    assert list(found.causes) == ["launch", "residual (learned)"]
    np.testing.assert_allclose(
        found.total, stack.total * np.exp(residual.log(inputs(stack, sizes)))
    )


@pytest.mark.parametrize("family", ["gemm", "attention-context", "attention-generation", "moe"])
def test_a_residual_is_used_for_its_own_board_only(family: str) -> None:
    assert parameters.nearest(family, "h200", "bf16", "vllm").residual is not None
    assert parameters.nearest(family, "h100-nvl", "bf16", "vllm").residual is None
