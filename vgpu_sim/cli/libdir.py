"""``tessera libdir``: where the client library is, for compilers that link with it."""

import click

from vgpu_sim import config


@click.command()
def command() -> None:
    """Print the directory of libcuda.so, as in: gcc program.c -L"$(tessera libdir)" -lcuda.

    Inside of `tessera run` gcc and clang find it without -L.
    """
    if not (config.LIBRARIES_DIR / "libcuda.so").exists():
        raise click.ClickException(
            f"no libcuda.so in {config.LIBRARIES_DIR}: build it with"
            " `python -m vgpu_sim.native.build`"
        )
    click.echo(config.LIBRARIES_DIR)
