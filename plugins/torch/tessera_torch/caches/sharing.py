"""A folder of compiled kernels that several users share, read-only.

Its files are executed. So they are used only if no user but this one and root (who also writes
an image's files) could have written them. Each file is opened, checked and read by one file
descriptor, and copied into this user's own cache; nothing in the shared folder is executed in
place.
"""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tessera_torch.caches.trust import NotTrusted, check_status

MANIFEST: Final = "tessera-torch-cache.json"
FOLDERS: Final = {"Inductor": "inductor", "Triton": "triton"}


def make_folder(folder: Path) -> None:
    """Make a folder that others can read, or check that an existing one can be extended.

    Raises:
        NotTrusted: the folder could have been written by another user, or has other content.
        OSError: the folder cannot be made or written.
    """
    if not os.path.lexists(folder):
        folder.mkdir(parents=True, mode=0o755)
    check_status(folder.lstat(), folder)
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError(f"{folder} cannot be written")
    if any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        raise NotTrusted(f"{folder} has files, but no {MANIFEST}: name an empty folder")


def read_into(folder: Path, caches: Mapping[str, Path]) -> int:
    """Copy a shared folder's files into caches; return how many. Raises as ``bring``."""
    contents_by_path = dict(_read(folder))
    copied = 0
    for path, content in contents_by_path.items():
        place, *path_tail = Path(path).parts
        for name in (
            cache_name for cache_name in FOLDERS if path_tail and FOLDERS[cache_name] == place
        ):
            copied += _copy(content, caches[name].joinpath(*path_tail))
    return copied


def publish(caches: Mapping[str, Path], folder: Path, version: str) -> int:
    """Write the files of this user's caches into a shared folder, and its manifest.

    No file that is there is changed. Return how many were written.

    Raises:
        NotTrusted: a folder there belongs to another user, can be written by others or is a link.
        OSError: a file cannot be read or written.
    """
    written = 0
    top = _open_folder(str(folder), None)
    try:
        for name, place in FOLDERS.items():
            for path in sorted(caches[name].rglob("*")):
                if path.is_file() and not path.is_symlink():
                    relative = Path(place, path.relative_to(caches[name]))
                    written += _write(top, relative, path.read_bytes())
        files = sum(len(names) for _, _, names, _ in os.fwalk(".", dir_fd=top))
        content = {"torch": version, "files": files, "id": os.urandom(8).hex()}
        _replace(top, MANIFEST, json.dumps(content).encode())
    finally:
        os.close(top)
    return written


def _open_folder(name: str, parent: int | None) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    opened = os.open(name, flags, dir_fd=parent)
    try:
        check_status(os.fstat(opened), Path(name))
    except NotTrusted:
        os.close(opened)
        raise
    return opened


def _write(top: int, path: Path, content: bytes) -> int:
    """Write a file below an open folder, unless it is there; return how many were written."""
    opened = os.dup(top)
    try:
        for part in path.parts[:-1]:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=opened)
            inner = _open_folder(part, opened)
            os.close(opened)
            opened = inner
        try:
            os.stat(path.name, dir_fd=opened, follow_symlinks=False)
        except FileNotFoundError:
            _replace(opened, path.name, content)
            return 1
        return 0
    finally:
        os.close(opened)


def _replace(parent: int, name: str, content: bytes) -> None:
    """Write a file whole, so that other processes read all of it or none."""
    temporary = f".{name}.{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(os.open(temporary, flags, 0o644, dir_fd=parent), "wb") as file:
        file.write(content)
    os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)


def bring(folder: Path, caches: Mapping[str, Path]) -> int:
    """Copy a shared folder's files into this user's caches, once; return how many were copied.

    The caller has made and checked the caches. A file in each records that this was done, so that
    later processes read only the manifest.

    Raises:
        NotTrusted: a file or folder could have been written by another user, or is a link. Then
            no file is copied.
        OSError: a folder cannot be read or written, or is no shared cache.
    """
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise NotTrusted(f"{folder} has no {MANIFEST}: make it with python -m tessera_torch.warm")
    digest = hashlib.sha256(manifest.read_bytes()).hexdigest()[:16]
    markers = [target / f".tessera-shared-{digest}" for target in caches.values()]
    if all(marker.exists() for marker in markers):
        return 0
    copied = read_into(folder, caches)
    for marker in markers:
        marker.touch()
    return copied


def _read(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the relative path and the content of each file."""
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for root, folders, names, directory in os.fwalk(".", dir_fd=top):
            place = folder / root
            check_status(os.fstat(directory), place)
            for name in (*folders, *names):
                check_status(os.stat(name, dir_fd=directory, follow_symlinks=False), place / name)
            for name in names:
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
                with open(os.open(name, flags, dir_fd=directory), "rb") as file:
                    check_status(os.fstat(file.fileno()), place / name)
                    yield os.path.normpath(os.path.join(root, name)), file.read()
    finally:
        os.close(top)


def _copy(content: bytes, path: Path) -> int:
    """Write a file whole, unless it is there; processes on several hosts may do so at once."""
    if path.exists():
        return 0
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(descriptor, 0o700 if path.suffix == ".so" else 0o600)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return 1
