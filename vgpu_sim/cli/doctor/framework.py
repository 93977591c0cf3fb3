"""Runs a framework's own doctor in the user's Python, on a simulated GPU."""

import shutil
import sys
from typing import Final

import click

from vgpu_sim import config
from vgpu_sim.cli.run import command as run

MODULES: Final = {"torch": "tessera_torch.doctor"}


def check(name: str, python: str, board: str, preload_choice: str | None, output: str) -> None:
    """Run the doctor of a framework, and exit with its status. Raises click.ClickException."""
    if shutil.which(python) is None:
        raise click.ClickException(f"no program {python!r}: name your Python with --python")
    program = (python, "-m", MODULES[name], "-o", output)
    if config.is_in_run():
        sys.exit(run.run_program(program, config.own_environment(), []))
    preloading = ("--preload", preload_choice) if preload_choice else ()
    run.command.main(args=["--board", board, *preloading, "--", *program], prog_name="tessera run")
