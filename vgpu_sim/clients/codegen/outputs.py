"""The files that are generated for every client library.

In a folder of the library's name below ``vgpu_sim/native/generated``, which git ignores: ``api.h``
(prototypes of the implementations), ``entry.c`` (every exported symbol: checks, tracing,
unsupported names), ``resolver.c`` (the table behind a look-up by name), ``status_table.c`` and
``exports.map``. The library's page in ``docs`` is committed; a test compares it.
"""

from collections.abc import Mapping
from pathlib import Path

from vgpu_sim.clients.codegen import library, page, render
from vgpu_sim.hal.header import write_files


def sources(made: library.Library) -> dict[str, str]:
    """Return every generated source of a library and its text."""
    files = {
        "api.h": render.render_api(made),
        "entry.c": render.render_entry(made),
        "status_table.c": render.render_statuses(made),
        "exports.map": render.render_map(made),
    }
    if made.resolver:
        files["resolver.c"] = render.render_resolver(made)
    return files


def pages(made: library.Library, root: Path, headers: Mapping[str, str]) -> dict[Path, str]:
    """Return the library's page in the documentation below ``root``, if it has one, and its text.

    ``headers`` are the contracts' headers, whose numbers the page names.
    """
    if not made.page:
        return {}
    return {root / made.page.path: page.render_page(made, made.page, root, headers)}


def write(made: library.Library, generated: Path) -> None:
    """Write the sources of a library into the folder of its name below ``generated``."""
    write_files(generated / made.sources.name, sources(made))
