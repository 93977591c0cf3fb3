"""The tests that ``make test ROOM=name`` runs: they exist, and every room has some."""

import subprocess
import sys
from pathlib import Path, PurePath

import pytest

from support.watches import rooms

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"


def test_every_folder_at_the_top_is_a_room() -> None:
    command = ["git", "ls-tree", "-d", "--name-only", "HEAD"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(listing.stdout.split()) - {".ci"} <= rooms.TESTS.keys()


def test_every_package_below_vgpu_sim_is_a_room() -> None:
    packages = {f"vgpu_sim/{path.parent.name}" for path in ROOT.glob("vgpu_sim/*/__init__.py")}
    assert packages <= rooms.TESTS.keys()


def test_the_name_of_a_room_is_that_of_one_folder() -> None:
    assert len(rooms.ROOMS) == len(rooms.TESTS)


@pytest.mark.parametrize("name", rooms.ROOMS)
def test_the_folder_and_the_tests_of_a_room_exist(name: str) -> None:
    assert (ROOT / rooms.ROOMS[name]).is_dir()
    paths = rooms.tests_of([name])
    assert paths
    for path in paths:
        files = [ROOT / path] if path.endswith(".py") else list((ROOT / path).rglob("test_*.py"))
        assert files, path
        assert all(file.is_file() for file in files), path


def test_every_test_that_needs_no_cluster_belongs_to_a_room() -> None:
    rows = [PurePath(path) for row in rooms.TESTS.values() for path in row]
    files = {file.relative_to(ROOT) for file in TESTS.rglob("test_*.py")}
    assert files
    assert [
        str(file)
        for file in sorted(files)
        if not file.is_relative_to("tests/e2e") and not {file, *file.parents} & set(rows)
    ] == []


def test_a_room_has_the_tests_of_the_rooms_below_it() -> None:
    assert rooms.tests_of(["exec"]) == rooms.tests_of(["interp", "jit"])
    assert set(rooms.TESTS["plugins/torch"]) < set(rooms.tests_of(["plugins"]))


def test_a_file_in_a_chosen_folder_is_not_named_again() -> None:
    assert rooms.tests_of(["kubelet_conformance", "device_plugin"]) == [
        "tests/integration/agent",
        "tests/unit/device_plugin",
        "tests/unit/kubelet_conformance",
    ]


def test_an_unknown_room_is_answered_with_the_list() -> None:
    command = [sys.executable, "-m", rooms.__name__, "console", "consle"]
    process = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert process.stdout == ""
    message, *lines = process.stderr.splitlines()
    assert message == "error: no room 'consle'; ROOM is one of:"
    assert [line.split() for line in lines] == [
        [name, rooms.ROOMS[name]] for name in sorted(rooms.ROOMS)
    ]


@pytest.mark.parametrize("verb", ["test", "test-quick"])
def test_make_checks_the_room_before_it_builds_the_environment(verb: str) -> None:
    command = ["make", verb, "ROOM=consle", f"PYTHON={sys.executable}"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert "no room 'consle'" in process.stderr
    assert "Creating .venv" not in process.stdout
