"""Write the generated files of every client library: ``python -m vgpu_sim.clients.codegen``.

Its C goes into ``vgpu_sim/native/generated`` (``python -m vgpu_sim.native.build`` does the same
before it compiles), its page into ``docs``.
"""

import argparse

from vgpu_sim.clients.codegen import outputs


def main() -> None:
    """Write those of all libraries."""
    outputs.write_all()
    outputs.write_pages()


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m vgpu_sim.clients.codegen", description=__doc__
    ).parse_args()
    main()
