"""``tessera fault``: make GPUs fail, on a node or in a run of this user, and show lasting
faults.
"""

import os
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

import click

from vgpu_sim import config
from vgpu_sim.cli.clients.admin import AdminClient, AdminRefused
from vgpu_sim.cli.clients.run_dirs import PREFIX
from vgpu_sim.cli.errors import FAILED, fail
from vgpu_sim.cli.groups import VerbGroup
from vgpu_sim.gpud.admin.injection import MAX_DURATION_MS
from vgpu_sim.gpud.faults.classes import XIDS
from vgpu_sim.hal.management import admin
from vgpu_sim.hal.management.documents import DocumentError

EXIT_NO_DRIVER = 9  # as nvidia-smi does

_RUN_DIR = click.option(
    "--run-dir",
    type=click.Path(path_type=Path),
    help="Directory of gpud's socket; default: this run's, the node's, or your only run's.",
)


@click.group(cls=VerbGroup)
def command() -> None:
    """Make simulated GPUs fail, to test programs and pods that use them.

    On a node, only root may do this; in `tessera run`, the user who started the run.
    docs/faults.md describes each fault's effects. Exit status: 1 gpud refuses; 9 no gpud was
    found.
    """


@command.command()
@click.option("--gpu", "index", type=click.IntRange(0, 7), default=0, show_default=True)
@click.option(
    "--slice", "instance", default="", metavar="UUID", help="Slice to fail; default: the whole GPU."
)
@click.option("--xid", type=click.IntRange(1), help="Report an Xid error, such as 48.")
@click.option(
    "--ecc-corrected", type=click.IntRange(1), metavar="N", help="Count N corrected memory errors."
)
@click.option(
    "--ecc-uncorrected",
    type=click.IntRange(1),
    metavar="N",
    help="Count N uncorrected memory errors.",
)
@click.option("--thermal", is_flag=True, help="Overheat the GPU, which slows it down.")
@click.option("--hang", is_flag=True, help="Stop the progress of kernels.")
@click.option("--off-bus", is_flag=True, help="Make the GPU fall off the bus.")
@click.option("--count", type=click.IntRange(1, 1000), help="How often the Xid occurs [1].")
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(min=0, min_open=True, max=MAX_DURATION_MS / 1000),
    metavar="SECONDS",
    help="Duration of --thermal, --hang or --off-bus; default: until `tessera fault clear`.",
)
@_RUN_DIR
def inject(
    index: int,
    instance: str,
    xid: int | None,
    ecc_corrected: int | None,
    ecc_uncorrected: int | None,
    thermal: bool,
    hang: bool,
    off_bus: bool,
    count: int | None,
    seconds: float | None,
    run_dir: Path | None,
) -> None:
    """Inject one fault and print its id."""
    requested = {
        "xid": xid is not None,
        "ecc_corrected": ecc_corrected is not None,
        "ecc_uncorrected": ecc_uncorrected is not None,
        "thermal": thermal,
        "hang": hang,
        "off_bus": off_bus,
    }
    kinds = [kind for kind, is_requested in requested.items() if is_requested]
    if len(kinds) != 1:
        raise click.UsageError(
            "give exactly one of --xid, --ecc-corrected, --ecc-uncorrected, --thermal, --hang,"
            " --off-bus"
        )
    if count is not None and xid is None:
        raise click.UsageError("--count needs --xid")
    with closing(_connect(run_dir)) as client:
        gpu = next(
            (candidate for candidate in _inventory(client).gpus if candidate.index == index), None
        )
        if gpu is None:
            fail(f"there is no GPU {index}", FAILED)
        try:
            answer = client.call(
                "inject_fault",
                id="",
                gpu_uuid=gpu.uuid,
                instance=instance,
                kind=kinds[0],
                xid=xid or 0,
                count=ecc_corrected or ecc_uncorrected or count or 1,
                duration_ms=round((seconds or 0) * 1000),
            )
        except AdminRefused as err:
            fail(str(err), FAILED)
        click.echo(answer["id"])


@command.command("list")
@_RUN_DIR
def show(run_dir: Path | None) -> None:
    """Show the health of all GPUs and slices, lasting faults, memory errors, and the last Xids."""
    with closing(_connect(run_dir)) as client:
        for gpu in _inventory(client).gpus:
            click.echo("\n".join(lines(gpu)))


@command.command()
@click.option("--gpu", "index", type=click.IntRange(0, 7), help="Fault to end; default: all.")
@click.argument("fault_id", default="")
@_RUN_DIR
def clear(index: int | None, fault_id: str, run_dir: Path | None) -> None:
    """End all lasting faults, or the one with the given id, and print what was ended."""
    with closing(_connect(run_dir)) as client:
        uuid = ""
        if index is not None:
            uuid = next((gpu.uuid for gpu in _inventory(client).gpus if gpu.index == index), "")
            if not uuid:
                fail(f"there is no GPU {index}", FAILED)
        try:
            answer = client.call("clear_faults", gpu_uuid=uuid, id=fault_id)
        except AdminRefused as err:
            fail(str(err), FAILED)
        for cleared_id in answer["cleared"]:
            click.echo(cleared_id)


def lines(gpu: admin.Gpu) -> list[str]:
    """Return the lines that describe a GPU's faults."""
    ecc = gpu.ecc
    gpu_lines = [
        f"GPU {gpu.index}: {gpu.product} (UUID: {gpu.uuid}): {gpu.health}",
        *(
            f"  {instance.profile}@{instance.start} (UUID: {instance.uuid}): {instance.health}"
            for instance in gpu.instances
            if instance.uuid != gpu.uuid
        ),
        f"  memory errors, volatile/aggregate: corrected {ecc.corrected_volatile}/"
        f"{ecc.corrected_aggregate}, uncorrected {ecc.uncorrected_volatile}/"
        f"{ecc.uncorrected_aggregate}",
        f"  remapped rows: {ecc.remapped_rows}, pending {ecc.pending_rows}"
        + (", remapping failed" if ecc.remapping_failed else ""),
    ]
    gpu_lines += [
        f"  lasts: {fault.kind} {fault.instance or 'GPU'} (id {fault.id})" for fault in gpu.faults
    ]
    return gpu_lines + [_xid_line(xid) for xid in gpu.xids]


def _xid_line(xid: admin.Xid) -> str:
    when = datetime.fromtimestamp(xid.time_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    xid_facts = XIDS.get(xid.xid)
    meaning = f" ({xid_facts.meaning})" if xid_facts is not None else ""
    whose = xid.instance or "the GPU"
    program = f", pid {xid.pid}" if xid.pid else ""
    message = f": {xid.message}" if xid.message else ""
    return f"  #{xid.sequence} {when} Xid {xid.xid}{meaning}, {whose}{program}{message}"


def _connect(run_dir: Path | None) -> AdminClient:
    candidates = [run_dir] if run_dir is not None else [config.slices_dir().parent]
    if run_dir is None:
        candidates.append(config.run_dir())
    for candidate in candidates:
        with suppress(OSError):
            return AdminClient(candidate)
    runs = _runs() if run_dir is None else []
    if len(runs) > 1:
        run_dirs = ", ".join(map(str, runs))
        fail(
            f"several runs are in progress ({run_dirs}): choose one with --run-dir", EXIT_NO_DRIVER
        )
    last = runs[0] if runs else candidates[-1]
    try:
        return AdminClient(last)
    except OSError as err:
        fail(f"couldn't communicate with gpud: {last / 'gpud.sock'}: {err}", EXIT_NO_DRIVER)


def _runs() -> list[Path]:
    """Return the directories of this user's runs in progress; other users' directories are
    ignored.
    """
    run_dirs: set[Path] = set()
    for parent in config.private_dir_parents():
        run_dirs |= {path.parent for path in parent.glob(f"{PREFIX}*/gpud.sock")}
    return sorted(path for path in run_dirs if path.stat().st_uid == os.geteuid())


def _inventory(client: AdminClient) -> admin.Inventory:
    try:
        return client.inventory()
    except (DocumentError, OSError) as err:
        fail(f"gpud does not answer: {err}", EXIT_NO_DRIVER)
