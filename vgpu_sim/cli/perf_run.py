"""``tessera perf run``: a program on a simulated board, and what it would take on a real one."""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from mig.errors import MigError
from mig.geometry import WHOLE, Board, DeviceProfile
from vgpu_sim import config
from vgpu_sim.cli import boards
from vgpu_sim.cli.clients.admin import AdminClient, AdminRefused
from vgpu_sim.cli.clients.standalone import StandaloneNode, StandaloneOptions, StartFailed
from vgpu_sim.cli.clocks import check_modelled
from vgpu_sim.cli.perf import new_file, refuse
from vgpu_sim.cli.placing import configure, layout
from vgpu_sim.cli.run import EXIT_FAILED, run_program
from vgpu_sim.hal.modelled import MODELLED, ModelledLaunches, ModelledSummary
from vgpu_sim.perf import plots
from vgpu_sim.perf.errors import PerfError
from vgpu_sim.perf.kernels import Chip, Counts, Estimate, chip_of, estimate, page
from vgpu_sim.perf.kernels.copies import Way

_LAST_WORDS_SECONDS = 10.0
_OVER_LINKS = (Way.H2D.value, Way.D2H.value, Way.P2P.value)


@dataclass(slots=True)
class Heard:
    """What the contexts of a run told at their ends."""

    launches: list[ModelledLaunches] = field(default_factory=list)
    summaries: list[ModelledSummary] = field(default_factory=list)

    def take(self, event: dict[str, Any]) -> None:
        """Take one event of gpud. Raises ValueError for one that is none."""
        if event.get("event") != "modelled":
            return
        if "summary" in event:
            self.summaries.append(ModelledSummary.checked(event["summary"]))
        else:
            self.launches.append(ModelledLaunches.checked(event.get("launches")))


@click.command(
    name="run",
    context_settings={"allow_interspersed_args": False},
    help="Run COMMAND, and print what each kernel, copy and gap would take on BOARD (modelled).",
)
@boards.option
@click.option("--slice", "profile_name", metavar="PROFILE", help="MIG profile; default: whole.")
@click.option("--details", is_flag=True, help="Causes and metrics of each kernel as well.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path),
    callback=new_file,
    metavar="FILE",
    help="Write all of it, metrics by Nsight Compute's names, as JSON to FILE (-: stdout).",
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    callback=new_file,
    metavar="FILE",
    help="Write a page: kernels below the board's roofs, and the causes of their times.",
)
@click.argument(
    "command_line", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] COMMAND..."
)
def run(
    board: Board,
    profile_name: str | None,
    details: bool,
    json_file: Path | None,
    html: Path | None,
    command_line: tuple[str, ...],
) -> None:
    """Exit as the command does; the report goes to stderr."""
    if html is not None:
        try:
            plots.require()
        except PerfError as err:
            refuse(err)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored by some parents: statuses would be lost
    device = _device(board, profile_name or WHOLE)
    check_modelled(board, device, MODELLED)
    share = board.placement_units if device.profile.is_whole else device.profile.size
    chip = chip_of(board.key, device.sm_count, (share, board.placement_units))
    options = StandaloneOptions(
        cache_dir=config.user_cache_dir(), report_usage=True, clock=MODELLED
    )
    heard = Heard()
    try:
        with StandaloneNode(config.private_dir_parents(), options) as node:
            with node.admin() as admin:
                configure(admin, board, layout(board, device, 1))
            environment = config.program_environment(
                node.slices_dir, node.token_hex, config.LIBRARIES_DIR
            )
            with AdminClient(node.run_dir, _LAST_WORDS_SECONDS) as admin:
                admin.call("subscribe")
                status = run_program(command_line, environment)
                _listen(admin, heard)
    except (StartFailed, AdminRefused, OSError, ValueError) as err:
        click.echo(f"tessera perf run: {err}", err=True)
        sys.exit(EXIT_FAILED)
    _tell(chip, heard, details, json_file)
    if html is not None:
        html.write_text(_page(chip, heard), encoding="utf-8")
    sys.exit(status)


def _device(board: Board, name: str) -> DeviceProfile:
    try:
        return board.device_profile(name)
    except MigError as err:
        raise click.BadParameter(str(err), param_hint="--slice") from err


def _listen(admin: AdminClient, heard: Heard) -> None:
    """Take events until no context lives, or those that do say nothing any more."""
    while True:
        gpus = admin.call("inventory")["gpus"]
        live = any(one["contexts"] for gpu in gpus for one in gpu["instances"])
        for event in admin.queued_events():
            heard.take(event)
        if not live:
            return
        try:
            heard.take(admin.next_event())
        except TimeoutError:
            return


def _tell(chip: Chip, heard: Heard, details: bool, json_file: Path | None) -> None:
    rows = [(one, _estimate(chip, one)) for one in heard.launches]
    told = list(lines(chip, heard, rows))
    if details:
        told += _details(rows)
    with suppress(OSError):  # a full disk under stderr must not replace the program's own status
        click.echo("\n".join(f"tessera perf run: {line}" for line in told), err=True)
    if json_file is not None:
        with click.open_file(str(json_file), "w") as file:
            json.dump(_document(chip, heard, rows), file, indent=2)
            file.write("\n")


def _estimate(chip: Chip, one: ModelledLaunches) -> Estimate | None:
    try:
        return estimate(chip, Counts.of(one.counts)) if one.counts else None
    except PerfError:  # of a worker that tells what no board can do
        return None


_Rows = list[tuple[ModelledLaunches, Estimate | None]]


def lines(chip: Chip, heard: Heard, rows: _Rows) -> Iterator[str]:
    """Yield the table: kernels, the one that takes most first, then copies and gaps."""
    what = f"{chip.sms} multiprocessors, {chip.dram_peak / 1e3:.0f} GB/s"
    yield f"on {chip.board.product} ({what}), modelled; kernels were not measured on it"
    yield (
        f"{'launches':>9} {'total us':>12} {'mean us':>11} {'bound by':>12} {'occupancy':>10}"
        "  kernel"
    )
    for one, found in sorted(rows, key=lambda row: -row[0].us):
        bound, occupancy = "-", "-"
        if found is not None:
            bound = found.bound_by
            resident = found.times.occupancy
            share = resident.blocks * resident.warps_per_block / chip.warps
            occupancy = f"{100 * share:.0f} %"
        note = f" ({one.note})" if one.note else ""
        yield (
            f"{one.launches:>9} {one.us:>12.2f} {one.us / max(1, one.launches):>11.2f}"
            f" {bound:>12} {occupancy:>10}  {one.kernel} ({_shape(one)}){note}"
        )
    for summary in heard.summaries:
        for copy in summary.copies:
            rate = copy.bytes / copy.us / 1e3 if copy.us else 0.0
            yield (
                f"{copy.count:>9} {copy.us:>12.2f} {copy.us / max(1, copy.count):>11.2f}"
                f" {rate:>7.1f} GB/s {'':>10}  [{copy.way}] {copy.bytes} bytes"
            )
        yield (
            f"from first to last {summary.span_us:.2f} us, of which nothing ran in"
            f" {summary.gaps_us:.2f} us (the host's own work is not counted)"
        )
        if summary.left_out:
            yield f"{summary.left_out} launches of further shapes are not listed"
    sharing = sum(any(copy.way in _OVER_LINKS for copy in one.copies) for one in heard.summaries)
    if sharing > 1:
        yield (
            f"{sharing} contexts copied over links, each as if alone: none was slowed by another"
            " (tessera perf predict copy --with: what sharing costs)"
        )
    if not heard.summaries:
        yield "no context ended while this listened: nothing to report"


def _details(rows: _Rows) -> Iterator[str]:
    for one, found in rows:
        if found is None:
            continue
        limiter = found.times.occupancy.limiter
        yield f"{one.kernel}: {found.us:.2f} us; occupancy limited by {limiter}"
        for cause, part in found.stack.items():
            yield f"  {cause:28}{part:12.2f} us {100 * part / found.us:5.1f} %"
        for name, value in found.metrics().items():
            yield f"  {name:76}{value:18.2f}"


def _page(chip: Chip, heard: Heard) -> str:
    rows = [(one, _estimate(chip, one)) for one in heard.launches]
    shown = [
        page.Shown(f"{one.kernel} ({_shape(one)})", one.launches, one.us, found)
        for one, found in rows
    ]
    return page.page(chip, shown, list(lines(chip, heard, rows)))


def _shape(one: ModelledLaunches) -> str:
    return "x".join(map(str, one.grid)) + " blocks of " + "x".join(map(str, one.block))


def _document(chip: Chip, heard: Heard, rows: _Rows) -> dict[str, Any]:
    return {
        "modelled": True,
        "board": chip.board.name,
        "multiprocessors": chip.sms,
        "kernels": [
            {
                "kernel": one.kernel,
                "grid": one.grid,
                "block": one.block,
                "launches": one.launches,
                "us": one.us,
                "note": one.note,
                "stack_us": found.stack if found is not None else {},
                "metrics": found.metrics() if found is not None else {},
            }
            for one, found in rows
        ],
        "contexts": [summary.to_json() for summary in heard.summaries],
    }
