"""Every defence in the threat model names tests that exist, also after a test was renamed."""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")


def list_defences() -> list[list[str]]:
    """Return the cells of each row below "Defences", without the tables' headers."""
    section = TEXT.split("## Defences", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return [row for row in cells if row != ["attack", "defence", "test"] and row[0].strip("-")]


def list_tests(cell: str) -> list[tuple[str, str]]:
    """Return (file, test or "") for each name; ``::test`` without a file uses the previous one."""
    found, file = [], ""
    for name in re.findall(r"`([^`]+)`", cell):
        path, _, test = name.partition("::")
        file = path or file
        found.append((file, test))
    return found


@functools.cache  # many defences name tests of one file
def list_functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_each_defence_names_a_test() -> None:
    assert len(list_defences()) >= 160
    for attack, defence, tests in list_defences():
        assert attack
        assert defence
        assert list_tests(tests), f"no test shows the defence against: {attack}"


@pytest.mark.parametrize(
    ("file", "test"),
    sorted({name for _, _, tests in list_defences() for name in list_tests(tests)}),
)
def test_each_named_test_exists(file: str, test: str) -> None:
    path = ROOT / file
    assert path.is_file(), f"no file {file}"
    assert file.startswith("tests/")
    names = list_functions(path)
    assert test in names if test else any(name.startswith("test_") for name in names)


def test_a_limit_by_control_groups_names_its_condition() -> None:
    """On nodes with cgroup v2 as systemd mounts it, control groups enforce no limit of slices."""
    condition = "where [control groups enforce limits](#what-is-not-defended)"
    limit = re.compile(
        r"(?:control group|cgroup) (?:limits|is charged)|in the tenant's cgroup"
        r"|weights by multiprocessors"
    )
    limits = [defence for _, defence, _ in list_defences() if limit.search(defence)]
    assert len(limits) >= 4
    assert [defence for defence in limits if condition not in defence] == []
    open_ends = TEXT.split("## What is not defended", 1)[1]
    for reason in ("cgroup v2", "nsdelegate", "IsolationNotEnforced", "limits.md#clusters"):
        assert reason in open_ends
