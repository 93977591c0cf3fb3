"""Fits of several boards together, for a board without rows: with invented rows of two donors."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.worlds.paper_board import AMPERE, HOPPER, on_paper, values
from vgpu_sim.perf.boards import BOARDS
from vgpu_sim.perf.dtypes import dtype_named
from vgpu_sim.perf.gemm.library import GENERAL
from vgpu_sim.perf.gemm.model import Model, Shapes
from vgpu_sim.perf.gemm.parameters import PARAMETERS
from vgpu_sim.perf.parameters import Fitted
from vgpu_sim.perf.validation import measurements, unseen
from vgpu_sim.perf.validation.accuracy import Accuracy
from vgpu_sim.perf.validation.measurements import Table

SIZES = {
    "h100-80gb": [64, 512, 4096, 100, 700, 2000, 33],
    "l40s": [96, 1024, 300, 5000, 128],
    "a100-80gb": [80, 640, 2500],
    "h200": [48, 480],
}


def shapes(board: str, places: list[int] | None = None) -> Shapes:
    sizes = np.array(SIZES[board])[slice(None) if places is None else places]
    return Shapes(sizes, 2 * sizes, 3 * sizes)


def read(board: str, *table: str, **kept: str) -> Table:
    """Return made-up rows; the time of each in microseconds is its m."""
    assert table == ("gemm", "gemm_perf", "vllm")
    assert kept == {"gemm_dtype": "bfloat16"}
    sizes = np.array(SIZES[board])
    return Table({"m": sizes, "n": 2 * sizes, "k": 3 * sizes, "us": sizes.astype(float)}, "1")


@pytest.fixture(autouse=True)
def _rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "read", read)
    monkeypatch.setattr(
        measurements, "is_fitted", lambda table, one_of, *shape: table.columns["m"] % 2 == 0
    )


@pytest.mark.parametrize(("board", "lanes"), [(HOPPER, 128), (AMPERE, 64)])
def test_rates_are_at_the_clock_of_fp32(board: Any, lanes: int) -> None:
    """10 SMs with 2 operations per lane and clock, at 3 GHz; the data sheet's tensor rates are at
    2.
    """
    board = replace(
        board,
        sms=on_paper(10),
        boost_ghz=on_paper(2.0),
        vector_tflops=on_paper(2 * lanes * 10 * 3.0 / 1e3),
    )
    found = unseen.at_largest_clock(board)
    assert {name: rate.value for name, rate in found.tensor_tflops.items()} == {
        "bf16": pytest.approx(150),
        "fp8": pytest.approx(300),
    }
    assert replace(found, tensor_tflops=board.tensor_tflops) == board


def test_each_row_uses_its_own_board_in_any_order_of_rows() -> None:
    """Rows of both boards are fitted, one board's after the other's, with the same parameters."""
    boards = ("h100-80gb", "l40s")
    fitted = {"h100-80gb": [0, 1, 2, 3, 4, 5], "l40s": [0, 1, 2, 3, 4]}
    together = unseen._Together(boards)
    assert list(together.us) == [*SIZES["h100-80gb"][:6], *SIZES["l40s"]]
    own = values(PARAMETERS)
    alone = []
    for board in boards:
        at = unseen.at_largest_clock(BOARDS[board])
        alone.append(Model(at, dtype_named("bf16"), own).times(shapes(board, fitted[board])))
    expected = np.concatenate(alone)
    for rows in (range(11), (10, 0, 6, 5, 3), (7, 1, 7), (6, 5)):
        wanted = np.array(rows)
        found = together.times(own, wanted, together.choose(own, wanted))
        assert found == pytest.approx(expected[wanted])


def record_fits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """Replace fits by a record of the number of rows and of starting points."""
    fits: list[tuple[int, str]] = []

    def fit(problem: Any, source: str, seeds: range) -> Fitted:
        assert list(seeds) == [0]
        assert problem.parameters is PARAMETERS
        count = len(problem.us)
        fits.append((count, source))
        return Fitted(
            values(PARAMETERS, launch=float(count), prologue=count / 2, dram=count / 100),
            *((), (), ((1.0, 0.25),), count, source),
        )

    monkeypatch.setattr(unseen.fitting, "fit", fit)
    return fits


@pytest.mark.parametrize(
    ("target", "donors", "counts", "software"),
    [
        ("h200", ("h100-80gb",), (6,), 6),  # the only donor, of the same architecture
        ("a100-80gb", ("h100-80gb", "l40s"), (11,), 11),  # no donor of the same architecture
        ("gb200", ("l40s", "h100-80gb"), (11,), 11),
        ("h200", ("l40s", "h100-80gb"), (11, 6), 6),
        ("h200", ("a100-80gb", "h100-80gb", "l40s"), (14, 6), 6),
        ("h100-80gb", ("l40s", "h100-80gb", "h200"), (13, 6), 6),  # two of the same
    ],
)
def test_software_times_come_from_the_first_donor_of_the_architecture(
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    donors: tuple[str, ...],
    counts: tuple[int, ...],
    software: int,
) -> None:
    fits = record_fits(monkeypatch)
    monkeypatch.setitem(unseen.DONORS, target, donors)
    found = unseen.fit(target)
    assert tuple(count for count, _ in fits) == counts
    assert fits[0][1] == f"aiconfigurator-core 0.12.0, {' + '.join(donors)}"
    assert (found.values["launch"], found.values["prologue"]) == (software, software / 2)
    assert (found.values["dram"], found.rows) == (counts[0] / 100, counts[0])


def test_donors_and_goals_are_those_that_were_written_down() -> None:
    assert unseen.DONORS == {
        "h200": ("h100-80gb",),
        "b200": ("h100-80gb", "h200", "rtx-pro-6000"),
        "a100-80gb": ("h100-80gb", "l40s"),
        "l40s": ("rtx-pro-6000", "a100-80gb"),
    }
    assert unseen.GOALS == {"h200": 4.8, "b200": 9.5, "a100-80gb": 12.0, "l40s": 13.0}
    assert unseen.key("h200") == "h200/bf16/vllm"


@pytest.mark.parametrize(
    ("most", "places"),
    [(None, range(7)), (7, range(7)), (8, range(7)), (6, (0, 1, 2, 3, 4, 6)), (2, (0, 6))],
)
def test_all_rows_are_compared_or_some_from_first_to_last(
    monkeypatch: pytest.MonkeyPatch, most: int | None, places: Any
) -> None:
    """A row is compared even if the same shape was fitted on another board."""
    record_fits(monkeypatch)
    fitted = unseen.fit("h200")
    at = unseen.at_largest_clock(BOARDS["h100-80gb"])
    chosen = shapes("h100-80gb", list(places))
    times = Model(at, dtype_named("bf16"), fitted.values, GENERAL).times(chosen)
    measured = np.array(SIZES["h100-80gb"], float)[list(places)]
    expected = Accuracy.of(measured, times, np.full(len(measured), 0.25))
    assert unseen.validate("h100-80gb", fitted, most) == expected
