"""Entry point of ``tessera``: a click group whose verbs are imported on first use.

A verb is added by one line in ``_VERBS`` and one module beside this file that exposes a click
command. Importing lazily keeps ``tessera --help`` and shell completion fast: LLVM is loaded by the
verbs that compile, and by no other.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, TextIO

import click


def _run() -> click.Command:
    from vgpu_sim.cli import run

    return run.command


def _smi() -> click.Command:
    from vgpu_sim.cli import smi, smi_topo

    smi.command.add_command(smi_topo.topo)
    return smi.command


def _mig() -> click.Command:
    from vgpu_sim.cli import mig_commands

    return mig_commands.command


def _ptx() -> click.Command:
    from vgpu_sim.cli import ptx, ptx_explain, ptx_run

    ptx.command.add_command(ptx_explain.explain)
    ptx.command.add_command(ptx_run.run)
    return ptx.command


def _isa() -> click.Command:
    from vgpu_sim.cli import isa

    return isa.command


def _perf() -> click.Command:
    from vgpu_sim.cli import perf, perf_copy, perf_model, perf_predict, perf_run, perf_validate

    perf_predict.predict.add_command(perf_copy.copy)
    perf.command.add_command(perf_predict.predict)
    perf.command.add_command(perf_predict.compare)
    perf.command.add_command(perf_model.model)
    perf.command.add_command(perf_run.run)
    perf_predict.add_to_compare(perf_model.model)
    perf.command.add_command(perf_validate.validate)
    perf.command.add_command(perf_validate.fit)
    return perf.command


def _rdma() -> click.Command:
    from vgpu_sim.cli import rdma_commands, rdma_fabric

    rdma_commands.command.add_command(rdma_fabric.policy)
    return rdma_commands.command


def _fault() -> click.Command:
    from vgpu_sim.cli import fault

    return fault.command


def _libdir() -> click.Command:
    from vgpu_sim.cli import libdir

    return libdir.command


def _validate() -> click.Command:
    from vgpu_sim.cli import validate

    return validate.command


_VERBS: dict[str, Callable[[], click.Command]] = {
    "fault": _fault,
    "isa": _isa,
    "libdir": _libdir,
    "mig": _mig,
    "perf": _perf,
    "ptx": _ptx,
    "rdma": _rdma,
    "run": _run,
    "smi": _smi,
    "validate": _validate,
}


class _Tessera(click.Group):
    """A group that knows its verbs' names without importing them, and ends as shells expect."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        load = _VERBS.get(cmd_name)
        return load() if load is not None else None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # a loop in a shell ends only if the signal ended us
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
            raise

    def main(self, *args: Any, **kwargs: Any) -> Any:
        _open_closed_streams()
        try:
            return super().main(*args, **kwargs)
        except OSError as err:  # output that cannot be written; click knows a broken pipe
            _drop_what_cannot_be_written(sys.stdout)
            sys.exit(f"tessera: {err.filename or 'output'}: {err.strerror or err}")
        finally:
            _drop_what_cannot_be_written(sys.stderr)


def _open_closed_streams() -> None:
    """Open /dev/null where the caller has closed a stream: no other file may get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - until the process ends


def _drop_what_cannot_be_written(stream: TextIO) -> None:
    """Discard what is buffered: the interpreter would try once more and end with its own status."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@click.command(cls=_Tessera, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tessera", prog_name="tessera")
def main() -> None:
    """Simulated GPUs that run CUDA programs: run, inspect, slice, compile."""


if __name__ == "__main__":
    main(prog_name="tessera")
