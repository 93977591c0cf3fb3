"""``tessera cc`` compiles CUDA C++ with clang, and takes nvcc's options."""

import shlex
import sys

import click

from vgpu_sim import config
from vgpu_sim.sdk import clang, driver, home
from vgpu_sim.sdk.errors import CompileError
from vgpu_sim.sdk.help import HELP
from vgpu_sim.sdk.options import parse

# nvcc's own exit status for a wrong command line or a failed step.
_FAILED = 1


@click.command(
    context_settings={
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
        "help_option_names": [],
    },
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Compile CUDA C++ with clang: tessera cc program.cu -o program."""
    try:
        options = parse([*_flags("PREPEND"), *arguments, *_flags("APPEND")])
        if options.action == "help":
            click.echo(HELP, nl=False)
        elif options.action == "include-dir":
            click.echo(driver.INCLUDE)
        elif options.action == "cuda-home":
            click.echo(home.make())
        elif options.action == "version":
            compiler = clang.find(options.ccbin)
            click.echo("tessera cc: CUDA C++ by clang")
            click.echo(
                "Cuda headers of Tessera, release 12.9, V12.9.0"
            )  # the words that builds seek
            click.echo(f"{compiler.text} ({compiler.path})")
        else:
            driver.compile_all(options)
    except CompileError as err:
        if str(err):
            click.echo(f"tessera cc: error: {err}", err=True)
        sys.exit(err.status)
    except OSError as err:
        click.echo(f"tessera cc: error: {err.filename}: {err.strerror}", err=True)
        sys.exit(_FAILED)


def _flags(place: str) -> list[str]:
    """Return the options in a variable that nvcc reads.

    Raises:
        CompileError: a quotation in it does not end.
    """
    variable = f"NVCC_{place}_FLAGS"
    try:
        return shlex.split(config.own_environment().get(variable, ""))
    except ValueError as err:
        raise CompileError(f"{variable}: {err}") from None
