"""References between the C files of a library have no cycles."""

import subprocess
from pathlib import Path

import pytest

from support.execution.c_dependencies import Dependencies, dependencies_of
from support.kept import native_parts
from support.kept.store import Store
from support.proofs.object_calls import callers, calls_between, circles, name_of, uses_between
from vgpu_sim.native import build, catalogue

# A part of cuDNN contains nothing, nor does the library that is preloaded.
EMPTY = ("cudnn_part", "preload")
PARTS = [part for part in catalogue.parts() if part.folder.name not in EMPTY]


@pytest.fixture(scope="module")
def libraries() -> tuple[Path, ...]:
    return native_parts.build_once()


@pytest.fixture(scope="module", params=PARTS, ids=lambda part: part.library)
def dependencies(request, libraries) -> Dependencies:
    return dependencies_of(request.param)


@pytest.fixture(scope="module")
def calls(dependencies) -> dict[str, set[str]]:
    return dependencies.calls


def test_no_uses_run_in_a_circle(dependencies):
    """A use is a call or an access to a variable."""
    assert circles(dependencies.uses) == []


def test_no_calls_between_rooms_run_in_a_circle(calls):
    """The folders of a library's sources form layers: each calls only lower ones."""
    rooms: dict[str, set[str]] = {}
    for file, others in calls.items():
        room = str(Path(file).parent)
        called = {str(Path(other).parent) for other in others} - {room}
        rooms.setdefault(room, set()).update(called)
    assert circles(rooms) == []


def test_the_calls_are_seen(calls):
    """The tests above would also pass if no calls were found."""
    called = callers(calls)
    exchange = catalogue.CLIENTS / "libcuda" / "exchange"
    known = [
        (catalogue.COMMON / "log.c", catalogue.COMMON / "unsupported.c"),
        (exchange / "doorbell.c", exchange / "ring.c"),
        (catalogue.RUNTIME / "requests/execute.c", catalogue.RUNTIME / "requests/scheduler.c"),
        (catalogue.ENGINE / "requests/memory.c", catalogue.ENGINE / "requests/responder.c"),
        (catalogue.CLIENTS / "nvidia_smi/mig/find.c", catalogue.CLIENTS / "nvidia_smi/mig/list.c"),
        (catalogue.CLIENTS / "ptxas/report.c", catalogue.CLIENTS / "ptxas/options.c"),
        (catalogue.CLIENTS / "libnvjitlink/report.c", catalogue.CLIENTS / "libnvjitlink/inputs.c"),
        (catalogue.CLIENTS / "libnvrtc/library.c", catalogue.CLIENTS / "libnvrtc/api.c"),
    ]
    assert any(name_of(caller) in called.get(name_of(file), ()) for file, caller in known)
    assert sum(map(len, calls.values())) > 1


def test_shared_client_sources_call_no_library(calls):
    common = catalogue.COMMON.relative_to(catalogue.ROOT)
    for file, others in calls.items():
        if Path(file).parent == common:
            assert {Path(other).parent for other in others} <= {common}, file


@pytest.mark.usefixtures("libraries")
def test_kept_dependencies_are_those_that_were_read(tmp_path):
    (part,) = (one for one in PARTS if one.library == "libnvJitLink.so.13")
    first = dependencies_of(part, Store("dependencies", tmp_path))
    assert any(first.calls.values())
    assert list(tmp_path.rglob("*"))
    assert dependencies_of(part, Store("dependencies", tmp_path)) == first
    assert dependencies_of(part, Store("dependencies", None)) == first


def compile_texts(folder: Path, texts: dict[str, str]) -> dict[str, Path]:
    objects = {}
    for name, text in texts.items():
        (folder / f"{name}.c").write_text(text)
        objects[name] = folder / f"{name}.o"
        command = [build.compiler(), "-fPIC", "-c", str(folder / f"{name}.c")]
        subprocess.run([*command, "-o", str(objects[name])], check=True)
    return objects


def test_a_circle_is_found(tmp_path):
    texts = {
        "a": "void b(void); void a(void) { b(); }",
        "b": "void c(void); void b(void) { c(); }",
        "c": "void a(void); void c(void) { a(); }",
        "d": "void a(void); void d(void) { a(); }",
    }
    assert circles(calls_between(compile_texts(tmp_path, texts))) == [["a", "b", "c"]]


@pytest.mark.parametrize("storage", ["", "__thread "])
def test_a_circle_through_a_variable_is_found_and_a_table_of_functions_is_none(tmp_path, storage):
    texts = {
        "a": f"extern {storage}int state; void a(void) {{ state++; }}",
        "b": f"void a(void); {storage}int state; void b(void) {{ a(); }}",
        "c": "void d(void); void (*table[])(void) = {d};",
        "d": "extern void (*table[])(void); void d(void) { table[0](); }",
    }
    objects = compile_texts(tmp_path, texts)
    assert circles(calls_between(objects)) == []
    assert circles(uses_between(objects)) == [["a", "b"]]
