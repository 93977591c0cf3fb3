"""Reads the description of a client library: ``functions.toml`` and ``library.toml`` in the
library's folder.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CLASSES = ("local", "async", "sync")
_CLASSES = (
    "*local*: answered in the process. *async*: put into the ring of a stream. *sync*: waits for"
    " the device or for a reply of the context's worker."
)
_KEYS = {"name", "symbol", "since", "stream", "class", "prototype", "returns", "version"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a C prototype."""

    type: str
    name: str


@dataclass(frozen=True, slots=True)
class Function:
    """An exported symbol. ``kind`` is its class (one of ``CLASSES``), or empty for an unsupported
    symbol.

    ``returns`` is empty for a function that returns the library's status, and ``version`` is
    empty for a symbol without version.
    """

    name: str
    symbol: str
    since: int
    stream: str
    kind: str
    parameters: tuple[Parameter, ...]
    returns: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """A value of the library's status type, such as an error code."""

    code: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Ready:
    """The check that the library is initialised, and the functions that do not make this check."""

    header: str
    call: str
    without: frozenset[str]


@dataclass(frozen=True, slots=True)
class Page:
    """Texts of the library's documentation page."""

    path: str
    title: str
    noun: str
    version: str
    limits: str
    classes: str


@dataclass(frozen=True, slots=True)
class Library:
    """A client library; ``sources`` is its folder. ``library.toml`` documents the other fields."""

    sources: Path
    soname: str
    header: str
    status: str
    unsupported: str
    functions: tuple[Function, ...]
    statuses: tuple[Status, ...]
    handles: frozenset[str]
    results_64_bit: frozenset[str]
    results_32_bit: frozenset[str]
    structures: Mapping[str, tuple[str, ...]]
    """The fields that the trace prints for structures passed by pointer, by the structure's
    name.
    """
    variables: Mapping[str, str]
    resolver: bool
    ready: Ready | None
    page: Page | None
    versions: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """The version nodes of the exported symbols, in order. Each node also contains the functions of
    the previous nodes.
    """
    sets_errno: bool = False
    """Whether an unsupported function returns -1 and sets errno instead of returning the status."""
    says_unsupported: bool = True
    """Whether an unsupported call is logged on stderr. It is False for libraries whose callers
    expect the status.
    """
    data: Mapping[str, str] = field(default_factory=dict)
    """Exported variables, which the hand-written sources define, with their versions."""

    def later_nodes(self, version: str) -> tuple[str, ...]:
        """Return the version nodes that come after ``version`` in the linker's version script.

        Each function of ``version`` is also exported in these later nodes.
        """
        return self.kept[self.kept.index(version) + 1 :] if version in self.kept else ()

    def unsupported_code(self) -> int:
        """Return the number of the status "not supported"."""
        return next(one.code for one in self.statuses if one.name == self.unsupported)


def _parameters(prototype: str) -> tuple[Parameter, ...]:
    if prototype in ("", "void"):
        return ()
    found = []
    for part in prototype.split(","):
        match = re.fullmatch(r"\s*(.*?)(\w+)\s*", part)
        if match is None or not match[1].strip():
            raise ValueError(f"not a parameter: {part!r}")
        found.append(Parameter(match[1].strip(), match[2]))
    return tuple(found)


def _function(row: Mapping[str, Any]) -> Function:
    unknown = set(row) - _KEYS
    kind = row.get("class", "")
    if unknown or (kind and kind not in CLASSES) or bool(kind) != ("prototype" in row):
        raise ValueError(
            f"functions.toml: unknown key, unknown class or missing prototype in {row}"
        )
    return Function(
        row["name"],
        row.get("symbol", row["name"]),
        row.get("since", 0),
        row.get("stream", ""),
        kind,
        _parameters(row.get("prototype", "")),
        row.get("returns", ""),
        row.get("version", ""),
    )


def read_functions(path: Path) -> tuple[tuple[Function, ...], tuple[Status, ...]]:
    """Read a table of functions and statuses.

    Raises:
        ValueError: a function has an unknown key, an unknown class, a class without a prototype, or
            a prototype without a class; or a symbol is listed twice.
    """
    document = tomllib.loads(path.read_text(encoding="ascii"))
    functions = tuple(_function(row) for row in document["functions"])
    if len({function.symbol for function in functions}) != len(functions):
        raise ValueError("functions.toml: a symbol is listed twice")
    return functions, tuple(Status(**row) for row in document["errors"])


def _page(document: Mapping[str, Any]) -> Page | None:
    if "page" not in document:
        return None
    limits = document.get("limits", {}).get("text", "").strip()
    classes = document.get("classes", _CLASSES)
    return Page(
        document["page"], document["title"], document["noun"], document["version"], limits, classes
    )


def load(sources: Path) -> Library:
    """Read the library whose folder is ``sources``.

    Raises:
        ValueError: ``functions.toml`` is invalid, or does not list the status "not supported".
        KeyError: ``library.toml`` lacks a key.
    """
    functions, statuses = read_functions(sources / "functions.toml")
    document = tomllib.loads((sources / "library.toml").read_text(encoding="ascii"))
    ready = document.get("ready")
    versions = tuple(document.get("versions", ()))
    if document["unsupported"] not in {one.name for one in statuses}:
        raise ValueError(f"functions.toml does not list the status {document['unsupported']}")
    for one in functions:
        if bool(one.version) != bool(versions) or (versions and one.version not in versions):
            raise ValueError(f"functions.toml: {one.symbol}: unknown version {one.version!r}")
    return Library(
        sources=sources,
        soname=document["soname"],
        header=document["header"],
        status=document["status"],
        unsupported=document["unsupported"],
        functions=functions,
        statuses=statuses,
        handles=frozenset(document.get("handles", ())),
        results_64_bit=frozenset(document.get("results_64_bit", ())),
        results_32_bit=frozenset(document.get("results_32_bit", ())),
        structures={name: tuple(fields) for name, fields in document.get("structures", {}).items()},
        variables=document.get("variables", {}),
        resolver=document.get("resolver", False),
        ready=Ready(ready["header"], ready["call"], frozenset(ready["without"])) if ready else None,
        page=_page(document),
        versions=versions,
        kept=tuple(document.get("kept", ())),
        sets_errno=document.get("sets_errno", False),
        says_unsupported=document.get("says_unsupported", True),
        data=document.get("data", {}),
    )
