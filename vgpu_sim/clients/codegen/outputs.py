"""The files that are generated for every client library.

A folder with the library's name in ``vgpu_sim/native/generated``, which git ignores, receives
``api.h`` (prototypes of the implementations), ``entry.c`` (every exported symbol: checks, tracing,
unsupported names), ``resolver.c`` (the table for look-ups by name), ``status_table.c`` and
``exports.map``. The library's page in ``docs`` is committed; a test compares it with the
generated text.
"""

from collections.abc import Mapping
from pathlib import Path

from vgpu_sim.clients.codegen import library, page, render
from vgpu_sim.hal.header import write_files


def sources(made: library.Library) -> dict[str, str]:
    """Return the texts of a library's generated sources, by file name."""
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
    """Return the path (below ``root``) and text of the library's documentation page, if it has one.

    ``headers`` are the ABI headers, whose constants the page names.
    """
    if not made.page:
        return {}
    return {root / made.page.path: page.render_page(made, made.page, root, headers)}


def write(made: library.Library, generated: Path) -> None:
    """Write a library's sources into the folder with its name below ``generated``."""
    write_files(generated / made.sources.name, sources(made))
