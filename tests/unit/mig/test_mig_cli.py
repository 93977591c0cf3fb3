"""``tessera mig`` beyond its golden output: exact JSON, exit codes and shell completion."""

import json

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from mig import geometry, spec
from mig.geometry import BOARDS
from vgpu_sim.cli.main import main


def run(*arguments):
    return CliRunner().invoke(main, ["mig", *arguments], prog_name="tessera")


def complete(*arguments):
    *done, last = arguments
    shell = ShellComplete(main, {}, "tessera", "_TESSERA_COMPLETE")
    return [item.value for item in shell.get_completions(["mig", *done], last)]


def test_states_json_is_exact():
    assert run("states", "--board", "b200", "--json").stdout == (
        '{"states": 723, "maximal": 78, "multisets": 38, '
        '"classic": {"states": 298, "maximal": 19, "multisets": 14}}\n'
    )


@pytest.mark.parametrize("verb", ["profiles", "placements", "states"])
@pytest.mark.parametrize("key", BOARDS)
def test_every_board_as_table_and_as_json(verb, key):
    assert run(verb, "--board", key).exit_code == 0
    result = run(verb, "--board", key, "--json")
    assert result.exit_code == 0
    json.loads(result.stdout)


@pytest.mark.parametrize("key", BOARDS)
def test_profiles_json_holds_the_table(key):
    listed = json.loads(run("profiles", "--board", key, "--json").stdout)
    board = geometry.board(key)
    assert [row["name"] for row in listed] == [profile.name for profile in board.profiles]
    for row, profile in zip(listed, board.profiles, strict=True):
        assert row["memory_bytes"] == profile.memory_bytes
        assert row["id"] == profile.driver_id
        assert row["source"] == profile.provenance.value
        assert tuple(row["engines"].values()) == profile.engines.counts()


def test_a_plan_can_be_fed_back_as_existing_instances():
    first = run("plan", "--board", "h200", "--want", "3g.71gb,1g.18gb", "--json")
    layout = ",".join(json.loads(first.stdout)["layout"])
    second = run("plan", "--board", "h200", "--have", layout, "--want", "1g.18gb", "--json")
    assert second.exit_code == 0
    assert spec.parse_instances(geometry.board("h200"), layout)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--want", "7g.80gb"], 0),
        (["--have", "1g.10gb@0", "--want", "7g.80gb"], 1),
        (["--want", "9g.80gb"], 2),
        (["--want", ""], 2),
        (["--have", "nonsense", "--want", "1g.10gb"], 2),
        ([], 2),
    ],
)
def test_exit_codes_of_plan(arguments, code):
    assert run("plan", "--board", "h100-80gb", *arguments).exit_code == code
    assert run("plan", "--board", "h100-80gb", *arguments, "--json").exit_code == code


def test_a_refusal_in_json_is_on_stdout():
    result = run(
        "plan", "--board", "h100-80gb", "--have", "1g.10gb@2", "--want", "4g.40gb", "--json"
    )
    refusal = json.loads(result.stdout)
    assert result.stderr == ""
    assert refusal["moves"] == [{"from": "1g.10gb@2", "to": "1g.10gb@6"}]


class TestCompletion:
    def test_boards(self):
        assert complete("states", "--board", "") == list(BOARDS)
        assert complete("plan", "--board", "h1") == ["h100-80gb", "h100-nvl"]

    def test_profiles_of_the_board(self):
        assert complete("plan", "--board", "a30", "--want", "") == [
            profile.name for profile in geometry.board("a30").profiles
        ]

    def test_the_last_item_of_a_list(self):
        assert complete("plan", "--board", "a30", "--want", "4g.24gb,2g") == [
            "4g.24gb,2g.12gb",
            "4g.24gb,2g.12gb+me",
        ]

    def test_placed_instances(self):
        assert complete("plan", "--board", "a30", "--have", "2g.12gb@") == [
            "2g.12gb@0",
            "2g.12gb@2",
        ]

    def test_without_or_with_a_wrong_board_all_boards_profiles_are_offered(self):
        for board in ([], ["--board", "h900"]):
            assert complete("plan", *board, "--want", "7g.1") == ["7g.141gb", "7g.180gb"]
