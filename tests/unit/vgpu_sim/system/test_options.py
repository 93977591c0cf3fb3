"""A dataclass's fields as options of a command: order, types, conversion, absent options."""

from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from vgpu_sim.options import Given, command_line, option


@dataclass(frozen=True, slots=True)
class Shelf:
    """A shelf's position."""

    room: Path = option(option_default=Path("hall"), help="The room.")
    width_mm: int = option("--width", option_default=300, show_default=True, help="In mm.")
    is_open: bool = option("--open", help="Without a door.")


@dataclass(frozen=True, slots=True)
class Books:
    """A shelf's books."""

    titles: tuple[str, ...] = option(
        type=str, convert=lambda text: tuple(text.split(",")), help="Names, with commas."
    )
    height_mm: float | None = option("--height", default=None, after="--room", help="In mm.")


def _run(*words: str) -> tuple[Shelf, Books | None, list[str]]:
    made: list[tuple[Shelf, Books | None, list[str]]] = []

    @click.command()
    @command_line(Shelf, Books)
    def main(given: Given) -> None:
        lacking = given.missing_options(Books)
        made.append((given.make(Shelf), None if lacking else given.make(Books), lacking))

    done = CliRunner().invoke(main, words)
    if done.exit_code != 0:
        raise click.UsageError(done.output)
    if not made:
        raise click.ClickException(done.output)  # --help
    return made[0]


def test_without_words_the_defaults_hold_and_what_has_none_is_lacking() -> None:
    assert _run() == (Shelf(Path("hall"), 300, False), None, ["--titles"])


def test_words_are_read_by_the_types_of_the_fields() -> None:
    shelf, books, lacking = _run(
        *("--room=attic", "--width", "5", "--open", "--titles=a,b", "--height=2.5")
    )
    assert shelf == Shelf(Path("attic"), 5, True)
    assert (books, lacking) == (Books(("a", "b"), 2.5), [])


def test_a_word_of_another_type_is_refused() -> None:
    with pytest.raises(click.UsageError, match="'--width': 'wide' is not a valid integer"):
        _run("--width=wide")


def test_help_lists_options_in_the_order_of_fields_unless_one_names_its_predecessor() -> None:
    with pytest.raises(click.ClickException) as found:
        _run("--help")
    lines = found.value.message.split("Options:")[1].splitlines()
    names = [line.split()[0] for line in lines if line.strip().startswith("--")]
    assert names == ["--room", "--height", "--width", "--open", "--titles", "--help"]
    assert "In mm.  [default: 300]" in found.value.message


def test_a_field_that_comes_from_elsewhere_is_not_taken_from_the_command_line() -> None:
    given = Given({"Shelf_room": Path("x"), "Shelf_width_mm": 1, "Shelf_is_open": False})
    assert given.make(Shelf, width_mm=9) == Shelf(Path("x"), 9, False)
