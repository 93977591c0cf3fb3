"""Private directories of runs: the next run removes those of killed runs."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vgpu_sim.cli.clients import run_dirs, standalone
from vgpu_sim.cli.clients.standalone import StandaloneNode, StandaloneOptions


@pytest.fixture
def parent() -> Iterator[Path]:
    """A folder with a short name, since sockets' paths are bounded."""
    with tempfile.TemporaryDirectory(prefix="d-", dir="/tmp") as name:
        yield Path(name)


def make_run_dir(parent: Path) -> tuple[Path, int]:
    directory = run_dirs.make([parent])
    lock = run_dirs.hold(directory)
    (directory / "token").write_text("secret")
    return directory, lock


def test_an_abandoned_directory_is_removed_and_a_held_one_is_not(parent: Path) -> None:
    abandoned, lock = make_run_dir(parent)
    held, other_lock = make_run_dir(parent)
    run_dirs.sweep([parent])
    assert (abandoned.exists(), held.exists()) == (True, True)
    os.close(lock)
    run_dirs.sweep([parent / "absent", parent])
    assert (abandoned.exists(), held.exists()) == (False, True)
    os.close(other_lock)


def test_one_of_several_holders_is_enough(parent: Path) -> None:
    """gpud shares the lock with the command that started it."""
    directory, lock = make_run_dir(parent)
    gpuds = os.dup(lock)
    os.close(lock)
    run_dirs.sweep([parent])
    assert directory.exists()
    os.close(gpuds)
    run_dirs.sweep([parent])
    assert not directory.exists()


def test_unfinished_and_foreign_directories_stay(parent: Path) -> None:
    begun = run_dirs.make([parent])  # not locked yet
    (parent / "tessera-file").write_text("")
    target = parent / "target"
    target.mkdir()
    (target / run_dirs.LOCK_NAME).write_text("")
    (parent / "tessera-link").symlink_to(target)
    (parent / "other").mkdir()
    (parent / "other" / run_dirs.LOCK_NAME).write_text("")
    run_dirs.sweep([parent])
    assert begun.exists()
    assert sorted(path.name for path in parent.iterdir() if path != begun) == [
        *("other", "target", "tessera-file", "tessera-link")
    ]
    assert (target / run_dirs.LOCK_NAME).exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give directories away")
def test_another_users_directory_stays(parent: Path) -> None:
    directory, lock = make_run_dir(parent)
    os.close(lock)
    os.chown(directory, 65432, 65432)
    run_dirs.sweep([parent])
    assert directory.exists()


def test_other_users_cannot_read_a_run_directory(parent: Path) -> None:
    directory, lock = make_run_dir(parent)
    assert directory.stat().st_mode & 0o777 == 0o700
    assert (directory / run_dirs.LOCK_NAME).stat().st_mode & 0o777 == 0o600
    os.close(lock)


def test_one_file_that_stays_keeps_no_other(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, lock = make_run_dir(parent)
    os.close(lock)
    (directory / "more").touch()
    unlink, kept = os.unlink, list[str]()

    def keep_the_first(name: str, **where: Any) -> None:
        if not kept:
            kept.append(name)
            raise PermissionError(name)
        unlink(name, **where)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", keep_the_first)
        run_dirs.sweep([parent])
    assert [entry.name for entry in directory.iterdir()] == kept


def test_a_gpud_that_does_not_end_is_killed_and_reaped(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standalone, "STOP_TIMEOUT_SECONDS", 0)
    node = StandaloneNode([parent], StandaloneOptions())
    node.run_dir = run_dirs.make([parent])
    waits = [sys.executable, "-c", "import signal; signal.pause()"]
    node._process = subprocess.Popen(waits)
    node.close()
    assert node._process.returncode == -signal.SIGKILL
    assert not node.run_dir.exists()


def test_a_node_that_never_started_removes_nothing(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(parent)
    (parent / "mine").touch()
    StandaloneNode([parent], StandaloneOptions()).close()
    assert (parent / "mine").exists()
