"""Whole models on servers: the factors of their intervals, and their validation."""

import importlib.util

import numpy as np
import pytest

from vgpu_sim.perf.errors import NoData
from vgpu_sim.perf.models import Serving, predict_serving
from vgpu_sim.perf.models.serving_intervals import Band, Bands, Ends, bands
from vgpu_sim.perf.validation import baselines, serving
from vgpu_sim.perf.validation.baselines import Samples, Work
from vgpu_sim.perf.validation.serving import Point

MISSING = [n for n in ("aiconfigurator_core", "pyarrow") if importlib.util.find_spec(n) is None]


def point(group: tuple[str, str, str], measured: float, least: float, most: float) -> Point:
    """Return a point with equal times."""
    both = dict.fromkeys(serving.TIMES, 0.0)
    ends = dict.fromkeys(serving.TIMES, Ends(least, most))
    return Point(
        group, both | dict.fromkeys(both, measured), both | dict.fromkeys(both, least), both, ends
    )


def points(group: tuple[str, str, str], factor: float, count: int = 21) -> list[Point]:
    """Return points of one group, measured at ``factor`` times 0.9 to 1.1 of both ends."""
    return [point(group, factor * x, 1, 1) for x in np.linspace(0.9, 1.1, count)]


def test_the_worst_group_sets_each_end_however_small_it_is() -> None:
    some = (
        points(("a", "x", "l"), 1.0, 201)
        + points(("b", "x", "l"), 2.0)
        + points(("c", "x", "l"), 0.5)
    )
    found = serving.fit(some)
    assert found.points == 243
    assert found.tpot.low == pytest.approx(0.5 * 0.91)
    assert found.tpot.high == pytest.approx(2.0 * 1.09)


def test_a_fit_needs_measurements() -> None:
    with pytest.raises(NoData, match="no measured serving point"):
        serving.fit([])


def test_a_group_is_validated_with_factors_of_other_models_and_boards() -> None:
    """The second library of a board is held out together with the first."""
    far = points(("b", "y", "l"), 3.0) + points(("b", "y", "m"), 3.0)
    rows = serving.validate(points(("a", "x", "l"), 1.0) + points(("c", "x", "l"), 0.9) + far)
    inside = {row.group: row.inside for row in rows if row.time == "tpot"}
    assert inside[("b", "y", "l")] == inside[("b", "y", "m")] == 0
    assert inside[("a", "x", "l")] == 100
    assert 0 < inside[("c", "x", "l")] < 100


@pytest.mark.parametrize(
    ("measured", "inside"), [(1.9, False), (2.0, True), (9.0, True), (9.1, False)]
)
def test_an_interval_goes_from_an_idle_server_to_a_busy_one(measured: float, inside: bool) -> None:
    assert point(("a", "b", "c"), measured, 4, 6).is_inside("tpot", Band(0.5, 1.5)) is inside


def test_points_of_one_board_alone_are_compared_without_a_share_inside() -> None:
    """There are no factors of other models or boards to compare with."""
    assert {row.inside for row in serving.validate(points(("a", "x", "l"), 1.0))} == {None}


def test_an_idle_server_may_be_predicted_slower_than_a_busy_one() -> None:
    assert Band(0.5, 2).interval(Ends(11, 10)) == (5, 22)


def test_bands_survive_their_file() -> None:
    some = Bands(Band(0.5, 2), Band(0.25, 1.5), 7, "here")
    assert Bands.of_json(some.as_json()) == some
    assert bands().points > 500


def test_prompts_delay_tokens_by_what_a_server_in_steady_state_processes() -> None:
    """Each token of a sequence waits for ``batch / made`` prompts, on each replica."""
    found = predict_serving(Serving("llama-3-8b", "h200", 1, 32, 1024, 256))
    alone = predict_serving(Serving("llama-3-8b", "h200", 1, 1, 1024, 256))
    assert found.prompt_ms == pytest.approx(alone.ttft_ms)
    assert found.tpot_ends.most - found.tpot_ms == pytest.approx(alone.ttft_ms * 32 / 256)
    assert alone.ttft_ends == Ends(alone.ttft_ms, alone.ttft_ms)
    served = found.as_json()["served_90_percent"]
    assert served["tpot_ms"][0] < found.tpot_ms < served["tpot_ms"][1]


def test_replicas_process_prompts_of_their_own() -> None:
    question = Serving("deepseek-v3", "h200", 1, 64, 1024, 256, dp=8, ep=8, dtype="fp8")
    found = predict_serving(question)
    assert found.tpot_ends.most - found.tpot_ms == pytest.approx(found.prompt_ms * 8 / 256)


@pytest.mark.skipif(bool(MISSING), reason=f"no measurements: {', '.join(MISSING)}")
def test_measured_serving_runs_are_inside_the_printed_interval() -> None:
    found, excluded = serving.predict_points(60)
    assert len(found) > 40
    assert excluded["weights in nvfp4"] == 445
    for time in serving.TIMES:
        inside = [one.is_inside(time, getattr(bands(), time)) for one in found]
        assert np.mean(inside) >= 0.85


def make_samples(count: int, seed: int, bend: float) -> Samples:
    """Return times of a roofline with a launch, multiplied by exp(``bend`` sin(size))."""
    random = np.random.default_rng(seed)
    size = random.uniform(0, 8, (count, 1))
    work = Work(np.exp(size[:, 0]), np.full(count, 20.0))
    roof = 2.0 + np.maximum(work.math / 0.8, work.moved / 0.5)
    return Samples(size, work, roof * np.exp(bend * np.sin(size[:, 0])))


def test_a_tuned_roofline_finds_its_parameters() -> None:
    pytest.importorskip("scipy")
    assert baselines.errors(make_samples(60, 1, 0), make_samples(50, 2, 0))["roofline"] < 0.1


def test_interpolation_corrects_the_roofline() -> None:
    pytest.importorskip("scipy")
    found = baselines.errors(make_samples(200, 1, 0.3), make_samples(100, 2, 0.3))
    assert found["RBF"] < found["5-NN"] < found["roofline"]
    assert found["RBF"] < 2 < 10 < found["roofline"]


def test_rows_that_repeat_a_shape_are_no_singular_system() -> None:
    pytest.importorskip("scipy")
    one = make_samples(30, 1, 0.1)
    twice = one.rows(np.arange(60) % 30)
    found = baselines.errors(twice, one)
    assert found["RBF"] < 0.1
