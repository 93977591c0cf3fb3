"""Maps a PTX line to its place in the original program: ``.file`` and ``.loc`` (PTX ISA, "Debugging
Directives").

A ``.loc`` applies to the instructions below it, up to the next ``.loc`` or the end of the
function. The text comes from a tenant. Whatever it contains, the result is a place or none.
"""

import re
from dataclasses import replace
from typing import Final

from vgpu_sim.hal.compute.ports import FaultSite

_MOST_CHARACTERS: Final = 400
# Including constructs that may contain the start of a comment without beginning one.
_COMMENT: Final = re.compile(r'/\*.*?\*/|//[^\n]*|"[^"\n]*"', re.DOTALL)
_FILE: Final = re.compile(r'^[ \t]*\.file[ \t]+(\d{1,9})[ \t]+"([^"\n]*)"', re.MULTILINE)
_LOC: Final = re.compile(r"\s*\.loc\s+(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})(.*)")
_INLINED: Final = re.compile(r"inlined_at\s+(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})")
_FUNCTION: Final = re.compile(r"\s*(?:\.(?:visible|extern|weak|common)\s+)?\.(?:entry|func)\b")


def add_source(site: FaultSite, ptx: str) -> FaultSite:
    """Return ``site`` with two additions: the text of its PTX line, and the location in the
    original program from which this PTX line was compiled (``.file`` and ``.loc``), if it is
    known.
    """
    if site.ptx_line <= 0 or not ptx:
        return site
    if "/*" in ptx:
        ptx = _COMMENT.sub(_without_text, ptx)
    lines = ptx.split("\n", site.ptx_line)
    if len(lines) < site.ptx_line:
        return site
    text = _printable(" ".join(lines[site.ptx_line - 1][:_MOST_CHARACTERS].split()))
    return replace(site, text=text, source=_source(lines[: site.ptx_line - 1], ptx))


def _without_text(match: re.Match[str]) -> str:
    """Replace a block comment by its newlines; leave any other match as it is."""
    return "\n" * match[0].count("\n") if match[0].startswith("/*") else match[0]


def _source(above: list[str], ptx: str) -> str:
    for line in reversed(above):
        if match := _LOC.match(line):
            return _place(match, dict(_FILE.findall(ptx)))
        if _FUNCTION.match(line):
            break
    return ""


def _place(match: re.Match[str], files: dict[str, str]) -> str:
    file, line, column, attributes = match.groups()
    place = _format_place(file, line, column, files)
    inlined = _INLINED.search(attributes)
    if place and inlined:
        file, line, column = inlined.groups()
        place += f", inlined at {_format_place(file, line, column, files)}"
    return place


def _format_place(file: str, line: str, column: str, files: dict[str, str]) -> str:
    """Return ``name:line:column``; column 0 is omitted, line 0 means that there is no place."""
    if int(line) == 0:
        return ""
    name = _printable(files.get(file, f"file {file}"))
    return f"{name}:{int(line)}" + (f":{int(column)}" if int(column) else "")


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)
