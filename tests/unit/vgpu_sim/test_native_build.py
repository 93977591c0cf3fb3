"""The compile step: incremental, atomic, clear when it cannot."""

import subprocess
import sys

import pytest

from vgpu_sim.native import build


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """One part with one source, in a tree of its own."""
    native = tmp_path / "native"
    (native / "toy").mkdir(parents=True)
    (native / "include").mkdir()
    (native / "include" / "toy.h").write_text("#define ANSWER 42\n")
    (native / "toy" / "toy.c").write_text('#include "toy.h"\nint answer(void) { return ANSWER; }\n')
    part = build.Part(native / "toy", "libtoy.so.1", ("libtoy.so",))
    monkeypatch.setattr(build, "NATIVE", native)
    monkeypatch.setattr(build, "INCLUDE", native / "include")
    monkeypatch.setattr(build, "_parts", lambda: (part,))
    return native


def test_unchanged_sources_are_not_compiled_again(sources, tmp_path):
    (library,) = build.build_all(tmp_path / "lib")
    first = library.stat()
    build.build_all(tmp_path / "lib")
    assert library.stat().st_ino == first.st_ino
    assert (tmp_path / "lib" / "libtoy.so").resolve() == library


@pytest.mark.parametrize("changed", ["toy/toy.c", "include/toy.h"])
def test_a_changed_input_replaces_the_library(sources, tmp_path, changed):
    (library,) = build.build_all(tmp_path / "lib")
    with library.open("rb") as mapped:
        old = mapped.read()
        (sources / changed).write_text((sources / changed).read_text() + "\n#define MORE 1\n")
        build.build_all(tmp_path / "lib")
        mapped.seek(0)
        assert mapped.read() == old, "the old file must stay whole for those who mapped it"
        assert library.stat().st_nlink == 1


def test_a_missing_compiler_is_one_clear_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(build.BuildError, match="no C compiler: 'no-such-compiler' is not on PATH"):
        build.build_all(tmp_path / "lib")
    run = subprocess.run(
        [sys.executable, "-m", build.__name__], capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert run.stderr.count("\n") == 1
    assert "install gcc (Debian" in run.stderr


def test_a_refused_source_says_where(sources, tmp_path):
    (sources / "toy" / "toy.c").write_text("int answer(void) { return }\n")
    with pytest.raises(build.BuildError, match=r"toy\.c:1"):
        build.build_all(tmp_path / "lib")
    assert not (tmp_path / "lib" / "libtoy.so.1").exists()


def test_the_platform_tag_is_a_wheel_tag():
    assert build.platform_tag().replace("_", "").isalnum()
    assert build.platform_tag().startswith("linux_")


def test_no_path_of_this_machine_is_left_in_a_library(tmp_path):
    for library in build.build_all(tmp_path):
        content = library.read_bytes()
        assert str(build.NATIVE).encode() not in content
        assert str(tmp_path).encode() not in content
