"""Whether no user but this one and root could have written files that are executed."""

import contextlib
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_ENTER: Final = stat.S_IXGRP | stat.S_IXOTH
_KIND: Final = 0o170000
STAMP: Final = ".tessera-torch-checked"
_SETTLED_NS: Final = 200_000_000  # clocks of file systems are coarse


class NotTrusted(Exception):
    """Another user could have written a file; the message names it."""


def check_status(status: os.stat_result, path: Path) -> None:
    """Check one file or folder. Raises NotTrusted."""
    _check_kind(status, path)
    _check_owner(status, path)
    _check_mode(status, path)


def make_cache(folder: Path) -> None:
    """Make a cache that no other user can enter, unless it is there, and check it.

    Raises:
        NotTrusted: another user could have written a file in it.
        OSError: the folder cannot be made, read or written.
    """
    for one in reversed((folder, *folder.parents)):
        if not one.exists():
            one.mkdir(mode=0o700, exist_ok=True)
    check_cache(folder)


def check_cache(folder: Path) -> None:
    """Check a folder whose files are executed in place: itself, what leads to it, and its content.

    Of a folder that is missing, what leads to it is checked. Raises as ``make_cache``.
    """
    existing = next(one for one in (folder, *folder.parents) if one.exists())
    for path in _way(folder.absolute()):
        if os.path.lexists(path):
            _check_way(path.lstat(), path)
    if not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionError(f"{folder} cannot be written")
    if existing == folder:
        status = folder.stat()
        check_status(status, folder)
        if status.st_mode & _OTHERS_ENTER:
            _check_content(folder, others_enter=True)
        elif not _is_unchanged(folder, status):
            private = _check_content(folder, others_enter=False)
            if private:
                _stamp(folder, status)


def _is_unchanged(folder: Path, status: os.stat_result) -> bool:
    """Return whether a folder has its mode and entries of when its content was checked.

    No other user could enter it then, so none could since: a change of its mode changes its ctime.
    """
    try:
        with open(os.open(folder / STAMP, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            check_status(os.fstat(file.fileno()), folder / STAMP)
            return file.read(200) == _state(status)
    except (OSError, NotTrusted):
        return False


def _stamp(folder: Path, status: os.stat_result) -> None:
    """Record the state in which a folder's content was found right.

    The file itself is a new entry, and later changes may have the same time as the state, so that
    a state of this moment is not recorded: a later process checks once more.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
    with contextlib.suppress(OSError), open(os.open(folder / STAMP, flags, 0o600), "wb") as file:
        is_settled = time.time_ns() - status.st_ctime_ns > _SETTLED_NS
        file.truncate()
        file.write(_state(status) if is_settled else b"")


def _state(status: os.stat_result) -> bytes:
    return f"{status.st_dev} {status.st_ino} {status.st_mode:o} {status.st_ctime_ns}".encode()


def _check_content(top: Path, *, others_enter: bool) -> bool:
    """Check owners and kinds of all files, and modes if others can enter the folder at the top.

    Other processes of this user may remove files of the cache at the same time. Return whether
    others could write nothing if they had entered it.
    """
    private = True
    owners = (0, os.getuid())
    forbidden = _OTHERS_WRITE if others_enter else 0
    kinds = (stat.S_IFREG, stat.S_IFDIR)
    folders = [str(top)]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    mode = status.st_mode
                    private = private and not mode & _OTHERS_WRITE
                    if status.st_uid not in owners or mode & forbidden or mode & _KIND not in kinds:
                        check_status(status, Path(entry.path))
                    if mode & _KIND == stat.S_IFDIR:
                        folders.append(entry.path)
        except FileNotFoundError:
            continue
    return private


def _way(path: Path) -> Iterator[Path]:
    """Yield the folders and links by which a path is found, and the path.

    The user's home and the folder of temporary files, with what leads to them, are left out: a
    user who does not trust these has no place for a cache.
    """
    presupposed: set[Path] = set()
    starts = [os.path.expanduser("~")]
    with contextlib.suppress(FileNotFoundError):  # no such folder can be written
        starts.append(tempfile.gettempdir())
    for start in starts:
        for one in (Path(start).absolute(), Path(start).resolve()):
            presupposed.update((one, *one.parents))
    for one in (path, *path.parents):
        if one in presupposed:
            return
        yield one
        if one.is_symlink():
            yield from _way(one.parent / one.readlink())


def _check_way(status: os.stat_result, path: Path) -> None:
    """Check that no other user can replace what a folder contains; in a sticky one none can."""
    _check_owner(status, path)
    if stat.S_ISDIR(status.st_mode) and not status.st_mode & stat.S_ISVTX:
        _check_mode(status, path)


def _check_kind(status: os.stat_result, path: Path) -> None:
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise NotTrusted(f"{path} is neither a file nor a folder")


def _check_owner(status: os.stat_result, path: Path) -> None:
    if status.st_uid not in (0, os.getuid()):
        raise NotTrusted(f"{path} belongs to uid {status.st_uid}")


def _check_mode(status: os.stat_result, path: Path) -> None:
    if status.st_mode & _OTHERS_WRITE:
        raise NotTrusted(f"others can write {path} (mode {stat.S_IMODE(status.st_mode):o})")
