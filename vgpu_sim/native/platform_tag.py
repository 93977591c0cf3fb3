"""The platform tag of a wheel, from what its libraries really need (PEP 600).

Standard library only, as the build. A wheel may be tagged ``manylinux_2_N`` if no file needs a
symbol of a newer glibc, and every other library that a file needs is in the wheel or in PEP 600's
list. Otherwise the tag is ``linux``, with which no index accepts a wheel.
"""

import platform
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from vgpu_sim.records import dataclass

_MAGIC: Final = b"\x7fELF\x02\x01"  # 64 bits, little endian
_VERNEED: Final = 0x6FFFFFFE
_DYNAMIC: Final = 6
_DT_NEEDED: Final = 1
_DT_SONAME: Final = 14
_GLIBC: Final = re.compile(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?")
_OLDEST: Final = (2, 17)  # manylinux2014, the oldest tag that indexes still get
# Libraries of every glibc system (PEP 600 and auditwheel's policies).
_OF_THE_SYSTEM: Final = re.compile(
    r"lib(c|m|dl|rt|pthread|util|nsl|resolv|gcc_s|stdc\+\+)\.so\.\d+|ld-linux-[\w-]+\.so\.\d+"
)


@dataclass(frozen=True, slots=True)
class Needs:
    """What one file needs: versions of symbols by library, and libraries; and its own name."""

    versions: tuple[str, ...]
    libraries: tuple[str, ...]
    soname: str


def tag_of(directory: Path) -> str:
    """Return the platform tag of a wheel that has the files of a directory."""
    machine = platform.machine()
    needs = {path: needs_of(path) for path in sorted(directory.rglob("*")) if is_elf(path)}
    own = {file_needs.soname for file_needs in needs.values()} | {path.name for path in needs}
    foreign = {
        name
        for file_needs in needs.values()
        for name in file_needs.libraries
        if name not in own and not _OF_THE_SYSTEM.fullmatch(name)
    }
    if foreign or not needs or platform.libc_ver()[0] != "glibc":
        return f"{platform.system().lower()}_{machine}"
    newest = max((glibc_of(file_needs) for file_needs in needs.values()), default=_OLDEST)
    major, minor = max(newest, _OLDEST)
    return f"manylinux_{major}_{minor}_{machine}"


def glibc_of(needs: Needs) -> tuple[int, int]:
    """Return the oldest glibc that has all symbols that a file needs."""
    matches = [_GLIBC.fullmatch(version) for version in needs.versions]
    return max(((int(match[1]), int(match[2])) for match in matches if match), default=(2, 0))


def is_elf(path: Path) -> bool:
    """Return whether a path is an ELF file of the kind that this module reads."""
    if not path.is_file() or path.is_symlink():
        return False
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def needs_of(path: Path) -> Needs:
    """Return what an ELF file needs."""
    data = path.read_bytes()
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    versions: list[str] = []
    dynamic: dict[int, list[str]] = {}
    for _, kind, _, _, offset, length, link, info, _, _ in sections:
        strings = sections[link][4] if link < count else 0
        if kind == _VERNEED:
            versions += _versions(data, offset, info, strings)
        elif kind == _DYNAMIC:
            for at in range(offset, offset + length, 16):
                key, value = struct.unpack_from("<qQ", data, at)
                dynamic.setdefault(key, [])
                if key in (_DT_NEEDED, _DT_SONAME):
                    dynamic[key].append(_text(data, strings + value))
    soname = dynamic.get(_DT_SONAME) or [path.name]
    return Needs(tuple(versions), tuple(dynamic.get(_DT_NEEDED, ())), soname[0])


def _versions(data: bytes, offset: int, count: int, strings: int) -> Iterator[str]:
    """Yield the names in a section of needed versions (ELF's ``Elf64_Verneed``)."""
    for _ in range(count):
        _, auxiliaries, _, first, following = struct.unpack_from("<HHIII", data, offset)
        at = offset + first
        for _ in range(auxiliaries):
            _, _, _, name, step = struct.unpack_from("<IHHII", data, at)
            yield _text(data, strings + name)
            at += step
        offset += following


def _text(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode("ascii")
