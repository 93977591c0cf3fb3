"""The sampling benchmark: its figures from the programs' times."""

import json

import pytest

from benchmarks import on_slice, sampling
from vgpu_sim.hal.observe.modelled_report import WALL


def answers(monkeypatch: pytest.MonkeyPatch, wall_s: list[float], modelled_s: list[float]) -> None:
    """Make programs print these times of a hundred launches, one after the other."""
    left = {True: list(wall_s), False: list(modelled_s)}

    def run(command: list[str], *, clock: str) -> str:
        assert command[-3:] == ["100", "1024", "32"]
        took = left[clock == WALL].pop(0)
        return json.dumps({name: {"first": took / 10, "all": took} for name in ("vecadd", "sgemm")})

    monkeypatch.setattr(on_slice, "run", run)


def test_the_share_of_the_clock_is_computed_from_the_best_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers(monkeypatch, [3.0, 2.0], [2.5, 4.0])
    rows = sampling.measure(100, 1024, 32, 2).rows
    assert [row.name.split(",")[0] for row in rows[::3]] == ["vecadd", "sgemm"]
    launch, first, more = rows[:3]
    assert (launch.measured, first.measured) == (pytest.approx(20), pytest.approx(250))
    assert more.measured == pytest.approx(20)
    assert (more.goal_text, more.verdict) == ("<= 10 %", "MISSED")
    answers(monkeypatch, [2.0], [2.1])
    assert sampling.measure(100, 1024, 32, 1).rows[2].verdict == "met"


def test_a_short_kernel_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, [0.9], [1.0])
    rows = sampling.measure(100, 1024, 32, 1).rows
    assert {row.verdict for row in rows} == {"", "NOT MEASURED"}
