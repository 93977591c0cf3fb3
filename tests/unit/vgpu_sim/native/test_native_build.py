"""The compile step: it is incremental and atomic, and its errors are clear."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest

from vgpu_sim.native import build, catalogue, freshness


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """One part with one source and a shared header, in a separate tree."""
    native = tmp_path / "native"
    (native / "toy").mkdir(parents=True)
    (native / "include").mkdir()
    (native / "include" / "toy.h").write_text("#define ANSWER 42\n")
    (native / "common").mkdir()
    (native / "common" / "common.h").write_text("enum { MORE = 0 };\n")
    (native / "toy" / "toy.c").write_text(
        '#include "../common/common.h"\n#include "toy.h"\n'
        '__attribute__((visibility("default"))) int answer(void) { return ANSWER + MORE; }\n'
    )
    shared = (native / "common",)
    include = native / "include"
    part = catalogue.Part(
        native / "toy", "libtoy.so.1", ("libtoy.so",), shared=shared, include=include
    )
    monkeypatch.setattr(catalogue, "ROOT", native)
    monkeypatch.setattr(catalogue, "parts", lambda generated: (part,))
    return native


def test_unchanged_sources_are_not_compiled_again(sources, tmp_path):
    (library,) = build.build_all(tmp_path / "lib")
    first = library.stat()
    build.build_all(tmp_path / "lib")
    assert library.stat().st_ino == first.st_ino
    assert (tmp_path / "lib" / "libtoy.so").resolve() == library


def test_the_command_prints_what_it_compiles(sources, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(build, "LIBRARIES", tmp_path / "lib")
    assert build.main([]) == 0
    line, summary = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"compiled libtoy\.so\.1 in \d+\.\d s", line)
    assert summary == f"1 libraries and programs in {tmp_path / 'lib'}: 1 compiled, 0 up to date"
    assert build.main([]) == 0
    (summary,) = capsys.readouterr().out.splitlines()
    assert summary.endswith(": 0 compiled, 1 up to date")


def answers(library) -> int:
    """Return the result of the library's function, called in a process that then ends."""
    ask = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).answer())"
    command = [sys.executable, "-c", ask, str(library)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize(
    ("changed", "old", "new"),
    [
        ("toy/toy.c", "return ANSWER", "return 1 + ANSWER"),
        ("include/toy.h", "42", "43"),
        ("common/common.h", "0", "1"),
    ],
)
def test_a_changed_input_replaces_the_library(sources, tmp_path, changed, old, new):
    (library,) = build.build_all(tmp_path / "lib")
    assert answers(library) == 42
    with library.open("rb") as mapped:
        before = mapped.read()
        text = (sources / changed).read_text()
        (sources / changed).write_text(text.replace(old, new))
        build.build_all(tmp_path / "lib")
        mapped.seek(0)
        assert mapped.read() == before, "the old file must stay whole for those who mapped it"
    assert answers(library) == 43


def test_a_changed_input_is_noticed_in_any_folder_of_the_project(sources, tmp_path, monkeypatch):
    (part,) = catalogue.parts(catalogue.GENERATED)
    command = build.identity(part)
    # A relative path between two folders has fewer steps if they share their top folder.
    monkeypatch.setattr(catalogue, "GENERATED", tmp_path / "project" / "generated")
    names = freshness.inputs(part, command)
    digest = freshness.digest(part, command, names)
    (sources / "toy" / "toy.c").write_text("int answer(void) { return 43; }\n")
    assert freshness.digest(part, command, names) != digest


def test_a_library_is_copied_from_a_folder_where_it_is_up_to_date(sources, tmp_path, monkeypatch):
    (library,) = build.build_all(tmp_path / "lib")
    monkeypatch.setattr(build, "_compile", lambda *_: pytest.fail("it was compiled"))
    (copy,) = build.build_all(tmp_path / "other", reuse=tmp_path / "lib")
    assert copy != library
    assert copy.read_bytes() == library.read_bytes()
    assert answers(copy) == 42


def test_a_library_is_copied_from_another_checkout(sources, tmp_path, monkeypatch):
    build.build_all(sources / "lib")
    moved = tmp_path / "moved"
    sources.rename(moved)
    (part,) = catalogue.parts(catalogue.GENERATED)
    part = replace(
        part, folder=moved / "toy", shared=(moved / "common",), include=moved / "include"
    )
    monkeypatch.setattr(catalogue, "ROOT", moved)
    monkeypatch.setattr(catalogue, "parts", lambda generated: (part,))
    monkeypatch.setattr(build, "_compile", lambda *_: pytest.fail("it was compiled"))
    build.build_all(tmp_path / "other", reuse=moved / "lib")
    (copy,) = build.build_all(tmp_path / "third", reuse=tmp_path / "other")
    assert answers(copy) == 42


def test_a_library_of_older_sources_is_not_copied(sources, tmp_path):
    build.build_all(tmp_path / "lib")
    (sources / "include" / "toy.h").write_text("#define ANSWER 43\n")
    (library,) = build.build_all(tmp_path / "other", reuse=tmp_path / "lib")
    assert answers(library) == 43


def test_a_part_is_built_after_the_parts_that_it_needs(sources, tmp_path, monkeypatch):
    (toy,) = catalogue.parts(catalogue.GENERATED)
    (sources / "user").mkdir()
    (sources / "user" / "user.c").write_text(
        'int answer(void);\n__attribute__((visibility("default"))) int twice(void)'
        " { return 2 * answer(); }\n"
    )
    user = catalogue.Part(sources / "user", "libuser.so.1", needs=(toy,), include=toy.include)
    monkeypatch.setattr(catalogue, "parts", lambda generated: (user, toy))
    assert [one.name for one in build.build_all(tmp_path / "lib")] == [
        "libuser.so.1",
        "libtoy.so.1",
    ]


def test_the_folder_of_generated_sources_does_not_count_as_a_change(tmp_path):
    build.generator.write_all(tmp_path)
    for part, elsewhere in zip(catalogue.parts(), catalogue.parts(tmp_path), strict=True):
        if part.library in ("libnvidia-ml.so.1", "libnvJitLink.so.13"):
            here, there = build.identity(part), build.identity(elsewhere)
            names = freshness.inputs(part, here)
            assert names == freshness.inputs(elsewhere, there)
            assert freshness.digest(part, here, names) == freshness.digest(elsewhere, there, names)


def test_a_header_that_no_source_includes_is_no_input(sources, tmp_path):
    (library,) = build.build_all(tmp_path / "lib")
    first = library.stat().st_ino
    (sources / "include" / "other.h").write_text("#define OTHER 1\n")
    build.build_all(tmp_path / "lib")
    assert library.stat().st_ino == first


def test_a_removed_header_is_a_change(sources, tmp_path):
    build.build_all(tmp_path / "lib")
    (sources / "include" / "toy.h").unlink()
    with pytest.raises(build.BuildError, match=r"toy\.h"):
        build.build_all(tmp_path / "lib")


def test_another_command_or_compiler_replaces_the_library(sources, tmp_path, monkeypatch):
    (library,) = build.build_all(tmp_path / "lib")
    first = library.stat().st_ino
    build.build_all(tmp_path / "lib", sanitize="address")
    second = library.stat().st_ino
    assert second != first
    compiler = tmp_path / "mycc"
    compiler.write_text(f'#!/bin/sh\nexec {build.compiler()} "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    build.build_all(tmp_path / "lib", sanitize="address")
    assert library.stat().st_ino != second


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


def test_a_compile_error_names_the_source(sources, tmp_path):
    (sources / "toy" / "toy.c").write_text("int answer(void) { return }\n")
    with pytest.raises(build.BuildError, match=r"toy\.c:1"):
        build.build_all(tmp_path / "lib")
    assert not (tmp_path / "lib" / "libtoy.so.1").exists()


def test_the_platform_tag_is_a_wheel_tag():
    assert build.platform_tag().replace("_", "").isalnum()
    assert build.platform_tag().startswith("linux_")


def test_no_path_of_this_machine_is_left_in_a_library():
    """Neither the path of the sources, nor that of the scratch directory below ``LIBRARIES``."""
    libraries = build.build_all()
    assert libraries
    for library in libraries:
        content = library.read_bytes()
        assert str(catalogue.ROOT).encode() not in content
        assert str(build.LIBRARIES).encode() not in content
