"""What nvcc reads in another way than clang: such places of sources and headers, and their change.

clang reads changed copies of these files by a virtual file system, under the files' own names, so
that messages, ``__FILE__`` and lines of debugging are those of the files.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from vgpu_sim.records import dataclass

_LITERAL = r'R"(?P<fence>[^(\s]*)\(.*?\)(?P=fence)"|"(?:\\.|[^"\\\n])*"'
_SKIPPED = rf"//[^\n]*|/\*.*?\*/|\b\d[\w.']*|{_LITERAL}|'(?:\\.|[^'\\\n])*'"
_SPACES = "__(?:shared|constant|device|managed)__"
_PLACE = re.compile(
    rf"(?P<space>\b{_SPACES}\s+(?:(?:static|extern|const|volatile|{_SPACES})\s+)*)alignas(?=\s*\()"
    r"|(?P<assembly>\b(?:asm|__asm__|__asm)\b(?:\s*\b(?:volatile|__volatile__)\b)?\s*\()"
    rf"|(?:{_SKIPPED})",
    re.DOTALL,
)
_TEMPLATE = re.compile(rf"(?:\s|//[^\n]*|/\*.*?\*/|{_LITERAL})*(?=(?P<next>.))", re.DOTALL)
# A register has a longer name than a modifier of an operand, such as the `c` of `%c0`.
_REGISTER = re.compile(r"(?<!%)((?:%%)*)%(?=[a-z_]{2})")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)
_IS_CANDIDATE = re.compile(rb"\balignas\b|%[a-z_]{2}")


def rewrite(text: str) -> str:
    """Return the text of a file with the places that clang does not accept changed.

    ``alignas`` behind a memory space becomes ``_Alignas``, which clang accepts there in C++ too; a
    register in assembly with operands, such as ``%laneid``, gets the second percent sign.
    """
    parts, copied_end = [], 0
    for place in _places(text):
        if place["space"] is not None:
            parts += [text[copied_end : place.end("space")], "_Alignas"]
            copied_end = place.end()
        else:
            assembly = _TEMPLATE.match(text, place.end())
            if assembly is not None and assembly["next"] == ":":
                changed = _REGISTER.sub(r"\1%%", assembly[0])
                parts += [text[copied_end : place.end()], changed]
                copied_end = assembly.end()
    return "".join([*parts, text[copied_end:]])


def _places(text: str) -> Iterator[re.Match[str]]:
    for place in _PLACE.finditer(text):
        if place["space"] is not None or place["assembly"] is not None:
            yield place


@dataclass(frozen=True, slots=True)
class Files:
    """A source and the headers that it includes; ``own`` is what the source's author wrote."""

    all: dict[Path, bytes]
    own: bytes

    def rewrite(self) -> dict[Path, str]:
        """Return the new texts of the files that clang does not accept."""
        changed_texts = {}
        for path, content in self.all.items():
            text = content.decode("latin-1")
            if _IS_CANDIDATE.search(content) and (changed := rewrite(text)) != text:
                changed_texts[path] = changed
        return changed_texts


def read_files(source: Path, folders: Sequence[Path]) -> Files:
    """Read a source and the headers that it includes from ``folders``.

    Headers of the author are those that ``#include "..."`` finds from the file that includes them.
    """
    read: dict[Path, bytes] = {}
    own: set[Path] = {source.absolute()}
    waiting = [source.absolute()]
    while waiting:
        path = waiting.pop()
        if path in read:
            continue
        read[path] = path.read_bytes()
        for quoted, bracketed in _INCLUDE.findall(read[path].decode("latin-1")):
            near = _first_file(quoted, [path.parent]) if quoted else []
            if path in own:
                own.update(near)
            waiting += near or _first_file(quoted or bracketed, folders)
    return Files(read, b"\n".join(read[path] for path in sorted(own)))


def _first_file(name: str, folders: Iterable[Path]) -> list[Path]:
    for folder in folders:
        if (path := (folder / name).absolute()).is_file():
            return [path]
    return []


def include_folders(arguments: Sequence[str]) -> list[Path]:
    """Return the folders that ``-I`` names in a compiler's arguments."""
    return [
        Path(argument[2:])
        for argument in arguments
        if argument.startswith("-I") and len(argument) > 2
    ]


def overlay(copies: dict[Path, Path]) -> str:
    """Return the description of a virtual file system that has copies in the place of files."""
    roots = [
        {"type": "file", "name": str(path), "external-contents": str(copy)}
        for path, copy in copies.items()
    ]
    return json.dumps(
        {"version": 0, "case-sensitive": "true", "use-external-names": "false", "roots": roots}
    )
