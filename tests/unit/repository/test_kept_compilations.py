"""Modules and CUDA programs that runs of the tests share: of the same sources and compiler only."""

import subprocess
from pathlib import Path

import pytest

from support.kept import clangs, cuda_programs, kernels, modules
from support.kept.store import Store
from support.watches.rotation import VARIABLE
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.isa import Module

VECADD = (Path(__file__).parents[3] / "examples/vecadd.ptx").read_text()
HOPPER = (9, 0)


def never() -> Module:
    pytest.fail("it was compiled again")


def compile_text(folder: Path, make, text: str = VECADD, capability=HOPPER) -> Module:
    return modules.compile_kept(text, capability, make, Store("modules", folder))


def test_ptx_is_compiled_once_for_each_text_and_target(tmp_path):
    module = compile_ptx(VECADD, capability=HOPPER)
    other = compile_ptx(VECADD.replace("add.f32", "sub.f32"), capability=HOPPER)
    assert compile_text(tmp_path, lambda: module) == compile_text(tmp_path, never) == module
    assert compile_text(tmp_path, lambda: other, VECADD.replace("add.f32", "sub.f32")) == other
    assert compile_text(tmp_path, lambda: other, capability=(10, 0)) == other


def test_another_compiler_compiles_again(tmp_path, monkeypatch, changed_source):
    monkeypatch.setattr(kernels, "are_stored", lambda: True)
    module = compile_ptx(VECADD, capability=HOPPER)
    compile_text(tmp_path, lambda: module)
    with changed_source("compiler/__init__.py"), pytest.raises(pytest.fail.Exception):
        compile_text(tmp_path, never)


def test_a_test_that_may_change_the_compiler_stores_nothing(tmp_path, monkeypatch):
    compile_text(tmp_path, lambda: compile_ptx(VECADD, capability=HOPPER))
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Return a function that compiles, and states whether ``tessera cc`` ran."""
    monkeypatch.setattr(cuda_programs, "_surroundings", lambda: b"here")
    (tmp_path / "sources").mkdir()
    source = tmp_path / "sources" / "a.cu"
    source.write_text("int main() {}")

    def build_once(name: str, *options: str, message: str = "", library: str = "") -> bool:
        directory, ran = tmp_path / name, []
        command = str(source), *options, "-o", "program"
        directory.mkdir()
        if library:
            (directory / "b.o").write_text(library)

        def run() -> subprocess.CompletedProcess[str]:
            ran.append(command)
            (directory / "program").write_text(" ".join(command))
            return subprocess.CompletedProcess(command, 0, "", message)

        store = Store("cuda", tmp_path / "kept")
        done = cuda_programs.compile_kept(directory, command, source, run, store)
        assert (done.returncode, done.stderr) == (0, message if ran else "")
        assert (directory / "program").read_text() == " ".join(command)
        return bool(ran)

    return build_once


def test_a_program_is_compiled_once(build):
    assert build("first")
    assert not build("second")


def test_an_option_a_header_and_an_object_make_another_program(build, tmp_path):
    build("first")
    assert build("optimized", "-O1")
    assert build("linked", library="object")
    assert build("linked again", library="another object")
    (tmp_path / "sources" / "a.h").write_text("")
    assert build("changed")
    assert not build("unchanged")


def test_what_printed_a_warning_is_compiled_each_time(build):
    assert build("first", message="warning")
    assert build("second", message="warning")


def test_the_oldest_and_the_newest_clang_alternate_by_day(monkeypatch):
    monkeypatch.setattr(clangs, "list_clangs", lambda: ("oldest", "middle", "newest"))
    days = []
    for day in range(20_000, 20_003):
        monkeypatch.setenv(VARIABLE, str(day))
        days.append(clangs.of_day())
    assert days == ["oldest", "newest", "oldest"]
