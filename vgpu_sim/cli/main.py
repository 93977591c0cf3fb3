"""Entry point of ``tessera``: a click group whose verbs are imported on first use.

To add a verb, add one line to ``_VERBS`` and one module in this folder that defines a click
command. Importing lazily keeps ``tessera --help`` and shell completion fast: both list the first
lines of the functions that import the verbs, and import none.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, TextIO

import click
from click.shell_completion import CompletionItem

from vgpu_sim.cli import errors
from vgpu_sim.cli.groups import VerbGroup


def _cc() -> click.Command:
    """Compile CUDA C++ with clang: tessera cc program.cu -o program."""
    from vgpu_sim.cli import cc

    return cc.command


def _doctor() -> click.Command:
    """Check whether Tessera works here, and print what to change."""
    from vgpu_sim.cli.doctor import command

    return command.command


def _support_bundle() -> click.Command:
    """Write an archive with what an issue about Tessera needs."""
    from vgpu_sim.cli.doctor import bundle

    return bundle.command


def _run() -> click.Command:
    """Run COMMAND with a simulated GPU, or a MIG slice of one, as its CUDA device."""
    from vgpu_sim.cli.run import command

    return command.command


def _smi() -> click.Command:
    """Show simulated GPUs, MIG devices and the processes that use them."""
    from vgpu_sim.cli.smi import command, topo

    command.command.add_command(topo.topo)
    return command.command


def _mig() -> click.Command:
    """Show MIG geometry and plan slices; needs no GPU and no cluster."""
    from vgpu_sim.cli.mig import commands

    return commands.command


def _ptx() -> click.Command:
    """Check and compile PTX."""
    from vgpu_sim.cli.ptx import commands, explain, run_command

    commands.command.add_command(explain.explain)
    commands.command.add_command(run_command.run)
    return commands.command


def _ptxas() -> click.Command:
    """Check PTX as NVIDIA's ptxas does: with its options, messages and exit statuses."""
    from vgpu_sim.cli.ptxas import command

    return command.command


def _isa() -> click.Command:
    """Assemble and disassemble the simulated GPUs' instruction set."""
    from vgpu_sim.cli.ptx import isa

    return isa.command


def _perf() -> click.Command:
    """Predict what operations take on real boards (modelled, with the expected error)."""
    from vgpu_sim.cli.perf import accuracy, copy_command, group, model, predict, run_command

    predict.predict.add_command(copy_command.copy)
    group.command.add_command(predict.predict)
    group.command.add_command(predict.compare)
    group.command.add_command(model.model)
    group.command.add_command(run_command.run)
    predict.add_to_compare(model.model)
    group.command.add_command(accuracy.validate)
    group.command.add_command(accuracy.fit)
    return group.command


def _rdma() -> click.Command:
    """Evaluate RDMA network policies for a pair of pods, and check manifests."""
    from vgpu_sim.cli.rdma import commands, fabric

    commands.command.add_command(fabric.policy)
    return commands.command


def _fault() -> click.Command:
    """Make simulated GPUs fail, to test programs and pods that use them."""
    from vgpu_sim.cli import fault

    return fault.command


def _libdir() -> click.Command:
    """Print libcuda.so's directory, as for: gcc program.c -L"$(tessera libdir)" -lcuda."""
    from vgpu_sim.cli import libdir

    return libdir.command


def _ui() -> click.Command:
    """Open a page that shows a cluster's GPUs, slices, pending pods and RDMA policies."""
    from vgpu_sim.cli import ui

    return ui.command()


def _validate() -> click.Command:
    """Compute on the GPU that this process sees, and verify every element."""
    from vgpu_sim.cli import validate

    return validate.command


_VERBS: dict[str, Callable[[], click.Command]] = {
    "cc": _cc,
    "doctor": _doctor,
    "fault": _fault,
    "isa": _isa,
    "libdir": _libdir,
    "mig": _mig,
    "perf": _perf,
    "ptx": _ptx,
    "ptxas": _ptxas,
    "rdma": _rdma,
    "run": _run,
    "smi": _smi,
    "support-bundle": _support_bundle,
    "ui": _ui,
    "validate": _validate,
}


def _listed() -> click.Group:
    """Return a group of commands that have the verbs' names and summaries, and do nothing."""
    return VerbGroup(
        commands=[click.Command(name, help=load.__doc__) for name, load in _VERBS.items()]
    )


class _Tessera(VerbGroup):
    """A group that lists its verbs without importing them, and exits as shells expect."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        load = _VERBS.get(cmd_name)
        return load() if load is not None else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as err:  # click compares with imported verbs only
            raise click.exceptions.NoSuchCommand(
                err.command_name, possibilities=_VERBS, ctx=ctx
            ) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _listed().format_commands(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        verbs = [
            CompletionItem(name, help=command.get_short_help_str())
            for name, command in sorted(_listed().commands.items())
            if name.startswith(incomplete)
        ]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # a shell's loop ends only if the command was ended by the signal
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
            raise

    def main(self, *args: Any, **kwargs: Any) -> Any:
        _open_closed_streams()
        try:
            status = super().main(*args, **{**kwargs, "standalone_mode": False})
        except click.ClickException as err:
            errors.show(err)
            sys.exit(err.exit_code)
        except click.Abort:
            sys.exit(errors.FAILED)
        except OSError as err:  # output that cannot be written; click handles a broken pipe
            _drop_what_cannot_be_written(sys.stdout)
            errors.report(f"{err.filename or 'output'}: {err.strerror or err}")
            sys.exit(errors.FAILED)
        else:
            sys.exit(status if isinstance(status, int) else 0)
        finally:
            _drop_what_cannot_be_written(sys.stderr)


def _open_closed_streams() -> None:
    """Open /dev/null for each standard stream that the caller closed, so that no other file gets
    its number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - open until the process ends


def _drop_what_cannot_be_written(stream: TextIO) -> None:
    """Discard the buffered output of a stream. Otherwise the interpreter would retry the write and
    exit with a status of its own.
    """
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@click.command(
    cls=_Tessera,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status: 0 success; 1 the answer is no, or something failed; 2 wrong usage, or"
    " input that cannot be read or is invalid. docs/command-line.md lists the exceptions.",
)
@click.version_option(package_name="tessera", prog_name="tessera")
def main() -> None:
    """Simulated GPUs that run CUDA programs: run, inspect, slice, compile."""


if __name__ == "__main__":
    main(prog_name="tessera")
