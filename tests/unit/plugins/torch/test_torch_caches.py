"""A cache that another user could have written is replaced before anything in it is executed."""

import atexit
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest

from tessera_torch import driver, loading, settings
from tessera_torch.caches import sharing

root_only = pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
Register = Callable[[], dict[str, Path]]


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Register:
    """Return a function that registers no operators, and returns the caches that are in use.

    The home and the folder of temporary files are the test's own.
    """
    registry = ModuleType("registry")
    registry.register = lambda: (object(), 0)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", MagicMock())
    monkeypatch.setitem(sys.modules, "tessera_torch.registry", registry)
    monkeypatch.setattr(loading, "_KEPT", [])
    monkeypatch.setattr(driver, "find", lambda: ("/usr/lib64/libcuda.so.1",))
    for name in ("home", "tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for variable in (
        *settings.CACHE_VARIABLES.values(),
        *(settings.SHARED_VARIABLE, "TRITON_HOME", "TRITON_LIBCUDA_PATH", "TRITON_PTXAS_PATH"),
        *("TRITON_PTXAS_BLACKWELL_PATH", "TRITON_DEFAULT_FP_FUSION"),
    ):
        monkeypatch.setenv(variable, "")  # restored after the test
        monkeypatch.delenv(variable)

    def use() -> dict[str, Path]:
        loading._register()
        return settings.caches()

    return use


@pytest.fixture
def shared_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, register: Register) -> Path:
    """Return a shared folder that the user names."""
    made = {name: tmp_path / "made" / name for name in sharing.FOLDERS}
    for cache in made.values():
        (cache / "KEY").mkdir(parents=True)
        (cache / "KEY" / "kernel").write_text("shared")
    folder = tmp_path / "shared"
    sharing.make_folder(folder)
    sharing.publish(made, folder, "2.15.0")
    monkeypatch.setenv(settings.SHARED_VARIABLE, str(folder))
    return folder


def plant(cache: Path) -> Path:
    """Put a file into a cache; return its path."""
    file = cache / "KEY" / "kernel"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("planted")
    return file


def let_others_write(cache: Path) -> None:
    plant(cache)
    cache.chmod(0o777)


def let_others_write_within(cache: Path) -> None:
    plant(cache).parent.chmod(0o777)
    cache.chmod(0o755)  # as PyTorch makes it


def give_a_file_away(cache: Path) -> None:
    os.chown(plant(cache), 4711, -1)


def give_away(cache: Path) -> None:
    plant(cache)
    os.chown(cache, 4711, -1)


def put_a_link(cache: Path) -> None:
    plant(cache).with_name("link").symlink_to("/etc/passwd")


@pytest.mark.parametrize("name", list(settings.CACHE_VARIABLES))
@pytest.mark.parametrize(
    "spoil",
    [
        *(let_others_write, let_others_write_within, put_a_link),
        *(pytest.param(one, marks=root_only) for one in (give_a_file_away, give_away)),
    ],
)
def test_with_a_shared_folder_no_bad_cache_is_used(
    shared_folder: Path,
    register: Register,
    spoil: Callable[[Path], None],
    name: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = register()  # makes the caches
    spoil(before[name])
    for variable in settings.CACHE_VARIABLES.values():
        assert os.environ[variable]  # now named, as by the user
    after = register()
    assert after[name] != before[name]
    assert after[name].stat().st_mode & 0o777 == 0o700
    assert (after[name] / "KEY" / "kernel").read_text() == "shared"
    assert {one: after[one] for one in after if one != name} == {
        one: before[one] for one in before if one != name
    }
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"tessera-torch: {name}'s cache is not used: ")
    assert settings.CACHE_VARIABLES[name] in lines[0]


@root_only
def test_a_folder_of_another_user_below_tmp_is_not_chosen(
    register: Register,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    squatted = settings.inductor_cache()
    assert squatted.parent == tmp_path / "tmp"
    plant(squatted / "triton")
    os.chown(squatted, 4711, -1)
    home = str(tmp_path / "home")
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != home and may(path, mode))
    for cache in register().values():
        assert squatted not in (cache, *cache.parents)
        assert not list(cache.rglob("kernel"))
    assert [line.count("uid 4711") for line in capsys.readouterr().err.splitlines()] == [1]


@root_only
def test_a_link_of_another_user_to_an_own_folder_is_not_followed(
    register: Register, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_folder: Path
) -> None:
    link = tmp_path / "link"  # not in a sticky folder, where the kernel does not follow it either
    (tmp_path / "own").mkdir(mode=0o700)
    link.symlink_to(tmp_path / "own")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(link))
    assert register()["Triton"] == link
    os.chown(link, 4711, -1, follow_symlinks=False)
    assert register()["Triton"].name.startswith("tessera-torch-")


def test_new_caches_are_closed_to_others_and_then_the_umask_is_free(
    register: Register, shared_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = register()
    assert {cache.stat().st_mode & 0o777 for cache in before.values()} == {0o700}
    for cache in before.values():
        (cache / "KEY").chmod(0o775)  # as PyTorch makes it with umask 002
    assert register() == before
    assert not capsys.readouterr().err


def test_a_cache_that_the_user_names_is_the_users_choice(
    register: Register, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = tmp_path / "named"
    let_others_write(named)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(named))
    assert register()["Inductor"] == named


@root_only
def test_what_leads_to_a_cache_is_checked(
    register: Register, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_folder: Path
) -> None:
    elsewhere, theirs = tmp_path / "elsewhere", tmp_path / "theirs"
    plant(elsewhere / "cache")
    theirs.mkdir()
    (theirs / "link").symlink_to(elsewhere)
    os.chown(theirs, 4711, -1)
    (tmp_path / "link").symlink_to(theirs / "link")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "link" / "cache"))
    assert register()["Triton"].parent == tmp_path / "tmp"
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to(elsewhere)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "link" / "cache"))
    assert register()["Triton"] == tmp_path / "link" / "cache"
    elsewhere.chmod(0o777)
    assert register()["Triton"].parent == tmp_path / "tmp"
    elsewhere.chmod(0o1777)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "link" / "cache"))
    assert register()["Triton"] == tmp_path / "link" / "cache"


def test_the_replacement_ends_with_the_process_that_made_it(
    register: Register, shared_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_others_write(register()["Triton"])
    ends: list[Any] = []
    monkeypatch.setattr(atexit, "register", lambda *call: ends.append(call))
    fresh = register()["Triton"]
    ((remove, *arguments),) = ends
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: 1)
        remove(*arguments)
    assert fresh.exists()
    remove(*arguments)
    assert not fresh.exists()
