"""``tessera smi`` shows the visible devices, laid out as nvidia-smi does."""

import json
from collections.abc import Iterable, Iterator, Sequence

import click

from mig.errors import MigError
from mig.geometry import WHOLE
from vgpu_sim import config
from vgpu_sim.cli.clients.slices import NotAnswered
from vgpu_sim.cli.errors import fail
from vgpu_sim.cli.groups import VerbGroup
from vgpu_sim.cli.smi import view
from vgpu_sim.cli.smi.view import DeviceView, GpuView, NodeView, ProcessView
from vgpu_sim.hal.management.documents import DocumentError
from vgpu_sim.hal.observe.modelled_report import MODELLED

# nvidia-smi's exit statuses for these two cases.
EXIT_NO_DEVICES = 6
EXIT_NO_DRIVER = 9

_MIB = 1 << 20


@click.group(cls=VerbGroup, invoke_without_command=True)
@click.option("-L", "--list-gpus", "listing", is_flag=True, help="Print one line for each device.")
@click.option("-q", "--query", "query", is_flag=True, help="Print all properties as indented text.")
@click.option("--json", "as_json", is_flag=True, help="Print all properties as JSON.")
@click.pass_context
def command(ctx: click.Context, listing: bool, query: bool, as_json: bool) -> None:
    """Show simulated GPUs, MIG devices and the processes that use them.

    On a node and inside `tessera run` the data comes from gpud; in a pod from the slice sockets,
    which report neither processes nor the node's memory budget. Exit status: 9 neither gpud nor
    a slice was found; 6 no devices.
    """
    if listing + query + as_json > 1:
        raise click.UsageError("-L, -q and --json exclude each other")
    if ctx.invoked_subcommand is not None:
        return
    node = read_view_or_exit()
    if as_json:
        click.echo(json.dumps(node.to_json(), indent=2))
    elif not node.gpus:
        fail("no devices were found", EXIT_NO_DEVICES)
    else:
        lines = list_lines(node) if listing else query_lines(node) if query else table_lines(node)
        click.echo("\n".join(lines))


def read_view_or_exit() -> NodeView:
    """Return the view of the devices; if there is none, exit with the status that nvidia-smi has
    for the failure.
    """
    try:
        node = read_view()
    except (NotAnswered, MigError, DocumentError) as err:
        fail(f"gpud does not answer: {err}", EXIT_NO_DRIVER)
    if node is None:
        fail(
            f"gpud was not found: no {config.run_dir() / 'gpud.sock'} and no slice below"
            f" {config.slices_dir()}\n"
            "Inside `tessera run`, and in a pod with a slice, `tessera smi` finds them by itself.",
            EXIT_NO_DRIVER,
        )
    return node


def read_view() -> NodeView | None:
    """Return the view of the devices from gpud, or else from the slice sockets; return None if
    neither is found.

    Raises:
        NotAnswered: slices exist, but their gpud does not answer.
    """
    slices_dir = config.slices_dir()
    for run_dir in (slices_dir.parent, config.run_dir()):
        try:
            return view.from_gpud(run_dir)
        except OSError:
            continue
    node = view.from_slices(slices_dir)
    return node if node.gpus else None


def list_lines(node: NodeView) -> Iterator[str]:
    """Yield the lines that ``nvidia-smi -L`` prints."""
    for gpu in node.gpus:
        yield f"GPU {gpu.index}: {gpu.product} (UUID: {gpu.uuid})"
        for device in gpu.slices:
            yield f"  MIG {device.profile:<11} Device {device.index:>2}: (UUID: {device.uuid})"


def query_lines(node: NodeView) -> Iterator[str]:
    """Yield all properties as ``nvidia-smi -q`` lays them out."""
    yield _field(0, "Source", node.source)
    yield _field(0, "Tessera Version", node.version)
    yield _field(0, "CUDA Version", node.cuda_version)
    yield _field(0, "Isolation", _isolation(node))
    yield _field(0, "Event Clock", _clock(node))
    yield _field(0, "Worker Sandbox", None if node.sandbox is None else _join(node.sandbox))
    yield "Node Memory Budget"
    yield _field(1, "Total", _mib(node.budget_total_bytes))
    yield _field(1, "Used", _mib(node.budget_used_bytes))
    yield _field(0, "Attached GPUs", len(node.gpus))
    for gpu in node.gpus:
        yield ""
        yield from _query_gpu(gpu)


def _query_gpu(gpu: GpuView) -> Iterator[str]:
    yield f"GPU {gpu.index}"
    yield _field(1, "Product Name", gpu.product)
    yield _field(1, "Board", gpu.board)
    yield _field(1, "GPU UUID", gpu.uuid)
    yield _field(1, "CUDA Compute Capability", gpu.capability)
    yield _field(1, "Multiprocessors", gpu.multiprocessors)
    yield _field(1, "FB Memory Total", _mib(gpu.memory_bytes))
    yield _field(1, "Health", gpu.health)
    yield _field(1, "MIG Mode", gpu.mig_mode)
    for device in gpu.devices:
        yield "    Whole GPU" if device.profile == WHOLE else "    MIG Device"
        yield _field(2, "Index", device.index)
        yield _field(2, "UUID", device.uuid)
        yield _field(2, "Profile", device.profile)
        yield _field(2, "Placement", f"{{{device.start}}}:{device.size}")
        yield _field(2, "Multiprocessors", device.multiprocessors)
        yield _field(2, "FB Memory Total", _mib(device.memory_bytes))
        yield _field(2, "FB Memory Used", _mib(device.memory_used_bytes))
        yield _field(2, "Contexts", device.context_count)
        yield _field(2, "New Contexts", _admission(device))
        yield _field(2, "Holders", None if device.holders is None else _join(device.holders))
        for process in device.processes or ():
            yield "        Process"
            yield _field(3, "PID", process.pid or "N/A (another PID namespace)")
            yield _field(3, "Name", process.name)
            yield _field(3, "Worker PID", process.worker_pid)
            yield _field(3, "User ID", process.uid)
            yield _field(3, "Holder", process.holder or "-")
            yield _field(3, "Used GPU Memory", _mib(process.memory_bytes))
            yield _field(3, "Launches", process.launches)
            yield _field(3, "Running Kernel", _running(process))
            sandbox = [name for name, stands in process.sandbox.items() if stands is True]
            yield _field(3, "Sandbox", _join(sandbox))


def _running(process: ProcessView) -> str:
    if process.running_kernel is None:
        return "-"
    return f"{process.running_kernel}, {process.running_seconds} s"


def table_lines(node: NodeView) -> Iterator[str]:
    """Yield the overview: GPUs, MIG devices, processes, and the isolation of slices."""
    version = f" {node.version}" if node.version else ""
    yield f"tessera smi{version}    CUDA Version: {node.cuda_version}    {_budget(node)}"
    yield from _table(
        ("GPU", "Name", "CC", "SMs", "Memory", "MIG M.", "Health"),
        (
            (
                str(gpu.index),
                gpu.product,
                gpu.capability,
                str(gpu.multiprocessors),
                _mib(gpu.memory_bytes),
                gpu.mig_mode,
                _text(gpu.health),
            )
            for gpu in node.gpus
        ),
    )
    yield "MIG devices and whole GPUs:"
    yield from _table(
        ("GPU", "MIG Dev", "Profile", "Placement", "SMs", "Memory-Usage", "Contexts", "Holders"),
        (
            (
                str(gpu.index),
                str(device.index),
                device.profile,
                f"{{{device.start}}}:{device.size}",
                str(device.multiprocessors),
                f"{device.memory_used_bytes // _MIB}MiB / {device.memory_bytes // _MIB}MiB",
                str(device.context_count) + ("" if device.admit is not False else " (closed)"),
                "N/A" if device.holders is None else _join(device.holders),
            )
            for gpu in node.gpus
            for device in gpu.devices
        ),
    )
    yield "Processes:"
    if node.source != "gpud":
        yield "  unknown: slice sockets do not report processes"
    else:
        yield from _process_table(node)
    yield f"Isolation: {_isolation(node)}"
    if node.clock == MODELLED:
        yield f"Event clock: {_clock(node)}"


def _process_table(node: NodeView) -> Iterator[str]:
    rows = [
        (
            str(gpu.index),
            str(device.index),
            str(process.pid or "N/A"),
            _text(process.name),
            str(process.worker_pid),
            process.holder or f"uid {process.uid}",
            _mib(process.memory_bytes),
        )
        for gpu in node.gpus
        for device in gpu.devices
        for process in device.processes or ()
    ]
    if not rows:
        yield "  No running processes found"
        return
    yield from _table(
        ("GPU", "MIG Dev", "PID", "Process name", "Worker", "Holder", "GPU Memory"), rows
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    body = list(rows)
    widths = [max(map(len, column)) for column in zip(header, *body, strict=True)]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    yield rule
    yield _row(header, widths)
    yield rule.replace("-", "=")
    for row in body:
        yield _row(row, widths)
    yield rule


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (f" {cell:<{width}} " for cell, width in zip(cells, widths, strict=True))
    return "|" + "|".join(padded) + "|"


def _budget(node: NodeView) -> str:
    if node.budget_total_bytes is None or node.budget_used_bytes is None:
        return "Node memory budget: N/A"
    used, total = node.budget_used_bytes // _MIB, node.budget_total_bytes // _MIB
    return f"Node memory budget: {used}MiB / {total}MiB"


def _isolation(node: NodeView) -> str:
    if node.isolation_enforced is None:
        return "N/A"
    if node.isolation_enforced:
        return "enforced (control groups: memory limit and CPU weight of each slice)"
    return f"not enforced ({node.isolation_reason})"


def _clock(node: NodeView) -> str | None:
    """Return a description of the clock that events measure; None if it is unknown."""
    if node.clock == MODELLED:
        return "modelled (events measure what the board would take, not this machine's time)"
    return node.clock


def _admission(device: DeviceView) -> str | None:
    return None if device.admit is None else ("admitted" if device.admit else "refused")


def _join(values: Sequence[str]) -> str:
    return ", ".join(values) or "-"


def _mib(value_bytes: int | None) -> str:
    return "N/A" if value_bytes is None else f"{value_bytes // _MIB} MiB"


def _text(value: object) -> str:
    return "N/A" if value is None else str(value)


def _field(depth: int, name: str, value: object) -> str:
    return f"{'    ' * depth}{name:<{40 - 4 * depth}}: {_text(value)}"
