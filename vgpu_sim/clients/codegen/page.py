"""Renders the documentation page of a client library: variables, limits, implemented and
unsupported symbols.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from vgpu_sim.clients.codegen.library import Function, Library, Page
from vgpu_sim.clients.codegen.reasons import unsupported_lines

CLIENTS = Path(__file__).parents[1]
MIB = 1 << 20


def client_variables() -> Mapping[str, str]:
    """Return the environment variables that every client library reads, with their meanings."""
    text = (CLIENTS / "common" / "variables.toml").read_text(encoding="ascii")
    variables: Mapping[str, str] = tomllib.loads(text)["variables"]
    return variables


def _constants(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the values of the ABI headers' constants by name; sizes are in MiB."""
    text = "".join(headers.values())
    definitions = re.findall(r"#define TESSERA_(\w+) UINT64_C\((\w+)\)", text)
    values = {name: int(value, 0) for name, value in definitions}
    return {
        name: f"{value // MIB} MiB" if name.endswith("_BYTES") and value >= MIB else str(value)
        for name, value in values.items()
    }


def _find_refusals(library: Library) -> list[str]:
    """Return the unsupported uses of implemented functions, as named in their messages."""
    texts = (path.read_text(encoding="ascii") for path in library.sources.rglob("*.c"))
    return sorted(
        refusal for text in texts for refusal in re.findall(r'TSR_REFUSE\(\s*"(.+?)"\)', text)
    )


def _since(function: Function) -> str:
    """Return the first version of the API that has the function."""
    return function.version or f"{function.since // 1000}.{function.since % 1000 // 10}"


def _implemented_rows(implemented_functions: list[Function], page: Page) -> list[str]:
    """Return the table rows for implemented functions. The rows have a column of versions only if
    the page has one.
    """
    if not page.version:
        rows = [f"| `{f.symbol}` | {f.kind} |" for f in implemented_functions]
        return ["| function | class |", "|---|---|", *rows]
    rows = [f"| `{f.symbol}` | {_since(f)} | {f.kind} |" for f in implemented_functions]
    return [f"| function | since {page.version} | class |", "|---|---|---|", *rows]


def _unsupported_rows(library: Library, page: Page) -> list[str]:
    missing = [f.symbol for f in library.functions if not f.kind and not f.stream]
    lines = unsupported_lines(missing, page)
    variants = sum(1 for f in library.functions if f.stream and not f.kind)
    if variants:
        lines += ["", f"And {variants} variants for per-thread default streams (`_ptsz`, `_ptds`)."]
    return lines


def render_page(library: Library, page: Page, root: Path, headers: Mapping[str, str]) -> str:
    """Return the text of a library's documentation page as Markdown."""
    implemented_functions = sorted((f for f in library.functions if f.kind), key=lambda f: f.symbol)
    folder = library.sources.relative_to(root)
    lines = [
        f"# {page.title}: what is supported",
        "",
        f"Generated from `{folder}/functions.toml` by `python -m vgpu_sim.native.generate`.",
        "",
        f"`{library.soname}` exports {len(library.functions)} symbols;"
        f" {len(implemented_functions)} are implemented."
        f" The others return `{library.unsupported}` ({library.unsupported_code()}),"
        f"{' log that once on stderr,' if library.says_unsupported else ''} and end the program if"
        " `TESSERA_STRICT=1`.",
        "",
        page.classes,
        "",
        "## Variables",
        "",
        "| variable | meaning |",
        "|---|---|",
        *(
            f"| `{name}` | {meaning} |"
            for name, meaning in {**client_variables(), **library.variables}.items()
        ),
        "",
        "## Limits",
        "",
        page.limits.format(**_constants(headers)),
        "",
        *(f"- {part}" for part in _find_refusals(library)),
        "",
        "## Implemented",
        "",
        *_implemented_rows(implemented_functions, page),
        "",
        "## Not supported",
        "",
        *_unsupported_rows(library, page),
        "",
    ]
    return "\n".join(lines)
