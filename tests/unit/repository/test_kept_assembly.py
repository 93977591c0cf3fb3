"""Assembly that GCC made in an earlier run: the same as a new one, or not used."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.kept import c_compiler, kept_cc1

HEADER = "enum { VALUE = 1 };\n"
SOURCE = '#include "one.h"\nint value(void) { return VALUE; }\n'


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a source, in which the driver finds the script, and nothing stored yet."""
    if c_compiler.install(tmp_path / "programs", tmp_path / "kept") is None:
        pytest.skip("NOT RUN: cc is not GCC")
    monkeypatch.setenv(c_compiler.VARIABLE, str(tmp_path / "programs"))
    (tmp_path / "one.h").write_text(HEADER)
    (tmp_path / "one.c").write_text(SOURCE)
    return tmp_path


def entries(folder: Path) -> list[Path]:
    return [path for path in (folder / "kept").rglob("*") if path.is_file()]


def compile_one(folder: Path, *flags: str, source: str = "one.c") -> bytes:
    output = folder / "made.o"
    output.unlink(missing_ok=True)
    command = ["cc", *flags, "-c", str(folder / source), "-o", str(output)]
    subprocess.run(command, check=True, cwd=folder)
    return output.read_bytes()


def forge(folder: Path, text: str) -> None:
    """Replace the only entry's assembly, to see whether it is read."""
    (path,) = entries(folder)
    key = bytes.fromhex(path.name)
    path.unlink()
    kept_cc1.write_entry(str(path), key, text.encode())


def test_an_equal_text_is_compiled_once(here, monkeypatch):
    first = compile_one(here)
    assert compile_one(here) == first
    assert len(entries(here)) == 1
    monkeypatch.delenv(c_compiler.VARIABLE)
    assert compile_one(here) == first, "what GCC makes alone"
    monkeypatch.setenv(c_compiler.VARIABLE, str(here / "programs"))
    forge(here, ".globl forged\nforged: ret\n")
    assert b"forged" in compile_one(here)


@pytest.mark.parametrize("debugging", [(), ("-g",), ("-fsanitize=address",)])
def test_a_header_and_a_flag_make_another_entry(here, debugging):
    first = compile_one(here, *debugging)
    assert compile_one(here, "-O2", *debugging) != first
    (here / "one.h").write_text("enum { VALUE = 2 };\n")
    assert compile_one(here, *debugging) != first
    assert len(entries(here)) == 3


def test_only_code_without_paths_is_the_same_in_another_folder(here, monkeypatch):
    other = here / "other"
    other.mkdir()
    for name in ("one.c", "one.h"):
        shutil.copy(here / name, other)
    plain, debugged = compile_one(here), compile_one(here, "-g")
    assert compile_one(other) == plain
    assert len(entries(here)) == 2
    assert compile_one(other, "-g") != debugged
    assert len(entries(here)) == 3
    monkeypatch.delenv(c_compiler.VARIABLE)
    assert compile_one(other) == plain


@pytest.mark.parametrize("place", [0, 31, 32, -1])
def test_a_changed_entry_counts_as_absent(here, place):
    first = compile_one(here)
    (path,) = entries(here)
    damaged = bytearray(path.read_bytes())
    damaged[place] ^= 1
    path.write_bytes(damaged)
    assert compile_one(here) == first
    path.write_bytes(damaged[:20])
    assert compile_one(here) == first
    assert kept_cc1.read_entry(str(path), b"another key") is None


@pytest.mark.parametrize("text", ['#include "absent.h"\n', "int value(void) { return x; }\n"])
def test_a_source_that_does_not_compile_is_refused_each_time(here, text):
    (here / "one.c").write_text(text)
    for _ in range(2):
        command = ["cc", "-c", str(here / "one.c"), "-o", str(here / "made.o")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert done.stderr.count("error:") == 1
    assert not entries(here)


def test_a_warning_is_seen_each_time(here):
    (here / "one.c").write_text("int value(void) { int unused; return 1; }\n")
    for _ in range(2):
        command = ["cc", "-Wall", "-c", str(here / "one.c"), "-o", str(here / "made.o")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "unused variable" in done.stderr
    assert not entries(here)


def test_a_file_that_the_assembler_reads_is_read_each_time(here):
    (here / "one.c").write_text('asm(".data; .incbin \\"bytes\\"");\n')
    for content in (b"first one", b"second one"):
        (here / "bytes").write_bytes(content)
        assert content in compile_one(here)
    assert not entries(here)


@pytest.mark.parametrize(
    "flags",
    [
        ("-MD",),
        ("--coverage",),
        ("-fprofile-generate",),
        ("-fstack-usage",),
        ("-save-temps",),
        ("-gsplit-dwarf", "-g"),
        ("-fdump-tree-optimized",),
        ("-funknown-to-this-test",),
    ],
)
def test_options_with_other_effects_are_left_to_gcc(flags):
    arguments = ["-quiet", "one.c", *flags, "-o", "/tmp/one.s"]
    assert kept_cc1.request_of(arguments) is None
    assert kept_cc1.request_of(["-quiet", "one.c", "-o", "/tmp/one.s"]) is not None


def test_a_full_disk_stores_nothing(here):
    (here / "kept").write_text("no folder")
    assert compile_one(here) == compile_one(here)


def test_a_variable_that_is_set_stays_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv(c_compiler.VARIABLE, "/elsewhere")
    with c_compiler.reusing_assembly(tmp_path):
        assert os.environ[c_compiler.VARIABLE] == "/elsewhere"
    monkeypatch.delenv(c_compiler.VARIABLE)
    with c_compiler.reusing_assembly(None):
        assert c_compiler.VARIABLE not in os.environ
    with c_compiler.reusing_assembly(tmp_path):
        assert shutil.which("cc") is None or list(
            Path(os.environ[c_compiler.VARIABLE]).rglob("cc1")
        )
    assert c_compiler.VARIABLE not in os.environ
