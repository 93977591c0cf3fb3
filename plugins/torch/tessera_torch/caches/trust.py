"""Whether no user but this one and root could have written files that are executed."""

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_ENTER: Final = stat.S_IXGRP | stat.S_IXOTH
_KIND: Final = 0o170000


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
    for ancestor in reversed((folder, *folder.parents)):
        if not ancestor.exists():
            ancestor.mkdir(mode=0o700, exist_ok=True)
    check_cache(folder, close=True)


def check_cache(folder: Path, *, close: bool = False) -> None:
    """Check a folder whose files are executed in place: itself, what leads to it, and its content.

    Of a folder that is missing, what leads to it is checked. All files are read each time: a
    process of another user that entered a folder while it was open can still write there, and
    nothing about the folder at the top records that. With ``close``, such a process can write no
    longer in what is there. Raises as ``make_cache``.
    """
    existing = next(ancestor for ancestor in (folder, *folder.parents) if ancestor.exists())
    for path in _way(folder.absolute()):
        if os.path.lexists(path):
            _check_way(path.lstat(), path)
    if not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionError(f"{folder} cannot be written")
    if existing == folder:
        status = folder.stat()
        check_status(status, folder)
        _check_content(folder, bool(status.st_mode & _OTHERS_ENTER), close)


def _check_content(top: Path, others_enter: bool, close: bool) -> None:
    """Check owners and kinds of all files, and modes if others can enter the folder at the top.

    If they cannot, a umask may let them write files below it. With ``close``, they lose this right,
    for a folder before it is read. Other processes of this user may remove files of the cache at
    the same time.
    """
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
                    if status.st_uid not in owners or mode & forbidden or mode & _KIND not in kinds:
                        check_status(status, Path(entry.path))
                    if close and mode & _OTHERS_WRITE:
                        _close_to_others(Path(entry.path))
                    if mode & _KIND == stat.S_IFDIR:
                        folders.append(entry.path)
        except FileNotFoundError:
            continue


def _close_to_others(path: Path) -> None:
    """Take the right to write a file or folder from other users."""
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(opened)
        _check_kind(status, path)
        _check_owner(status, path)
        os.fchmod(opened, stat.S_IMODE(status.st_mode) & ~_OTHERS_WRITE)
    finally:
        os.close(opened)


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
        for start_path in (Path(start).absolute(), Path(start).resolve()):
            presupposed.update((start_path, *start_path.parents))
    for ancestor in (path, *path.parents):
        if ancestor in presupposed:
            return
        yield ancestor
        if ancestor.is_symlink():
            yield from _way(ancestor.parent / ancestor.readlink())


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
