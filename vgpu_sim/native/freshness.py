"""Whether a compiled part is up to date: a record beside it lists its inputs, and their digest.

The compiler lists the headers that the sources include, so that a change of another header, for
instance of a generated one, compiles nothing again. Standard library only, like the build itself.
"""

import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from vgpu_sim.native import catalogue


def inputs(part: catalogue.Part, command: Sequence[str]) -> list[str]:
    """Return the names of the files that a part is made of: its sources, the headers that they
    include, and all files of libraries with which it is linked.

    ``command`` compiles the part. Names are relative to the root of the project; the folder of the
    generated sources is replaced by its place in the project.
    """
    unused = ("-Wl,", "-shared", "-pie")
    preprocess = [word for word in command[:-2] if not word.startswith(unused)]
    libraries = {need.library for need in part.needs}
    preprocess = [word for word in preprocess if Path(word).name not in libraries]
    process = subprocess.run(
        [*preprocess, "-MM"], cwd=catalogue.ROOT, capture_output=True, text=True, check=True
    )
    # Each rule is "target: file file", with a backslash at the end of a line that continues.
    listed = {word for word in process.stdout.split() if word != "\\" and not word.endswith(":")}
    files = {*(catalogue.ROOT / listed_file for listed_file in listed), *_linked(part)}
    return sorted({_name(part, file) for file in files})


def _linked(part: catalogue.Part) -> Iterable[Path]:
    """Return what decides the result of linking: symbol versions, and the libraries' own files."""
    maps = (path for folder in part.folders() for path in folder.rglob("*.map"))
    needed = (path for need in part.needs for path in need.folder.rglob("*"))
    return (path for path in (*maps, *needed) if path.suffix in {".c", ".def", ".h", ".map"})


def _name(part: catalogue.Part, file: Path) -> str:
    project_file = _move(file, part.include.parent, catalogue.GENERATED)
    return os.path.relpath(project_file, catalogue.ROOT)


def _path(part: catalogue.Part, name: str) -> Path:
    return _move(catalogue.ROOT / name, catalogue.GENERATED, part.include.parent)


def _move(file: Path, source: Path, target: Path) -> Path:
    """Return the file's path in ``target`` if it is below ``source``, else its own path."""
    # A name relative to the project begins with "..", if the file is outside of the project.
    path = Path(os.path.normpath(file))
    return target / path.relative_to(source) if path.is_relative_to(source) else path


def digest(part: catalogue.Part, command: Sequence[str], names: Iterable[str]) -> str:
    """Return the hash of the command, of the compiler's version and of these inputs; a missing
    input has a hash of its own.

    The hash does not depend on the project's folder, which the result does not contain either.
    """
    generated, home = str(part.include.parent), str(catalogue.GENERATED)
    words = "\0".join(command).replace(generated, home).replace(str(catalogue.ROOT), ".")
    hasher = hashlib.sha256(words.encode())
    hasher.update(_version(command[0]))
    for name in names:
        path = _path(part, name)
        content = hashlib.sha256(path.read_bytes()).digest() if path.is_file() else b"absent"
        hasher.update(f"\0{name}\0".encode() + content)
    return hasher.hexdigest()


@functools.cache
def _version(cc: str) -> bytes:
    return subprocess.run([cc, "--version"], capture_output=True, check=False).stdout


def _record_of(part: catalogue.Part, directory: Path) -> Path:
    return directory / f".{part.library}.inputs"


def is_current(part: catalogue.Part, directory: Path, command: Sequence[str]) -> bool:
    """Return whether the library in ``directory`` is what ``command`` would make now."""
    record_path = _record_of(part, directory)
    if not (directory / part.subfolder / part.library).exists() or not record_path.exists():
        return False
    stored_digest, *names = record_path.read_text().splitlines()
    return digest(part, command, names) == stored_digest


def recorded_digest(part: catalogue.Part, directory: Path) -> str:
    """Return the digest that was recorded when the library in ``directory`` was built."""
    return _record_of(part, directory).read_text().partition("\n")[0]


def copy_record(part: catalogue.Part, source: Path, directory: Path) -> None:
    """Record in ``directory`` what is recorded in ``source``, from which the library was copied."""
    shutil.copy(_record_of(part, source), _record_of(part, directory))


def record(part: catalogue.Part, directory: Path, command: Sequence[str]) -> None:
    """Record that the library in ``directory`` is up to date."""
    names = inputs(part, command)
    lines = [digest(part, command, names), *names]
    _record_of(part, directory).write_text("\n".join(lines))
