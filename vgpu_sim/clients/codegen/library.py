"""Reads the description of a client library: ``functions.toml`` and ``library.toml`` in the
library's folder.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from vgpu_sim.records import dataclass

CLASSES = ("local", "async", "sync")
_CLASSES = (
    "*local*: answered in the process. *async*: put into the ring of a stream. *sync*: waits for"
    " the device or for a reply of the context's worker."
)
_KEYS = {"name", "symbol", "since", "stream", "class", "prototype", "returns", "version"}
_RUNTIME_KEYS = {"majors", "driver", "args", "needs"}


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
    empty for a symbol without version. A library above the driver has functions with the other
    fields: the generated implementation calls ``driver`` with ``args`` (by default the
    parameters). The function is supported if the driver implements all functions in ``needs``. For
    a variant for per-thread default streams, ``base`` is the symbol whose implementation it uses.
    """

    name: str
    symbol: str
    since: int
    stream: str
    kind: str
    parameters: tuple[Parameter, ...]
    returns: str = ""
    version: str = ""
    driver: str = ""
    args: str = ""
    needs: frozenset[str] = frozenset()
    base: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """A value of the library's status type, such as an error code."""

    code: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Ready:
    """The check that the library is initialised, and the functions that do not make this check.

    ``instead`` lists functions that make another check, by that check's name.
    """

    header: str
    call: str
    without: frozenset[str]
    instead: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def check_of(self, symbol: str) -> str:
        """Return the name of the check that a function makes, or an empty string."""
        if symbol in self.without:
            return ""
        return next(
            (name for name, symbols in self.instead.items() if symbol in symbols), self.call
        )


@dataclass(frozen=True, slots=True)
class Record:
    """The function that every returned status passes through, and the functions whose status does
    not.
    """

    header: str
    call: str
    without: frozenset[str]


@dataclass(frozen=True, slots=True)
class Variants:
    """How stream variants of functions are made: the type of streams, the handle of the per-thread
    default stream, and the driver function without which such streams do not work.
    """

    stream: str
    per_thread: str
    needs: str


@dataclass(frozen=True, slots=True)
class Page:
    """Texts of the library's documentation page.

    ``reasons`` maps patterns of unsupported symbols to the reason why they are unsupported; without
    any, the page groups them by ``noun``.
    """

    path: str
    title: str
    noun: str
    version: str
    limits: str
    classes: str
    reasons: Mapping[str, str]


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
    per_thread: str = ""
    """The variable of the thread that is set in variants for per-thread default streams; empty: the
    library has none.
    """
    data: Mapping[str, str] = field(default_factory=dict)
    """Exported variables, which the hand-written sources define, with their versions."""
    major: int = 0
    """The major version, if several are built from the same sources."""
    node: str = ""
    """The version node of all exported symbols, if there is only one."""
    record: Record | None = None
    driver: Mapping[str, Function] = field(default_factory=dict)
    """The functions of the driver below this library, by symbol."""
    variants: Variants | None = None

    @property
    def folder(self) -> str:
        """The name of the folder of the library's generated sources."""
        return f"{self.sources.name}{self.major or ''}"

    def is_supported(self, function: Function) -> bool:
        """Return whether a function is implemented, here and in the driver below."""
        return bool(function.kind) and not self.missing(function)

    def missing(self, function: Function) -> list[str]:
        """Return the driver functions that a function needs and the driver does not implement."""
        return sorted(name for name in function.needs if not self.driver[name].kind)

    def later_nodes(self, version: str) -> tuple[str, ...]:
        """Return the version nodes that come after ``version`` in the linker's version script.

        Each function of ``version`` is also exported in these later nodes.
        """
        return self.kept[self.kept.index(version) + 1 :] if version in self.kept else ()

    def unsupported_code(self) -> int:
        """Return the number of the status "not supported"."""
        return next(status.code for status in self.statuses if status.name == self.unsupported)


def _parameters(prototype: str) -> tuple[Parameter, ...]:
    if prototype in ("", "void"):
        return ()
    parameters = []
    for part in prototype.split(","):
        match = re.fullmatch(r"\s*(.*?)(\w+)\s*", part)
        if match is None or not match[1].strip():
            raise ValueError(f"not a parameter: {part!r}")
        parameters.append(Parameter(match[1].strip(), match[2]))
    return tuple(parameters)


def _function(row: Mapping[str, Any]) -> Function:
    unknown = set(row) - _KEYS - _RUNTIME_KEYS
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
        row.get("driver", ""),
        row.get("args", ""),
        frozenset(row.get("needs", ())) | ({row["driver"]} if "driver" in row else set()),
    )


def _with_variants(
    functions: tuple[Function, ...], variants: Variants | None = None
) -> tuple[Function, ...]:
    """Return the functions, with the class and prototype of its base in each variant for per-thread
    default streams that has no implementation of its own, if the base is implemented.

    In a library with ``variants``, the base must have a stream as parameter.
    """
    plain = {function.symbol: function for function in functions if function.kind}
    needs = {variants.needs} if variants else set()
    completed_functions = []
    for function in functions:
        base = (
            plain.get(function.symbol.removesuffix(f"_{function.stream}"))
            if function.stream
            else None
        )
        if base and variants and variants.stream not in {part.type for part in base.parameters}:
            base = None
        if base is None or function.kind:
            completed_functions.append(function)
        else:
            completed_functions.append(
                replace(
                    function,
                    kind=base.kind,
                    parameters=base.parameters,
                    needs=base.needs | needs,
                    base=base.symbol,
                )
            )
    return tuple(completed_functions)


def _refused_rows(document: Mapping[str, Any], major: int) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each name in the ``refused`` lists, which have only names."""
    for listed in document.get("refused", ()):
        if major in listed.get("majors", (major,)):
            yield from ({"name": name} for name in listed["names"].split())


def read_functions(path: Path, major: int = 0) -> tuple[tuple[Function, ...], tuple[Status, ...]]:
    """Read a table of functions and statuses, or those lines that are for one major version.

    Raises:
        ValueError: a function has an unknown key, an unknown class, a class without a prototype, or
            a prototype without a class; or a symbol is listed twice.
    """
    document = tomllib.loads(path.read_text(encoding="ascii"))
    rows = [row for row in document["functions"] if major in row.get("majors", (major,))]
    functions = tuple(_function(row) for row in (*rows, *_refused_rows(document, major)))
    if len({function.symbol for function in functions}) != len(functions):
        raise ValueError("functions.toml: a symbol is listed twice")
    return functions, tuple(Status(**row) for row in document["errors"])


def _page(document: Mapping[str, Any]) -> Page | None:
    if "page" not in document:
        return None
    limits = document.get("limits", {}).get("text", "").strip()
    classes = document.get("classes", _CLASSES)
    return Page(
        document["page"],
        document["title"],
        document["noun"],
        document["version"],
        limits,
        classes,
        document.get("reasons", {}),
    )


def _ready(document: Mapping[str, Any]) -> Ready | None:
    if "ready" not in document:
        return None
    ready = document["ready"]
    instead = {name: frozenset(symbols) for name, symbols in ready.get("instead", {}).items()}
    return Ready(ready["header"], ready["call"], frozenset(ready["without"]), instead)


def _record(document: Mapping[str, Any]) -> Record | None:
    if "record" not in document:
        return None
    record = document["record"]
    return Record(record["header"], record["call"], frozenset(record["without"]))


def _check_driver(functions: tuple[Function, ...], driver: Mapping[str, Function]) -> None:
    for function in functions:
        if missing := function.needs - set(driver):
            raise ValueError(f"functions.toml: {function.symbol}: the driver has no {min(missing)}")


def majors(sources: Path) -> tuple[int, ...]:
    """Return the major versions that library.toml in the folder ``sources`` lists, or (0,)."""
    text = (sources / "library.toml").read_text(encoding="ascii")
    return tuple(tomllib.loads(text).get("majors", (0,)))


def load_each(sources: Path) -> tuple[Library, ...]:
    """Read the libraries that are built from the folder ``sources``: one for each major version
    that library.toml lists, by default one.
    """
    return tuple(load(sources, major) for major in majors(sources))


def load(sources: Path, major: int = 0) -> Library:
    """Read the library whose folder is ``sources``.

    Raises:
        ValueError: ``functions.toml`` is invalid, does not list the status "not supported", or
            names a function that the driver does not export.
        KeyError: ``library.toml`` lacks a key.
    """
    functions, statuses = read_functions(sources / "functions.toml", major)
    document = tomllib.loads((sources / "library.toml").read_text(encoding="ascii"))
    driver: dict[str, Function] = {}
    if "driver" in document:
        below, _ = read_functions(sources.parent / document["driver"] / "functions.toml")
        driver = {function.symbol: function for function in _with_variants(below)}
    variants = Variants(**document["variants"]) if "variants" in document else None
    if variants or "per_thread" in document:
        functions = _with_variants(functions, variants)
    _check_driver(functions, driver)
    versions = tuple(document.get("versions", ()))
    if document["unsupported"] not in {status.name for status in statuses}:
        raise ValueError(f"functions.toml does not list the status {document['unsupported']}")
    for function in functions:
        if bool(function.version) != bool(versions) or (
            versions and function.version not in versions
        ):
            raise ValueError(
                f"functions.toml: {function.symbol}: unknown version {function.version!r}"
            )
    return Library(
        sources=sources,
        soname=document["soname"].format(major=major),
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
        ready=_ready(document),
        page=_page(document),
        versions=versions,
        kept=tuple(document.get("kept", ())),
        sets_errno=document.get("sets_errno", False),
        says_unsupported=document.get("says_unsupported", True),
        per_thread=document.get("per_thread", ""),
        data=document.get("data", {}),
        major=major,
        node=document.get("node", "").format(major=major),
        record=_record(document),
        driver=driver,
        variants=variants,
    )
