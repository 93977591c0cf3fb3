"""Drawings as text: they fit the terminal, and have colours only where these are permitted."""

import io
import math

import pytest

from drawing import terminal
from drawing.causes import Stack
from drawing.listing import Row, listing_lines
from drawing.network import Device, Network, network_lines
from drawing.slices import BoxState, draw_places
from drawing.terminal import Span, draw_bar, draw_picture, format_line
from drawing.terminal_causes import draw_stacks
from drawing.verdict import Path, Stage, path_lines
from mig import geometry


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colours_need_a_terminal_and_the_users_permission(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], coloured: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert terminal.is_coloured(Terminal()) is coloured
    assert terminal.is_coloured(io.StringIO()) is False


def test_no_escape_sequence_of_a_name_reaches_the_terminal() -> None:
    line = (Span("\x1b[2J\u202e", "red"), Span("\n"))
    assert "\x1b[2J" not in format_line(line, coloured=True)
    assert "\x1b" not in format_line(line, coloured=False)
    assert format_line((Span("a", "red", bold=True),), coloured=True) == "\x1b[31;1ma\x1b[0m"


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_stacks_and_listings_fit_the_columns(columns: int) -> None:
    stacks = [Stack(f"board {n}", 3.0 * n, {"one": 2.0 * n, "two": 1.0 * n}) for n in (1, 2)]
    lines = [format_line(one, coloured=False) for one in draw_stacks(stacks, columns)]
    assert all(len(line) <= max(columns, 43) for line in lines)
    rows = [Row("f.cu:1", 7, "mad " * 30, "MAD " * 30, 3.0)]
    (line,) = (format_line(one, coloured=False) for one in listing_lines(rows, columns))
    assert len(line) <= max(columns, 40)
    with_text = [Row("f.cu:1", 7, "mad", "MAD", 3.0, "y = " * 90)]
    above, _ = (format_line(one, coloured=False) for one in listing_lines(with_text, columns))
    assert above.startswith("f.cu:1  y")
    assert len(above) <= columns


def test_letters_of_a_stack_have_the_shares_of_its_causes() -> None:
    first, second, *_ = (
        format_line(one, coloured=False)
        for one in draw_stacks(
            [Stack("a", 4, {"x": 1, "y": 3}), Stack("b", 2, {"y": 2})], 14 + 14 + 2 + 40
        )
    )
    assert (first.count("a") - 1, first.count("b")) == (10, 30)  # one "a" is the name
    assert second.count("b") - 1 == 20


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, ""),
        (-1, ""),
        (8, "█"),
        (4, "▌"),
        (16, "██"),
        (99, "██"),
        (math.inf, "██"),
        (math.nan, ""),
    ],
)
def test_bars_have_eighths_of_characters(value: float, text: str) -> None:
    assert draw_bar(value, 16, 2) == text


@pytest.mark.parametrize("size", [8, 20, 80])
def test_rows_of_a_gpu_are_as_wide_as_requested(size: int) -> None:
    board = geometry.board("h100-80gb")
    states = {
        board.instance("3g.40gb", 4): BoxState.HELD,
        board.instance("1g.10gb", 0): BoxState.FREE,
    }
    for row in draw_picture(draw_places(board, states), size):
        assert sum(len(span.text) for span in row) == size


def test_a_denied_path_names_the_check_that_denies() -> None:
    path = Path("Write", "a", "b", (Stage("egress", True), Stage("ingress", False)))
    (line,) = (format_line(one, coloured=False) for one in path_lines(path, 80))
    assert line == "a ── egress passes ─✕ ingress denies ─✕ b"


@pytest.mark.parametrize("columns", [20, 40])
def test_a_network_fits_a_narrow_terminal(columns: int) -> None:
    device = Device("GPU 0", "gpu", 0, 0, "0000:17:00.0")
    name = "dgx-h100, NVIDIA H100 80GB HBM3, PCIe 64 GB/s one way"
    network = Network(name, (device,), links=18, switched=True)
    lines = [format_line(one, coloured=False) for one in network_lines(network, columns)]
    assert " ".join(lines).startswith(name)
    assert max(map(len, lines[:-1])) <= columns  # the last line is a name and an address


def test_long_names_of_a_path_are_wrapped() -> None:
    path = Path("Write", "n" * 50, "b", (Stage("egress", True),))
    lines = [format_line(one, coloured=False) for one in path_lines(path, 20)]
    assert lines == ["n" * 20, "n" * 20, "n" * 10, " ── egress passes", " ─▶ b"]
