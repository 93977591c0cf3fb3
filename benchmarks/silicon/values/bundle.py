"""Cases and their data in two compressed files."""

import hashlib
import json
import lzma
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_CASES, _DATA = "cases.json.xz", "data.bin.xz"


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


class Store:
    """Pieces of data by their digest."""

    def __init__(self) -> None:
        self.pieces: dict[str, bytes] = {}

    def add(self, data: bytes) -> str:
        name = digest(data)
        self.pieces.setdefault(name, bytes(data))
        return name

    def __call__(self, name: str) -> bytes:
        return self.pieces[name]


def write(folder: Path, cases: Iterable[dict[str, Any]], store: Store) -> None:
    """Write cases and the data that they refer to."""
    folder.mkdir(parents=True, exist_ok=True)
    index, at = {}, 0
    for name, data in store.pieces.items():
        index[name] = (at, len(data))
        at += len(data)
    text = json.dumps({"cases": list(cases), "data": index}, separators=(",", ":"))
    (folder / _CASES).write_bytes(lzma.compress(text.encode(), preset=6))
    (folder / _DATA).write_bytes(lzma.compress(b"".join(store.pieces.values()), preset=6))


def read(folder: Path) -> tuple[list[dict[str, Any]], Store]:
    """Return what ``write`` wrote."""
    index = json.loads(lzma.decompress((folder / _CASES).read_bytes()))
    data = lzma.decompress((folder / _DATA).read_bytes())
    store = Store()
    store.pieces = {name: data[at : at + size] for name, (at, size) in index["data"].items()}
    return index["cases"], store
