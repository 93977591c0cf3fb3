"""Object code on disk, keyed by content.

One directory, given by the caller, who owns who may write there: entries are native code that will
be executed. An entry is written to a temporary file and renamed, and read only if its digest fits;
whatever is damaged is ignored and replaced by the next compilation.
"""

import hashlib
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

from vgpu_sim.exec.jit.lines import LoadsRead
from vgpu_sim.exec.jit.plan import Plan

_MAGIC = b"tessera-object-1\n"
_DIGEST_BYTES = 32


def load(directory: Path, key: str) -> tuple[Plan, LoadsRead, tuple[int, int], bytes] | None:
    """Return plan, table of loads, code section and object code of an entry, or None."""
    try:
        data = _path(directory, key).read_bytes()
    except OSError:
        return None
    body = data[len(_MAGIC) + _DIGEST_BYTES :]
    digest = data[len(_MAGIC) : len(_MAGIC) + _DIGEST_BYTES]
    if not data.startswith(_MAGIC) or hashlib.sha256(key.encode() + body).digest() != digest:
        return None
    head, _, object_code = body.partition(b"\n")
    fields = json.loads(head)
    loads = tuple((word, tuple(words)) for word, words in fields["loads"])
    start, size = fields["section"]
    return Plan(**fields["plan"]), loads, (start, size), object_code


def store(
    directory: Path,
    key: str,
    plan: Plan,
    loads: LoadsRead,
    section: tuple[int, int],
    object_code: bytes,
) -> None:
    """Write an entry; a directory that cannot be written to is no error, only slower."""
    head = json.dumps({"plan": asdict(plan), "loads": loads, "section": section})
    body = head.encode() + b"\n" + object_code
    data = _MAGIC + hashlib.sha256(key.encode() + body).digest() + body
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=directory, prefix=".writing-")
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, _path(directory, key))
    except OSError:
        Path(name).unlink(missing_ok=True)


def _path(directory: Path, key: str) -> Path:
    return directory / f"{key}.object"
