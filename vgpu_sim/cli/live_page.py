"""The process behind ``tessera run --ui``: reads the run's gpud, and serves what it reports.

The console is imported by its name, as ``tessera ui`` does: nothing in this package depends on it.
"""

import importlib
import select
import sys
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

import click

from drawing.documents import Figure
from drawing.slices import BoxState, GpuPicture, draw_places
from mig import geometry
from mig.errors import MigError
from mig.geometry import WHOLE, Instance
from vgpu_sim.cli.clients.admin import AdminClient, AdminRefused
from vgpu_sim.cli.perf.run_report import RunEvents, figures_of, report_of
from vgpu_sim.cli.run.run_stats import Totals
from vgpu_sim.cli.smi.view import DeviceView, GpuView, NodeView, from_gpud
from vgpu_sim.perf.kernels import chip_of
from vgpu_sim.records import dataclass

_CONSOLE: Final = "console.live"
_MOST_KERNELS: Final = 200
_TIMEOUT_S: Final = 2.0


@dataclass(slots=True)
class RunReader:
    """Reads a run's gpud: its inventory, and the events of contexts that have ended."""

    run_dir: Path
    board: str
    command: str
    events: AdminClient
    totals: Totals = field(default_factory=Totals)
    modelled: RunEvents = field(default_factory=RunEvents)
    _figures: tuple[Figure, ...] = ()
    _drawn: int = 0

    def read(self) -> Mapping[str, Any] | None:
        """Return the page's content; None if the run has ended."""
        if select.select([sys.stdin], [], [], 0)[0]:  # nothing is ever written: it is closed
            return None
        try:
            node = from_gpud(self.run_dir)
            self.events.call("inventory")  # makes queued events arrive
            for event in self.events.queued_events():
                self.totals.add_event(event)
                self.modelled.add_event(event)
        except (OSError, ValueError, AdminRefused):
            return None
        return {
            "command": self.command,
            "gpus": [_gpu(gpu) for gpu in node.gpus],
            "contexts": list(_contexts(node)),
            "kernels": self._kernels(),
            "figures": self._draw(node),
        }

    def _kernels(self) -> list[tuple[str, int, int]]:
        rows = sorted(self.totals.kernels.items(), key=lambda one: -one[1][1])
        return [(name, launches, ns) for name, (launches, ns) in rows[:_MOST_KERNELS]]

    def _draw(self, node: NodeView) -> tuple[Figure, ...]:
        """Return the causes of kernels' times; they are drawn again if more contexts have ended."""
        row_count = sum(len(context.rows) for context in self.modelled.contexts.values())
        if row_count == self._drawn or not self.modelled.summaries:
            return self._figures
        devices = [device for gpu in node.gpus for device in gpu.devices]
        units = geometry.board(self.board).placement_units
        share = units if devices[0].profile == WHOLE else devices[0].size
        chip = chip_of(self.board, devices[0].multiprocessors, (share, units))
        self._figures = tuple(figures_of(report_of(chip, self.modelled)))
        self._drawn = row_count
        return self._figures


def _gpu(gpu: GpuView) -> dict[str, Any]:
    return {
        "index": gpu.index,
        "product": gpu.product,
        "picture": _picture(gpu),
        "devices": [
            {
                "name": device.profile,
                "used_bytes": device.memory_used_bytes,
                "memory_bytes": device.memory_bytes,
                "share": min(device.memory_used_bytes / max(device.memory_bytes, 1), 1.0),
                "contexts": device.context_count,
            }
            for device in gpu.devices
        ],
    }


def _picture(gpu: GpuView) -> GpuPicture:
    board = geometry.board(gpu.board)
    try:
        states = {_instance(board, device): _state(device) for device in gpu.devices}
    except MigError as err:
        return GpuPicture(board.placement_units, board.compute_slices, (), str(err))
    return draw_places(board, states)


def _instance(board: geometry.Board, device: DeviceView) -> Instance:
    return board.instance(device.profile, device.start)


def _state(device: DeviceView) -> BoxState:
    return BoxState.HELD if device.context_count else BoxState.FREE


def _contexts(node: NodeView) -> list[dict[str, Any]]:
    return [
        {
            "pid": process.pid,
            "gpu": gpu.index,
            "launches": process.launches,
            "busy_ns": process.busy_ns,
            "memory_bytes": process.memory_bytes,
            "kernel": process.running_kernel,
        }
        for gpu in node.gpus
        for device in gpu.devices
        for process in device.processes or ()
    ]


def main(run_dir: str, board: str, command: str, events: str) -> None:
    """Serve until standard input is closed or gpud ends.

    ``events`` is the number of the descriptor of a connection that is subscribed to gpud's events.
    """
    try:
        console = importlib.import_module(_CONSOLE)
    except ImportError as err:
        missing = str(err.name or err)
        click.echo(f"tessera run: --ui: {missing} is not installed", err=True)
        return
    with AdminClient.from_descriptor(int(events), _TIMEOUT_S) as client:
        reader = RunReader(Path(run_dir), board, command, client)
        try:
            console.serve(reader.read, "this run", _print_url)
        except OSError as err:
            click.echo(f"tessera run: --ui: {err.strerror or err}", err=True)


def _print_url(url: str) -> None:
    click.echo(f"tessera run: page of this run: {url}", err=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
