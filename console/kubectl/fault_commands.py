"""``kubectl tessera fault``: lists, creates and deletes GPUFaults.

These are the only commands of the plugin that write. A GPUFault is a request to the operator,
which validates it and copies it to the GPU.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Protocol

import click

from console.kubectl import output
from console.kubectl.access import Access, run_connected, with_access
from gpu_operator import errors
from gpu_operator.api.v1alpha1 import API_VERSION
from gpu_operator.kube.actions import Action, Delete
from gpu_operator.kube.port import Document

_KIND: Final = "GPUFault"
_PENDING: Final = "Pending"
_REFUSED: Final = "Refused"
_POLL_S: Final = 0.25
_LASTING: Final = ("thermal", "hang", "offBus")


class Faults(Protocol):
    """The requests that these commands send."""

    async def list(self, kind: str, namespace: str | None = None) -> list[Document]:
        """Return all objects of a kind."""

    async def get(self, kind: str, name: str, namespace: str | None = None) -> Document:
        """Return one object. Raises NotFound."""

    async def create(self, document: Document) -> Document:
        """Create one object. Raises Conflict if it exists."""

    async def perform(self, action: Action) -> Document | None:
        """Perform an action."""


@click.group("fault")
def faults() -> None:
    """Make GPUs of the cluster fail, to test workloads. For cluster administrators."""


@faults.command("list")
@click.option("-o", "--output", "form", type=click.Choice(["json", "yaml"]))
@with_access
def show_faults(access: Access, form: str | None) -> None:
    """Print the GPUFaults with the GPU and the phase of each, and why one is refused."""
    gpu_faults = _send(access, lambda cluster: cluster.list(_KIND))
    if form:
        output.write_document({"faults": [_summarize(fault) for fault in gpu_faults]}, form)
        return
    if not gpu_faults:
        click.echo("No faults found.", err=True)
        return
    rows = [[value or "-" for value in _summarize(fault).values()] for fault in gpu_faults]
    output.write_table(("NAME", "GPU", "SLICE", "FAULT", "PHASE", "REASON", "SINCE"), rows)


@faults.command("inject")
@click.option("--gpu", metavar="NAME", help="GPU object to fail, as `map -o wide` prints it.")
@click.option("--node", metavar="NODE", help="Node of the GPU, with --index.")
@click.option("--index", type=click.IntRange(0, 7), help="Index of the GPU on its node.")
@click.option("--profile", metavar="PROFILE", help="Slice to fail; default: the whole GPU.")
@click.option("--start", type=click.IntRange(0, 15), help="First memory slice of --profile.")
@click.option("--xid", type=click.IntRange(1, 9999), help="Report an Xid error, such as 79.")
@click.option("--ecc-corrected", type=click.IntRange(1, 1000), metavar="N")
@click.option("--ecc-uncorrected", type=click.IntRange(1, 1000), metavar="N")
@click.option("--thermal", is_flag=True, help="Overheat the GPU, which slows it down.")
@click.option("--hang", is_flag=True, help="Stop the progress of kernels.")
@click.option("--off-bus", is_flag=True, help="Make the GPU fall off the bus.")
@click.option("--for", "seconds", type=click.IntRange(1, 604800), metavar="SECONDS")
@click.option("--name", metavar="NAME", help="Name of the object; default: a random one.")
@click.option("--dry-run", is_flag=True, help="Print the object as YAML, and send nothing.")
@click.option(
    "--wait",
    "wait_s",
    type=click.IntRange(0, 600),
    default=5,
    show_default=True,
    metavar="SECONDS",
    help="Time to wait for the verdict of the operator and of the node.",
)
@with_access
def inject_fault(
    access: Access, name: str | None, dry_run: bool, wait_s: int, **options: Any
) -> int:
    """Create a GPUFault, and print its name. --for ends --thermal, --hang or --off-bus.

    Exit status: 0 accepted, or no verdict within --wait; 1 refused, or an error.
    """
    document = {
        "apiVersion": API_VERSION,
        "kind": _KIND,
        "metadata": {"name": name or f"fault-{secrets.token_hex(4)}"},
        "spec": _make_spec(**options),
    }
    if dry_run:
        output.write_document(document, "yaml")
        return 0
    created_fault = _send(access, lambda cluster: _create(cluster, document, wait_s))
    name = f"gpufault/{_name(created_fault)}"
    if (phase := _summarize(created_fault)["phase"]) == _REFUSED:
        raise click.ClickException(f"{name} is refused: {_reason(created_fault)}")
    click.echo(name)
    if phase == _PENDING and wait_s:
        text = f"no verdict after {wait_s} s: `kubectl tessera fault list` shows it later"
        click.echo(f"warning: {name}: {text}", err=True)
    return 0


async def _create(cluster: Faults, document: Document, wait_s: int) -> Document:
    """Create a GPUFault, and return its state once it has a verdict, or after the wait."""
    created_fault = await cluster.create(document)
    deadline = time.monotonic() + wait_s
    while _summarize(created_fault)["phase"] == _PENDING and time.monotonic() < deadline:
        await asyncio.sleep(_POLL_S)
        try:
            created_fault = await cluster.get(_KIND, _name(created_fault))
        except errors.KubeError as err:  # the object exists, so its name must be printed
            click.echo(f"warning: gpufault/{_name(created_fault)}: {err}", err=True)
            break
    return created_fault


@faults.command("clear")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Delete all GPUFaults.")
@with_access
def clear_faults(access: Access, names: Sequence[str], every: bool) -> None:
    """Delete GPUFaults, which ends --thermal, --hang and --off-bus."""
    if bool(names) == every:
        raise click.UsageError("give names of GPUFaults, or --all")
    existing_names = [_name(fault) for fault in _send(access, lambda cluster: cluster.list(_KIND))]
    chosen = existing_names if every else [name.removeprefix("gpufault/") for name in names]
    if missing := [name for name in chosen if name not in existing_names]:
        raise click.ClickException(f"there is no GPUFault {missing[0]}")
    for name in chosen:
        action = Delete(_KIND, name)
        _send(access, lambda cluster, action=action: cluster.perform(action))  # type: ignore[misc]
        click.echo(f"gpufault/{name} deleted")


def _make_spec(
    *,
    gpu: str | None,
    node: str | None,
    index: int | None,
    profile: str | None,
    start: int | None,
    xid: int | None,
    ecc_corrected: int | None,
    ecc_uncorrected: int | None,
    thermal: bool,
    hang: bool,
    off_bus: bool,
    seconds: int | None,
) -> Document:
    """Return the spec of a GPUFault. Raises click.UsageError."""
    by_index = [option is not None for option in (node, index)]
    if any(by_index) if gpu is not None else not all(by_index):
        raise click.UsageError("give --gpu, or --node and --index")
    kinds: dict[str, Any] = {
        "xid": xid,
        "ecc": {
            key: value
            for key, value in (("corrected", ecc_corrected), ("uncorrected", ecc_uncorrected))
            if value is not None
        },
        "thermal": thermal,
        "hang": hang,
        "offBus": off_bus,
    }
    chosen = {key: value for key, value in kinds.items() if value}
    if len(chosen) != 1 or (ecc_corrected is not None and ecc_uncorrected is not None):
        raise click.UsageError(
            "give exactly one of --xid, --ecc-corrected, --ecc-uncorrected, --thermal, --hang,"
            " --off-bus"
        )
    if seconds is not None and not chosen.keys() & set(_LASTING):
        raise click.UsageError("--for needs --thermal, --hang or --off-bus")
    if start is not None and profile is None:
        raise click.UsageError("--start needs --profile")
    spec: Document = {"gpuName": gpu} if gpu is not None else {"nodeName": node, "index": index}
    if profile is not None:
        spec["slice"] = {"profile": profile} | ({"start": start} if start is not None else {})
    spec |= chosen
    return spec | ({"durationSeconds": seconds} if seconds is not None else {})


def _send(access: Access, request: Callable[[Faults], Coroutine[Any, Any, Any]]) -> Any:
    """Send one request. Raises click.ClickException."""
    try:
        return run_connected(access, request)
    except errors.KubeError as err:
        raise click.ClickException(str(err)) from err


def _name(document: Document) -> str:
    return str((document.get("metadata") or {}).get("name") or "")


def _reason(document: Document) -> str:
    """Return why a fault is refused or has not happened yet; empty otherwise."""
    for condition in (document.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Accepted" and condition.get("status") != "True":
            return f"{condition.get('reason')}: {condition.get('message')}"
    return ""


def _summarize(document: Document) -> dict[str, str]:
    spec, status = document.get("spec") or {}, document.get("status") or {}
    kind = next((key for key in ("xid", "ecc", *_LASTING) if spec.get(key)), "")
    gpu = status.get("gpu") or spec.get("gpuName") or f"{spec.get('nodeName')}/{spec.get('index')}"
    return {
        "name": _name(document),
        "gpu": str(gpu),
        "slice": str((spec.get("slice") or {}).get("profile") or "-"),
        "fault": str(status.get("fault") or (f"Xid {spec['xid']}" if kind == "xid" else kind)),
        "phase": str(status.get("phase") or _PENDING),
        "reason": _reason(document),
        "since": str((document.get("metadata") or {}).get("creationTimestamp") or ""),
    }
