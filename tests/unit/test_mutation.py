"""The mutation tool: what it reads out of pytest's output, and what it may not call a kill."""

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from vgpu_sim.native import build, catalogue

_TOOL = Path(__file__).parents[1] / "mutation"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """Its modules, which import each other by their bare names."""
    monkeypatch.syspath_prepend(str(_TOOL))
    import c_edits
    import edits
    import object_compiler
    import outcomes
    import reach
    import recording
    import rooms
    import trial

    return {
        "c_edits": c_edits,
        "edits": edits,
        "object_compiler": object_compiler,
        "outcomes": outcomes,
        "reach": reach,
        "recording": recording,
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
def test_a_kill_by_the_clock_is_distinguished_from_a_kill(
    tool: dict[str, ModuleType], tmp_path: Path, body: str, verdict: str
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_toy.py").write_text(f"def test_toy():\n    {body}\n")
    timeout_s = 1 if body.startswith("while") else 60  # a busy machine starts programs slowly
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-ra", f"--timeout={timeout_s}"]
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
_PRODUCT = (
    "boards",
    "console",
    "drawing",
    "device_plugin",
    "hca",
    "kubelet_conformance",
    "mig",
    "operator",
    "rdma",
    "vgpu_sim",
)
_OF_NO_ROOM = {
    "vgpu_sim/config.py": "the environment's names",
    "vgpu_sim/machine.py": "what this machine is",
    "vgpu_sim/frameworks.py": "the table that programs of users read",
    "vgpu_sim/native/build.py": "every trial builds by it",
    "vgpu_sim/native/freshness.py": "every trial builds by it",
    "vgpu_sim/native/catalogue.py": "every trial builds these parts",
    "vgpu_sim/native/generate.py": "and this writes what it compiles",
    "vgpu_sim/native/platform_tag.py": "it names wheels, which no trial builds",
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


_TOY = """\
#include <stdlib.h>
int answer(int);
int answer(int value) {
  if (value < 3) {
    abort();
  }
  int found = other();
  return found;
}
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> catalogue.Part:
    """One library of two sources, of which the second returns 1."""
    (tmp_path / "engine").mkdir()
    (tmp_path / "include").mkdir()
    exported = '__attribute__((visibility("default"))) '
    text = _TOY.replace("int answer(int);", f"int other(void);\n{exported}int answer(int);")
    (tmp_path / "engine/answer.c").write_text(text)
    (tmp_path / "engine/other.c").write_text("int other(void);\nint other(void) { return 1; }\n")
    part = catalogue.Part(tmp_path / "engine", "libtoy.so", include=tmp_path / "include")
    monkeypatch.setattr(catalogue, "ROOT", tmp_path)
    monkeypatch.setattr(catalogue, "parts", lambda generated: (part,))
    (tmp_path / "lib").mkdir()
    return part


def test_a_mutated_file_alone_is_compiled_again(
    tool: dict[str, ModuleType], toy: catalogue.Part, tmp_path: Path
) -> None:
    library = build.build(toy, tmp_path / "lib")
    other, kept = toy.folder / "other.c", tmp_path / "objects"
    again = tool["object_compiler"].compile_again
    objects = []
    for value in (2, 3):
        other.write_text(f"int other(void);\nint other(void) {{ return {value}; }}\n")
        assert again(other, kept, tmp_path / "lib", (toy,))
        copy = tmp_path / f"{value}.so"  # the loader knows a library by its file
        copy.write_bytes(library.read_bytes())
        assert ctypes.CDLL(str(copy)).answer(7) == value
        objects.append((kept / "libtoy.so/0.o").stat().st_mtime_ns)
        build.build(toy, tmp_path / "lib")  # as a test does: it is up to date
        assert library.read_bytes() == copy.read_bytes()
    assert objects[0] == objects[1]
    before = library.read_bytes()
    other.write_text("int other(void) { return }\n")
    assert not again(other, kept, tmp_path / "lib", (toy,))
    assert library.read_bytes() == before


def test_what_runs_is_noted_even_where_the_process_is_killed(
    tool: dict[str, ModuleType],
    toy: catalogue.Part,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recording = tool["recording"]
    builder = tmp_path / "vgpu_sim/native/build.py"
    builder.parent.mkdir(parents=True)
    shutil.copy(_ROOT / "vgpu_sim/native/build.py", builder)
    monkeypatch.setattr(recording, "_NOTING", ("engine",))
    recording.prepare(tmp_path, tmp_path / "notes")
    written = builder.read_text()
    assert all(f'"{flag}"' in written for flag in recording.NOTED)
    monkeypatch.setattr(build, "_FLAGS", (*build._FLAGS, *recording.NOTED))
    library = build.build(toy, tmp_path / "lib")
    libraries = recording.Libraries(tmp_path / "lib")
    answer = "engine/answer.c"
    assert {5, 6, 8} <= libraries.beginnings()[answer]
    for value, ran in ((7, {5, 8}), (1, {5, 6})):
        program = f"import ctypes; ctypes.CDLL({str(library)!r}).answer({value})"
        subprocess.run([sys.executable, "-c", program], check=False)
        found = libraries.take(tmp_path / "notes")
        assert found[answer] & {5, 6, 8} == ran
        assert ("engine/other.c" in found) == (8 in ran)
    assert libraries.take(tmp_path / "notes") == {}


def test_what_is_not_known_to_reach_a_line_is_not_left_out(
    tool: dict[str, ModuleType], tmp_path: Path
) -> None:
    found, path = tool["reach"].Reach(), Path("a.c")
    found.begin({"a.c": "text"}, {"a.c": {2, 5, 9}})
    found.add("slow.py", 9.0, {"a.c": {2, 5}})
    found.add("fast.py", 0.5, {"a.c": {2}})
    found.write(tmp_path / "out/reach.json")
    found = tool["reach"].Reach.read(tmp_path / "out/reach.json")
    assert found.seconds == {"slow.py": 9.0, "fast.py": 0.5}
    assert found.reaching(path, "text", 1) is None  # no code begins before it
    assert found.reaching(path, "text", 4) == {"slow.py", "fast.py"}
    assert found.reaching(path, "text", 5) == found.reaching(path, "text", 8) == {"slow.py"}
    assert found.reaching(path, "text", 9) == set()
    assert found.reaching(path, "other text", 5) is None
    assert found.knows("slow.py")
    assert not found.knows("new.py")
    found.add("slow.py", 3.0, {"a.c": {9}})
    assert found.reaching(path, "text", 5) == set()
    assert found.reaching(path, "text", 9) == {"slow.py"}
    found.begin({"a.c": "other text"}, {"a.c": {3}})
    assert found.reaching(path, "other text", 3) == set()
    assert tool["reach"].Reach.read(tmp_path / "nothing").reaching(path, "text", 5) is None
