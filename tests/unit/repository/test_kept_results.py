"""Results that runs of the tests share: an entry is the same as a new result, or is not used."""

import os
import shutil
from pathlib import Path

import pytest

from support.kept import llvm_objects, native_parts
from support.kept.store import Store, default_folder, key_of, prune
from vgpu_sim.exec.jit.target import llvm

TEXT = "define i32 @f(i32 %a) {\n  %b = add i32 %a, 1\n  %c = mul i32 %b, %b\n  ret i32 %c\n}\n"
KEY = key_of(b"key")


def entries(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_an_object_is_that_of_llvm_and_is_made_once(tmp_path, monkeypatch):
    store, made = Store("llvm", tmp_path), []
    real = llvm.object_code
    monkeypatch.setattr(llvm, "object_code", lambda *how: made.append(how) or real(*how))
    for tier in (0, 1):
        first = llvm_objects.object_code(TEXT, tier, store)
        assert first == llvm_objects.object_code(TEXT, tier, store) == real(TEXT, tier)
    assert made == [(TEXT, 0), (TEXT, 1)]


def test_each_text_and_each_machine_has_an_object_of_its_own(tmp_path):
    store = Store("llvm", tmp_path)
    here = llvm_objects.object_code(TEXT, 1, store)
    assert llvm_objects.object_code(TEXT.replace("1\n", "2\n"), 1, store) != here
    with llvm.generating_for(llvm.NEON):
        assert llvm_objects.object_code(TEXT, 1, store) != here
    assert llvm_objects.object_code(TEXT, 1, store) == here
    assert len(entries(tmp_path)) == 3


def test_a_change_of_our_passes_makes_new_objects(tmp_path, monkeypatch):
    """The texts are the same then, but not what LLVM makes of them."""
    store = Store("llvm", tmp_path)
    llvm_objects.object_code(TEXT, 1, store)
    changed = tmp_path / "llvm.py"
    changed.write_text(Path(llvm.__file__).read_text() + "# changed\n")
    monkeypatch.setattr(llvm, "__file__", str(changed))
    llvm_objects.surroundings.cache_clear()
    try:
        llvm_objects.object_code(TEXT, 1, store)
    finally:
        llvm_objects.surroundings.cache_clear()
    assert len(entries(tmp_path / "llvm")) == 2


@pytest.mark.parametrize("place", [0, 31, 32, -1])
def test_a_changed_entry_counts_as_absent(tmp_path, place):
    store = Store("kind", tmp_path)
    store.put(KEY, b"content" * 100)
    assert store.get(KEY) == b"content" * 100
    (file,) = entries(tmp_path)
    damaged = bytearray(file.read_bytes())
    damaged[place] ^= 1
    file.write_bytes(damaged)
    assert store.get(KEY) is None
    file.write_bytes(damaged[:20])
    assert store.get(KEY) is None


def test_an_entry_under_the_name_of_another_counts_as_absent(tmp_path):
    store, other = Store("kind", tmp_path), key_of(b"other")
    store.put(KEY, b"content")
    (file,) = entries(tmp_path)
    (tmp_path / "kind" / other[:2]).mkdir(exist_ok=True)
    file.rename(tmp_path / "kind" / other[:2] / other)
    assert store.get(other) is None


def test_a_store_that_cannot_be_written_stores_nothing(tmp_path):
    (tmp_path / "kind").write_text("no folder")
    store = Store("kind", tmp_path)
    store.put(KEY, b"content")
    assert store.get(KEY) is None
    Store("kind", None).put(KEY, b"content")
    assert Store("kind", None).get(KEY) is None


def test_what_was_not_read_for_longest_is_removed_first(tmp_path):
    store, keys = Store("kind", tmp_path), [key_of(bytes([n])) for n in range(3)]
    for age, key in enumerate(keys):
        store.put(key, os.urandom(1000))
        os.utime(tmp_path / "kind" / key[:2] / key, (age, age))
    assert store.get(keys[0]) is not None  # the oldest, but read just now
    prune(tmp_path, 2500)
    assert [store.get(key) is not None for key in keys] == [True, False, True]
    prune(tmp_path, 0)
    assert entries(tmp_path) == []


def test_the_boundary_between_the_parts_of_a_key_counts():
    assert key_of(b"a", b"bc") != key_of(b"ab", b"c") != key_of(b"abc")


def test_the_environment_chooses_the_folder(monkeypatch):
    monkeypatch.setenv("TESSERA_TEST_CACHE", "")
    assert default_folder() is None
    monkeypatch.setenv("TESSERA_TEST_CACHE", "/elsewhere")
    assert default_folder() == Path("/elsewhere")
    monkeypatch.delenv("TESSERA_TEST_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_folder() == Path("/caches/tessera/tests")


def compile_one(tmp_path: Path, name: str, flags: tuple[str, ...] = ()) -> bytes:
    output, store = tmp_path / f"{name}.o", Store("objects", tmp_path / "kept")
    done = native_parts.compile_kept(flags, tmp_path / "one.c", output, store=store)
    assert done.returncode == 0, done.stderr
    return output.read_bytes()


@pytest.mark.skipif(shutil.which("cc") is None, reason="NOT RUN: no C compiler")
def test_a_header_and_a_flag_make_another_object_file(tmp_path):
    (tmp_path / "one.h").write_text("enum { VALUE = 1 };\n")
    (tmp_path / "one.c").write_text('#include "one.h"\nint value(void) { return VALUE; }\n')
    first = compile_one(tmp_path, "first")
    assert compile_one(tmp_path, "again") == first
    assert len(entries(tmp_path / "kept")) == 1
    assert compile_one(tmp_path, "optimised", ("-O2",)) != first
    (tmp_path / "one.h").write_text("enum { VALUE = 2 };\n")
    assert compile_one(tmp_path, "changed") != first
    assert len(entries(tmp_path / "kept")) == 3


@pytest.mark.skipif(shutil.which("cc") is None, reason="NOT RUN: no C compiler")
@pytest.mark.parametrize("text", ['#include "absent.h"\n', "int value(void) { return x; }\n"])
def test_a_source_that_does_not_compile_is_refused_each_time(tmp_path, text):
    (tmp_path / "one.c").write_text(text)
    store = Store("objects", tmp_path / "kept")
    for _ in range(2):
        done = native_parts.compile_kept((), tmp_path / "one.c", tmp_path / "o", store=store)
        assert done.returncode != 0
        assert "error" in done.stderr
    assert not (tmp_path / "kept").exists()
