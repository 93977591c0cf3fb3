"""``tessera perf run`` runs a program on a simulated board and predicts its time on a real one."""

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import click

from drawing import terminal
from mig.errors import MigError
from mig.geometry import WHOLE, Board, DeviceProfile
from vgpu_sim import config
from vgpu_sim.cli import boards, pictures
from vgpu_sim.cli.clients.admin import AdminClient, AdminRefused
from vgpu_sim.cli.clients.standalone import StandaloneNode, StandaloneOptions, StartFailed
from vgpu_sim.cli.clocks import check_modelled
from vgpu_sim.cli.errors import fail, report as report_error
from vgpu_sim.cli.perf.group import new_file
from vgpu_sim.cli.perf.run_report import (
    Report,
    RunEvents,
    details,
    document_of,
    drawing_of,
    figures_of,
    lines,
    notes_of,
    report_of,
)
from vgpu_sim.cli.perf.run_trace import trace_of
from vgpu_sim.cli.placing import configure, layout
from vgpu_sim.cli.run.command import EXIT_FAILED, EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, run_program
from vgpu_sim.hal.observe.modelled_report import MODELLED
from vgpu_sim.perf.kernels import chip_of
from vgpu_sim.system.python_process import interpreter

_LAST_WORDS_SECONDS = 10.0


@click.command(
    name="run",
    context_settings={"allow_interspersed_args": False},
    help="Run COMMAND, and print what each kernel, copy and gap would take on BOARD (modelled).",
)
@boards.option
@click.option(
    "--slice", "profile_name", metavar="PROFILE", help="MIG profile; default: the whole GPU."
)
@click.option(
    "--group", is_flag=True, help="Print one line for all launches of a kernel with the same shape."
)
@click.option(
    "--details",
    "detailed",
    is_flag=True,
    help="Also print the causes and metrics of each kind of launch.",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path),
    callback=new_file,
    metavar="FILE",
    help="Write the complete report as JSON to FILE (-: stdout), with Nsight Compute's metric"
    " names.",
)
@click.option(
    "--trace",
    "trace_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    callback=new_file,
    metavar="FILE",
    help="Write the modelled timeline of kernels and copies to FILE, which Perfetto opens.",
)
@pictures.with_pictures
@click.argument(
    "command_line", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] COMMAND..."
)
def run(
    board: Board,
    profile_name: str | None,
    group: bool,
    detailed: bool,
    json_file: Path | None,
    trace_file: Path | None,
    command_line: tuple[str, ...],
) -> None:
    """Run a command, print the report on stderr, and exit with the command's status, or with 125 if
    that is 0 and parts of the report were refused or are missing.
    """
    # some parents ignore SIGCHLD, and exit statuses would be lost
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    device = _device(board, profile_name or WHOLE)
    check_modelled(board, device, MODELLED)
    share = board.placement_units if device.profile.is_whole else device.profile.size
    chip = chip_of(board.key, device.sm_count, (share, board.placement_units))
    options = StandaloneOptions(
        cache_dir=config.user_cache_dir(), report_usage=True, clock=MODELLED
    )
    events = RunEvents()
    try:
        with StandaloneNode(config.private_dir_parents(), options) as node:
            with node.admin() as admin:
                configure(admin, board, layout(board, device, 1))
            environment = config.program_environment(
                node.slices_dir, node.token_hex, config.LIBRARIES_DIR
            )
            environment = config.with_ptxas_check(environment, interpreter())
            with AdminClient(node.run_dir, _LAST_WORDS_SECONDS) as admin:
                admin.call("subscribe")
                status = run_program(command_line, environment)
                live = _listen(admin, events)
    except (StartFailed, AdminRefused, OSError, ValueError) as err:
        fail(err, EXIT_FAILED)
    events.close(live)
    report = report_of(chip, events)
    if not events.contexts:
        _report_no_context(command_line[0], status)
    else:
        _tell(report, grouped=group, detailed=detailed)
    if json_file is not None:
        _write_json(report, json_file)
    if trace_file is not None:
        trace_file.write_text(json.dumps(trace_of(report)) + "\n", encoding="utf-8")
    notes = notes_of(report, grouped=group)
    pictures.write_files("kernels of a run", lambda: figures_of(report), notes)
    sys.exit(status or (EXIT_FAILED if report.refused else 0))


def _device(board: Board, name: str) -> DeviceProfile:
    try:
        return board.device_profile(name)
    except MigError as err:
        raise click.BadParameter(str(err), param_hint="--slice") from err


def _listen(admin: AdminClient, events: RunEvents) -> set[object]:
    """Receive events until no context is alive, or until those that are alive send no more
    events. Return the processes of those that are alive.
    """
    while True:
        gpus = admin.call("inventory")["gpus"]
        instances = [instance for gpu in gpus for instance in gpu["instances"]]
        live = {context["pid"] for instance in instances for context in instance["contexts"]}
        for event in admin.queued_events():
            events.add_event(event)
        if not live:
            return live
        try:
            events.add_event(admin.next_event())
        except TimeoutError:
            return live


def _report_no_context(program: str, status: int) -> None:
    """Report that there is nothing to predict. A program that could not be executed has been
    reported.
    """
    if status not in (EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND):
        name = os.path.basename(program)
        report_error(f"{name} ended with status {status} before it used the GPU")


def _tell(report: Report, *, grouped: bool, detailed: bool) -> None:
    text = list(lines(report, grouped=grouped))
    if detailed:
        text += details(report)
    with suppress(OSError):  # a full disk behind stderr must not replace the program's exit status
        click.echo("\n".join(f"tessera perf run: {line}" for line in text), err=True)
        if pictures.current().wants_text_on(sys.stderr):
            pictures.print_lines(drawing_of(report, terminal.width()), err=True)


def _write_json(report: Report, json_file: Path) -> None:
    with click.open_file(str(json_file), "w") as file:
        json.dump(document_of(report), file, indent=2)
        file.write("\n")
