"""The files that are generated for every client library.

A folder with the library's name in ``vgpu_sim/native/generated``, which git ignores, receives
``api.h`` (prototypes of the implementations), ``entry.c`` (every exported symbol: checks, tracing,
unsupported names), ``resolver.c`` (the table for look-ups by name), ``status_table.c`` and
``exports.map``. A library above the driver also receives ``thunks.c``, the implementations that
only call the driver. The library's page in ``docs`` is committed; a test compares it with the
generated text.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from vgpu_sim.clients.codegen import library, page, render, runtime_page, thunks
from vgpu_sim.hal.header import write_files


def sources(client_library: library.Library) -> dict[str, str]:
    """Return the texts of a library's generated sources, by file name."""
    files = {
        "api.h": render.render_api(client_library),
        "entry.c": render.render_entry(client_library),
        "status_table.c": render.render_statuses(client_library),
        "exports.map": render.render_map(client_library),
    }
    if client_library.resolver:
        files["resolver.c"] = render.render_resolver(client_library)
    if client_library.driver:
        files["thunks.c"] = thunks.render_thunks(client_library)
    return files


def pages(
    versions: Sequence[library.Library], root: Path, headers: Mapping[str, str]
) -> dict[Path, str]:
    """Return the path (below ``root``) and text of the documentation page of a library, given in
    all its major versions, if it has one.

    ``headers`` are the ABI headers, whose constants the page names.
    """
    newest_version = versions[-1]
    if not newest_version.page:
        return {}
    if newest_version.driver:
        return {
            root / newest_version.page.path: runtime_page.render_page(
                versions, newest_version.page, root
            )
        }
    return {
        root / newest_version.page.path: page.render_page(
            newest_version, newest_version.page, root, headers
        )
    }


def write(client_library: library.Library, generated: Path) -> None:
    """Write a library's sources into the folder with its name below ``generated``."""
    write_files(generated / client_library.folder, sources(client_library))
