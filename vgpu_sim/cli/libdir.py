"""``tessera libdir`` prints where the client library is, for compilers that link with it."""

import click

from vgpu_sim import config


@click.command()
def command() -> None:
    """Print libcuda.so's directory, as for: gcc program.c -L"$(tessera libdir)" -lcuda.

    Inside `tessera run`, gcc and clang find the library without -L.
    """
    if not (config.LIBRARIES_DIR / "libcuda.so").exists():
        raise click.ClickException(
            f"no libcuda.so in {config.LIBRARIES_DIR}: build it with"
            " `python -m vgpu_sim.native.build`"
        )
    click.echo(config.LIBRARIES_DIR)
