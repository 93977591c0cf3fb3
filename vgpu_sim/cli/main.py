"""Entry point of ``tessera``: a click group whose verbs are imported on first use.

A verb is added by one line in ``_VERBS`` and one module beside this file that exposes a click
command. Importing lazily keeps ``tessera --help`` and shell completion fast: LLVM is loaded by the
verbs that compile, and by no other.
"""

from collections.abc import Callable

import click


def _run() -> click.Command:
    from vgpu_sim.cli import run

    return run.command


def _smi() -> click.Command:
    from vgpu_sim.cli import smi

    return smi.command


def _mig() -> click.Command:
    from vgpu_sim.cli import mig_commands

    return mig_commands.command


def _ptx() -> click.Command:
    from vgpu_sim.cli import ptx

    return ptx.command


def _isa() -> click.Command:
    from vgpu_sim.cli import isa

    return isa.command


_VERBS: dict[str, Callable[[], click.Command]] = {
    "isa": _isa,
    "mig": _mig,
    "ptx": _ptx,
    "run": _run,
    "smi": _smi,
}


class _LazyGroup(click.Group):
    """A group that knows its verbs' names without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        load = _VERBS.get(cmd_name)
        return load() if load is not None else None


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tessera", prog_name="tessera")
def main() -> None:
    """Simulated GPUs that run CUDA programs: run, inspect, slice, compile."""
