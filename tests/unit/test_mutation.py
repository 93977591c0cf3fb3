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
    import c_edits
    import edits
    import outcomes
    import rooms
    import trial

    return {
        "c_edits": c_edits,
        "edits": edits,
        "outcomes": outcomes,
        "rooms": rooms,
        "trial": trial,
    }


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


_ROOT = _TOOL.parents[1]
_PRODUCT = ("device_plugin", "kubelet_conformance", "mig", "operator", "rdma", "vgpu_sim")
_OF_NO_ROOM = {
    "vgpu_sim/config.py": "the environment's names",
    "vgpu_sim/machine.py": "what this machine is",
    "vgpu_sim/native/build.py": "every trial builds by it",
}


def _matched(patterns: tuple[str, ...]) -> set[str]:
    return {str(path.relative_to(_ROOT)) for one in patterns for path in _ROOT.glob(one)}


def test_every_source_file_is_of_exactly_one_room(tool: dict[str, ModuleType]) -> None:
    """A folder that is new must be placed; what no test could notice has no room."""
    found: dict[str, list[str]] = {}
    for room in tool["rooms"].ROOMS:
        for path in _matched(room.files):
            found.setdefault(path, []).append(room.name)
    shared = {path: names for path, names in found.items() if len(names) > 1}
    assert not shared
    sources = _matched(tuple(f"{part}/**/*.{kind}" for part in _PRODUCT for kind in ("py", "c")))
    left_out = tuple(tool["rooms"].NOT_MUTATED)
    missing = {
        path
        for path in sources - found.keys()
        if not path.endswith("__init__.py") and not any(part in f"/{path}" for part in left_out)
    }
    assert missing == set(_OF_NO_ROOM)


def test_every_stage_of_a_room_has_tests_and_their_sources_are_copied(
    tool: dict[str, ModuleType],
) -> None:
    copied = set(tool["trial"]._COPIED)
    for room in tool["rooms"].ROOMS:
        for pattern in (one for stage in room.stages for one in stage):
            assert _matched((pattern,)), f"{room.name}: {pattern}"
        assert {path.partition("/")[0] for path in room.files} <= copied
        assert len({pattern for stage in room.stages for pattern in stage}) == sum(
            len(stage) for stage in room.stages
        ), f"{room.name}: a test stands in two stages"


@pytest.mark.parametrize("number", ["7", "7u", "0x1Ful", "10ULL"])
def test_a_number_of_c_is_mutated_with_its_suffix(tool: dict[str, ModuleType], number: str) -> None:
    text = f"int f(void) {{\n  return {number} << 1.5f;\n}}\n"
    found = [one for one in tool["c_edits"].edits_of(Path("a.c"), text) if one.kind == "off by one"]
    (edit,) = found
    assert edit.apply(text) == text.replace(number, f"({number} + 1)")
