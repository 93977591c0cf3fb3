"""What a process of another user leaves in a cache that it entered while the cache was open."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tessera_torch.caches import trust

OTHER = 4711
Act = Callable[[Callable[[], None]], None]
root_only = pytest.mark.skipif(
    os.getuid() != 0, reason="only root can start another user's process"
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache with modes as PyTorch makes them, which its user has closed."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "cache"
    (folder / "KEY").mkdir(parents=True)
    (folder / "KEY" / "kernel").write_text("")
    (folder / "KEY").chmod(0o755)
    folder.chmod(0o700)
    return folder


@pytest.fixture
def act_inside(cache: Path) -> Iterator[Act]:
    """Return a function that lets another user act, with a folder in the cache as its own.

    A forked process holds the folder by a descriptor, as one that entered it in time.
    """
    opened = os.open(cache / "KEY", os.O_RDONLY | os.O_DIRECTORY)

    def act(deed: Callable[[], None]) -> None:
        child = os.fork()
        if not child:
            try:
                os.setgroups([])
                os.setgid(OTHER)
                os.fchdir(opened)
                os.setuid(OTHER)
                deed()
            except BaseException:  # noqa: BLE001 a child must not return to pytest
                os._exit(1)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            raise PermissionError("the other user could not act")

    yield act
    os.close(opened)


def plant() -> None:
    Path("new", "planted.so").write_text("planted")


def make_open_folder(cache: Path) -> Path:
    """Make a folder as with umask 000."""
    folder = cache / "KEY" / "new"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


@root_only
def test_a_file_planted_after_checks_is_refused(cache: Path, act_inside: Act) -> None:
    trust.check_cache(cache)
    time.sleep(0.25)  # later than the folder's times can tell
    trust.check_cache(cache)
    make_open_folder(cache)
    act_inside(plant)
    with pytest.raises(trust.NotTrusted, match=rf"planted.so belongs to uid {OTHER}"):
        trust.check_cache(cache)


@root_only
def test_after_a_check_at_import_nothing_can_be_planted(cache: Path, act_inside: Act) -> None:
    folder = make_open_folder(cache)
    trust.make_cache(cache)
    assert folder.stat().st_mode & 0o777 == 0o755
    with pytest.raises(PermissionError, match="the other user"):
        act_inside(plant)
    assert not list(folder.iterdir())


@root_only
def test_a_file_of_another_user_that_is_moved_into_a_checked_cache_is_refused(
    cache: Path, tmp_path: Path
) -> None:
    (tmp_path / "theirs").write_text("planted")
    os.chown(tmp_path / "theirs", OTHER, OTHER)
    trust.check_cache(cache)
    time.sleep(0.25)
    trust.check_cache(cache)
    (tmp_path / "theirs").rename(cache / "KEY" / "kernel")
    with pytest.raises(trust.NotTrusted, match="uid 4711"):
        trust.check_cache(cache)


def test_a_check_alone_changes_no_mode(cache: Path) -> None:
    folder = make_open_folder(cache)
    trust.check_cache(cache)
    assert folder.stat().st_mode & 0o777 == 0o777


@pytest.mark.parametrize("mode", [0o664, 0o666, 0o664 | 0o111])
def test_files_that_the_umask_leaves_open_are_closed(cache: Path, mode: int) -> None:
    (cache / "KEY" / "kernel").chmod(mode)
    trust.make_cache(cache)
    assert (cache / "KEY" / "kernel").stat().st_mode & 0o777 == mode & ~0o022
    assert cache.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/etc/passwd", path)])
def test_what_is_neither_file_nor_folder_is_refused(
    cache: Path, make: Callable[[Path], None]
) -> None:
    make(cache / ".tessera-torch-checked")
    with pytest.raises(trust.NotTrusted, match="neither a file nor a folder"):
        trust.make_cache(cache)
