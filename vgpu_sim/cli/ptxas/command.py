"""``tessera ptxas`` runs the program ``ptxas`` and lets it check PTX with Tessera's compiler."""

import os

import click

from vgpu_sim import config
from vgpu_sim.system.python_process import interpreter


@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Check PTX as NVIDIA's ptxas does: with its options, messages and exit statuses.

    The output is the PTX, followed by a NUL byte: Tessera's driver compiles PTX. With
    `--emit container` it is compiled code of Tessera's instruction set. Triton, Inductor and XLA
    find this program in `tessera run`.
    """
    program = config.PROGRAMS_DIR / "ptxas"
    if not program.exists():
        raise click.ClickException(
            f"no ptxas in {config.PROGRAMS_DIR}: build it with `python -m vgpu_sim.native.build`"
        )
    environment = config.with_ptxas_check(config.own_environment(), interpreter())
    os.execve(program, ["ptxas", *arguments], environment)
