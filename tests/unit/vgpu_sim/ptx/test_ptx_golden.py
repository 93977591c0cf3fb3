"""``tessera ptx`` on files: the exact output and messages for each file.

``expected`` files contain the exit status, then the output without the copy of the source. After an
intended change, update them with TESSERA_GOLDEN=write and review the difference.
"""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from vgpu_sim.cli.ptx.commands import command

ROOT = Path(__file__).parents[4]
GOLDEN = ROOT / "tests" / "golden" / "ptx"
SOURCES = sorted([*GOLDEN.glob("*.ptx"), *(ROOT / "examples").glob("*.ptx")])


def _compile(source: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(source.parent)  # diagnostics contain the file's name as given
    result = CliRunner().invoke(command, ["compile", source.name, "--emit", "isa"])
    lines = result.output.splitlines(keepends=True)
    shown = [line for line in lines if not line.startswith(".source ")]
    return f"exit {result.exit_code}\n{''.join(shown)}"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_golden(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = _compile(source, monkeypatch)
    expected = GOLDEN / f"{source.stem}.expected"
    if os.environ.get("TESSERA_GOLDEN") == "write":
        expected.write_text(found)
    assert found == expected.read_text()


def test_no_expectation_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.expected")} == {path.stem for path in SOURCES}
