"""Write what is generated for every client library: ``python -m vgpu_sim.native.codegen``.

In a library's folder: ``generated/api.h`` (prototypes of the implementations),
``generated/entry.c`` (every exported symbol: checks, tracing, unsupported names),
``generated/resolver.c`` (the table behind a look-up by name), ``generated/status_table.c`` and
``generated/exports.map``; and the library's page in ``docs``. They are committed; a test compares.
"""

import argparse
from pathlib import Path

from vgpu_sim.native.codegen import library, page, render

NATIVE = Path(__file__).parents[1]
ROOT = NATIVE.parents[1]
LIBRARIES = tuple(NATIVE / name for name in ("libcuda", "libibverbs", "libnvml", "librdmacm"))


def outputs(made: library.Library) -> dict[Path, str]:
    """Return every generated file of a library and its text."""
    generated = made.sources / "generated"
    files = {
        generated / "api.h": render.render_api(made),
        generated / "entry.c": render.render_entry(made),
        generated / "status_table.c": render.render_statuses(made),
        generated / "exports.map": render.render_map(made),
    }
    if made.resolver:
        files[generated / "resolver.c"] = render.render_resolver(made)
    if made.page:
        files[ROOT / made.page.path] = page.render_page(made, made.page)
    return files


def write(made: library.Library) -> None:
    """Write the generated files of a library."""
    for path, text in outputs(made).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")


def main() -> None:
    """Write those of all libraries."""
    for sources in LIBRARIES:
        write(library.load(sources))


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m vgpu_sim.native.codegen", description=__doc__
    ).parse_args()
    main()
