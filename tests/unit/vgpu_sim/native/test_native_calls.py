"""Calls between the C files of a library run one way: no file calls back, however far round."""

import subprocess

import pytest
from object_calls import callers, calls_between, circles, compile_objects

from vgpu_sim.native import build


@pytest.fixture(scope="module", params=build.parts(), ids=lambda part: part.library)
def calls(request, tmp_path_factory) -> dict[str, set[str]]:
    return calls_between(compile_objects(request.param, tmp_path_factory.mktemp("objects")))


def test_no_calls_run_in_a_circle(calls):
    assert circles(calls) == []


def test_the_calls_are_seen(calls):
    """A graph without calls has no circles either."""
    called = callers(calls)
    known = [
        ("client/log.c", "client/unsupported.c"),
        ("libcuda/doorbell.c", "libcuda/ring.c"),
        ("worker/execute.c", "worker/scheduler.c"),
        ("hca/memory.c", "hca/responder.c"),
        ("nvidia_smi/mig_find.c", "nvidia_smi/mig_list.c"),
    ]
    assert any(caller in called.get(file, ()) for file, caller in known)
    assert sum(map(len, calls.values())) > 10


def test_what_all_client_libraries_share_calls_none_of_them(calls):
    for file, others in calls.items():
        if file.startswith("client/"):
            assert {other.split("/")[0] for other in others} <= {"client"}, file


def test_a_circle_is_found(tmp_path):
    texts = {
        "a": "void b(void); void a(void) { b(); }",
        "b": "void c(void); void b(void) { c(); }",
        "c": "void a(void); void c(void) { a(); }",
        "d": "void a(void); void d(void) { a(); }",
    }
    objects = {}
    for name, text in texts.items():
        (tmp_path / f"{name}.c").write_text(text)
        objects[name] = tmp_path / f"{name}.o"
        command = [build.compiler(), "-fPIC", "-c", str(tmp_path / f"{name}.c")]
        subprocess.run([*command, "-o", str(objects[name])], check=True)
    assert circles(calls_between(objects)) == [["a", "b", "c"]]
