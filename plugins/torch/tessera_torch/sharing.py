"""A folder of compiled kernels that several users share, read-only.

Its files are executed. So they are used only if no user but this one and root (who also writes
an image's files) could have written them. Each file is opened, checked and read by one file
descriptor, and copied into this user's own cache; nothing in the shared folder is executed in
place.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

MANIFEST: Final = "tessera-torch-cache.json"
FOLDERS: Final = {"Inductor": "inductor", "Triton": "triton"}
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class NotTrusted(Exception):
    """Another user could have written a file; the message names it."""


def write_manifest(folder: Path, version: str) -> None:
    """Write the file by which a folder is recognized, after its content."""
    for path in sorted(folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(stat.S_IMODE(path.stat().st_mode) & ~_OTHERS_WRITE)
    manifest = folder / MANIFEST
    files = sum(1 for path in folder.rglob("*") if path.is_file() and path != manifest)
    content = {"torch": version, "files": files, "id": os.urandom(8).hex()}
    manifest.write_text(json.dumps(content), encoding="ascii")
    manifest.chmod(0o644)
    folder.chmod(0o755)


def bring(folder: Path, caches: Mapping[str, Path]) -> int:
    """Copy a shared folder's files into this user's caches, once; return how many were copied.

    A file in the cache records that this was done, so that later processes read only the manifest.

    Raises:
        NotTrusted: a file or folder could have been written by another user, or is a link. Then
            no file is copied.
        OSError: a folder cannot be read or written, or is no shared cache.
    """
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise NotTrusted(f"{folder} has no {MANIFEST}: make it with python -m tessera_torch.warm")
    digest = hashlib.sha256(manifest.read_bytes()).hexdigest()[:16]
    done = caches["Inductor"] / f".tessera-shared-{digest}"
    if done.exists():
        return 0
    found = dict(_read(folder))
    for target in caches.values():
        target.mkdir(parents=True, exist_ok=True, mode=0o700)
        _check(target.lstat(), target)
    copied = 0
    for name, place in FOLDERS.items():
        target = caches[name]
        for path, content in found.items():
            relative = Path(path)
            if relative.parts[0] == place:
                copied += _copy(content, target.joinpath(*relative.parts[1:]))
    done.touch()
    return copied


def _read(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the relative path and the content of each file."""
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for root, folders, names, directory in os.fwalk(".", dir_fd=top):
            place = folder / root
            _check(os.fstat(directory), place)
            for name in (*folders, *names):
                _check(os.stat(name, dir_fd=directory, follow_symlinks=False), place / name)
            for name in names:
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
                with open(os.open(name, flags, dir_fd=directory), "rb") as file:
                    _check(os.fstat(file.fileno()), place / name)
                    yield os.path.normpath(os.path.join(root, name)), file.read()
    finally:
        os.close(top)


def _check(status: os.stat_result, path: Path) -> None:
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise NotTrusted(f"{path} is neither a file nor a folder")
    if status.st_uid not in (0, os.getuid()):
        raise NotTrusted(f"{path} belongs to uid {status.st_uid}")
    if status.st_mode & _OTHERS_WRITE:
        raise NotTrusted(f"others can write {path} (mode {stat.S_IMODE(status.st_mode):o})")


def _copy(content: bytes, path: Path) -> int:
    if path.exists():
        return 0
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    temporary.chmod(0o700 if path.suffix == ".so" else 0o600)
    temporary.replace(path)
    return 1
