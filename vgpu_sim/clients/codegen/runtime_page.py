"""Renders the documentation page of a library above the driver, for all its major versions."""

from collections.abc import Sequence
from pathlib import Path

from vgpu_sim.clients.codegen.library import Function, Library, Page
from vgpu_sim.clients.codegen.page import client_variables
from vgpu_sim.clients.codegen.reasons import unsupported_lines


def _majors(versions: Sequence[Library], symbol: str, *, supported: bool) -> list[str]:
    """Return the major versions whose function of this name is supported, or is not."""
    return [
        str(version.major)
        for version in versions
        for function in version.functions
        if function.symbol == symbol and version.is_supported(function) is supported
    ]


def _newest(versions: Sequence[Library]) -> list[tuple[Library, Function]]:
    """Return each symbol's function in the newest version that exports it, sorted by symbol."""
    newest_by_symbol = {f.symbol: (version, f) for version in versions for f in version.functions}
    return [newest_by_symbol[symbol] for symbol in sorted(newest_by_symbol)]


def _sentence(library: Library) -> str:
    count = sum(1 for function in library.functions if library.is_supported(function))
    return f"`{library.soname}` exports {len(library.functions)} functions; {count} are supported."


def _supported_rows(versions: Sequence[Library]) -> list[str]:
    rows = ["| function | major versions | class | driver |", "|---|---|---|---|"]
    for _, function in _newest(versions):
        majors = _majors(versions, function.symbol, supported=True)
        if majors and not function.stream:
            called = f"`{function.driver}`" if function.driver else ""
            rows.append(
                f"| `{function.symbol}` | {', '.join(majors)} | {function.kind} | {called} |"
            )
    return rows


def _variants(versions: Sequence[Library]) -> str:
    symbols = [
        f.symbol
        for _, f in _newest(versions)
        if f.stream and _majors(versions, f.symbol, supported=True)
    ]
    total = sum(1 for _, f in _newest(versions) if f.stream)
    return (
        f"And {len(symbols)} of {total} variants for per-thread default streams (`_ptsz`, `_ptds`)."
    )


def _waiting_rows(versions: Sequence[Library]) -> list[str]:
    """Return the lines of functions whose driver function is not implemented."""
    rows = []
    for library, function in _newest(versions):
        if function.kind and not function.stream and not library.is_supported(function):
            names = ", ".join(f"`{name}`" for name in library.missing(function))
            rows.append(f"| `{function.symbol}` | {names} |")
    return ["| function | driver function |", "|---|---|", *rows] if rows else ["None."]


def _unsupported_rows(versions: Sequence[Library], page: Page) -> list[str]:
    missing = [f.symbol for _, f in _newest(versions) if not f.kind and not f.stream]
    return unsupported_lines(missing, page)


def render_page(versions: Sequence[Library], page: Page, root: Path) -> str:
    """Return the text of the documentation page as Markdown."""
    newest = versions[-1]
    folder = newest.sources.relative_to(root)
    lines = [
        f"# {page.title}: what is supported",
        "",
        f"Generated from `{folder}/functions.toml` by `python -m vgpu_sim.native.generate`.",
        "",
        " ".join(_sentence(version) for version in versions)
        + f" The others return `{newest.unsupported}` ({newest.unsupported_code()}), log that once"
        " on stderr, and end the program if `TESSERA_STRICT=1`.",
        "",
        page.classes,
        "",
        page.limits,
        "",
        "## Variables",
        "",
        "| variable | meaning |",
        "|---|---|",
        *(
            f"| `{name}` | {meaning} |"
            for name, meaning in {**client_variables(), **newest.variables}.items()
        ),
        "",
        "## Supported",
        "",
        *_supported_rows(versions),
        "",
        _variants(versions),
        "",
        "## Waiting for the driver",
        "",
        "These functions call a driver function that `libcuda.so.1` does not implement yet:",
        "",
        *_waiting_rows(versions),
        "",
        "## Not supported",
        "",
        *_unsupported_rows(versions, page),
        "",
    ]
    return "\n".join(lines)
