"""Cache entries are read only if the user owns them: the attack is an entry of another user."""

import os
from pathlib import Path

import pytest

from vgpu_sim.exec import own_files
from vgpu_sim.exec.jit.objects import cache
from vgpu_sim.worker.modules.container_cache import ContainerCache

as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root may give files away")


def test_the_users_own_file_is_read_whole(tmp_path: Path) -> None:
    own_files.replace(tmp_path / "entry", b"content")
    assert own_files.read(tmp_path / "entry", 7) == b"content"
    assert (tmp_path / "entry").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["entry"]


def test_a_file_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    own_files.replace(tmp_path / "entry", b"content")
    assert own_files.read(tmp_path / "entry", 6) is None
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert own_files.read(tmp_path / "sparse", 64 << 20) is None


def test_links_pipes_and_directories_are_not_read(tmp_path: Path) -> None:
    own_files.replace(tmp_path / "entry", b"content")
    (tmp_path / "link").symlink_to(tmp_path / "entry")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    for name in ("link", "pipe", "directory", "absent"):
        assert own_files.read(tmp_path / name, 100) is None, name


@as_root
def test_another_users_entry_is_not_trusted(tmp_path: Path) -> None:
    """Readable, complete, with the correct digest, but owned by another user."""
    cache.store(tmp_path, "key", b"object")
    assert cache.load(tmp_path, "key") == b"object"
    (entry,) = tmp_path.iterdir()
    entry.chmod(0o644)
    os.chown(entry, 65432, 65432)
    assert cache.load(tmp_path, "key") is None


@as_root
def test_another_users_module_is_not_trusted(tmp_path: Path) -> None:
    modules = ContainerCache(tmp_path, (9, 0), "interp")
    entry = tmp_path / modules._name(b"text")
    own_files.replace(entry, b"anything")
    assert own_files.read(entry, 100) == b"anything"
    os.chown(entry, 65432, 65432)
    assert own_files.read(entry, 100) is None
    assert modules.load(b"text") is None


def test_nothing_is_left_in_an_unwritable_directory(tmp_path: Path) -> None:
    (tmp_path / "entry").mkdir()
    own_files.replace(tmp_path / "entry", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["entry"]
    own_files.replace(tmp_path / "absent" / "entry", b"content")
