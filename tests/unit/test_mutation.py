"""The mutation tool: what it reads out of pytest's output, and what it may not call a kill."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

_TOOL = Path(__file__).parents[1] / "mutation"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """Its modules, which import each other by their bare names."""
    monkeypatch.syspath_prepend(str(_TOOL))
    import edits
    import outcomes

    return {"edits": edits, "outcomes": outcomes}


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ("assert 1 == 2", "killed"),
        ("while True: pass", "timed out"),
        ("import subprocess; subprocess.run(['sleep', '9'], timeout=0.01)", "timed out"),
        (
            "import subprocess; assert subprocess.call('kill -ALRM $$', shell=True) == 0",
            "timed out",
        ),
        ("import nothing_of_this_name", "killed"),
        ("import os; os.abort()", "killed"),
    ],
)
def test_a_kill_by_the_clock_is_told_from_a_kill(
    tool: dict[str, ModuleType], tmp_path: Path, body: str, verdict: str
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_toy.py").write_text(f"def test_toy():\n    {body}\n")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-ra", "--timeout=1"]
    done = subprocess.run(
        [*command, "--timeout-method=thread", "-p", "no:cacheprovider", "tests/test_toy.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    failure = tool["outcomes"].failure_in(done.stdout + done.stderr)
    assert failure.test == "tests/test_toy.py::test_toy"
    assert tool["outcomes"].verdict_of(failure) == verdict


@pytest.mark.parametrize(("name", "text"), [("a.c", "int a;\n"), ("a.py", "a = 1\n")])
def test_a_neutral_edit_adds_a_comment(tool: dict[str, ModuleType], name: str, text: str) -> None:
    changed = tool["edits"].neutral(Path(name), text).apply(text)
    assert changed.startswith(text)
    assert changed.removeprefix(text).startswith(("/* ", "# "))
