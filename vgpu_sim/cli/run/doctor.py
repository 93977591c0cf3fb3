"""``tessera doctor`` checks whether a framework's environment works with Tessera."""

import shutil
import sys

import click

from vgpu_sim import config
from vgpu_sim.cli.run import command as run, preload

_MODULES = {"torch": "tessera_torch.doctor"}


@click.command()
@click.option(
    "--framework", type=click.Choice(sorted(_MODULES)), default="torch", show_default=True
)
@click.option(
    "--python",
    "python",
    default="python",
    show_default=True,
    metavar="PROGRAM",
    help="Check the packages of this Python.",
)
@click.option(
    "--board",
    default="h100-80gb",
    show_default=True,
    metavar="BOARD",
    help="Board of the GPU, outside of `tessera run`.",
)
@click.option(
    "--preload",
    "preload_major",
    type=click.Choice(preload.MAJORS),
    help="Check what `tessera run --preload` finds, outside of `tessera run`.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="Format of the findings.",
)
def command(
    framework: str, python: str, board: str, preload_major: str | None, output: str
) -> None:
    """Check PyTorch's environment, and print what to change.

    It checks the wheel, the plug-in, which libraries win, the compiler, the caches and the device.
    In a pod, run `python -m tessera_torch.doctor`.

    The exit status is 0 if everything works, 1 if something does not, and that of `tessera run` if
    the GPU or Python could not be started.
    """
    if shutil.which(python) is None:
        raise click.ClickException(f"no program {python!r}: name your Python with --python")
    check = (python, "-m", _MODULES[framework], "-o", output)
    if config.is_in_run():
        sys.exit(run.run_program(check, config.own_environment(), []))
    preloading = ("--preload", preload_major) if preload_major else ()
    run.command.main(args=["--board", board, *preloading, "--", *check], prog_name="tessera run")
