"""Every wall of the threat model names tests that exist: a renamed test must not leave it bare."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")


def walls() -> list[list[str]]:
    section = TEXT.split("## Walls", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def named(cell: str) -> list[tuple[str, str]]:
    """Return (file, test or "") of a cell; ``::test`` alone is of the file before it."""
    found, file = [], ""
    for name in re.findall(r"`([^`]+)`", cell):
        path, _, test = name.partition("::")
        file = path or file
        found.append((file, test))
    return found


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_there_are_walls_and_each_names_a_test() -> None:
    assert len(walls()) >= 20
    for attack, wall, tests in walls():
        assert attack
        assert wall
        assert named(tests), f"no test holds: {attack}"


@pytest.mark.parametrize(
    ("file", "test"), sorted({name for _, _, tests in walls() for name in named(tests)})
)
def test_the_named_test_exists(file: str, test: str) -> None:
    path = ROOT / file
    assert path.is_file(), f"no file {file}"
    assert file.startswith("tests/")
    names = functions(path)
    assert test in names if test else any(name.startswith("test_") for name in names)
