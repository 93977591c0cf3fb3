"""The files that are generated for every client library, and where they are written.

In a folder of the library's name below ``vgpu_sim/native/generated``, which git ignores: ``api.h``
(prototypes of the implementations), ``entry.c`` (every exported symbol: checks, tracing,
unsupported names), ``resolver.c`` (the table behind a look-up by name), ``status_table.c`` and
``exports.map``. The library's page in ``docs`` is committed; a test compares it.
"""

from pathlib import Path

from vgpu_sim.clients.codegen import library, page, render
from vgpu_sim.hal.header import GENERATED, write_files

CLIENTS = Path(__file__).parents[1]
ROOT = CLIENTS.parents[1]
RDMA_CLIENTS = ROOT / "vgpu_sim" / "native"
LIBRARIES = (
    *(CLIENTS / name for name in ("libcuda", "libnvml")),
    *(RDMA_CLIENTS / name for name in ("libibverbs", "librdmacm")),
)


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


def pages(made: library.Library) -> dict[Path, str]:
    """Return the library's page in the documentation, if it has one, and its text."""
    return {ROOT / made.page.path: page.render_page(made, made.page)} if made.page else {}


def write(made: library.Library, generated: Path) -> None:
    """Write the sources of a library into the folder of its name below ``generated``."""
    write_files(generated / made.sources.name, sources(made))


def write_all(generated: Path = GENERATED) -> None:
    """Write the sources of all client libraries below ``generated``."""
    for folder in LIBRARIES:
        write(library.load(folder), generated)


def write_pages() -> None:
    """Write the pages of all client libraries into ``docs``."""
    for folder in LIBRARIES:
        for path, text in pages(library.load(folder)).items():
            path.write_text(text, encoding="ascii")
