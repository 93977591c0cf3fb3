"""The data that ``tessera smi`` shows, from gpud or, inside a pod, from the slice sockets.

Only gpud knows processes, holders and the memory budget. Without gpud these fields are None and
are printed as unknown, never as zero.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import UUID

from facts.document import DECLARED, GpuFacts
from mig.geometry import WHOLE, board
from vgpu_sim.cli.clients import slices as slice_client
from vgpu_sim.cli.clients.admin import AdminClient
from vgpu_sim.gpud.devices.device_info import DRIVER_VERSION
from vgpu_sim.gpud.events import clean_text
from vgpu_sim.hal.management import admin
from vgpu_sim.hal.messages import CLOCK_ATTRIBUTE, DeviceInfo
from vgpu_sim.hal.observe.modelled_report import MODELLED, WALL
from vgpu_sim.records import dataclass

CUDA_VERSION = f"{DRIVER_VERSION // 1000}.{DRIVER_VERSION % 1000 // 10}"


@dataclass(frozen=True, slots=True)
class ProcessView:
    """A process with a CUDA context. ``pid`` is the program's pid if gpud can see the program.

    Launch times are in ns of the worker's CLOCK_MONOTONIC. They are 0 until the first launch has
    ended. ``busy_ns`` includes the running kernel. ``running_kernel`` and ``running_seconds``
    are None if no kernel is running.
    """

    pid: int
    name: str | None
    worker_pid: int
    uid: int
    holder: str
    memory_bytes: int
    launches: int
    first_launch_ns: int
    last_launch_ns: int
    busy_ns: int
    running_kernel: str | None
    running_seconds: float | None
    sandbox: dict[str, bool]


@dataclass(frozen=True, slots=True)
class DeviceView:
    """A MIG device, or a whole GPU with MIG disabled (``profile`` "whole")."""

    index: int
    uuid: str
    profile: str
    start: int
    size: int
    multiprocessors: int
    memory_bytes: int
    memory_used_bytes: int
    context_count: int
    admit: bool | None
    holders: list[str] | None
    processes: list[ProcessView] | None


@dataclass(frozen=True, slots=True)
class GpuView:
    """A GPU as far as this process can see it: ``devices`` are the devices that programs use.

    ``facts`` come from the GPU's pool; they are None if the view comes from slice sockets, which
    do not send them.
    """

    index: int
    uuid: str
    board: str
    product: str
    capability: str
    memory_bytes: int
    multiprocessors: int
    health: str | None
    devices: list[DeviceView]
    facts: GpuFacts | None = None

    @property
    def mig_mode(self) -> str:
        """Return the MIG mode in nvidia-smi's words."""
        return "Disabled" if any(device.profile == WHOLE for device in self.devices) else "Enabled"

    @property
    def slices(self) -> list[DeviceView]:
        """Return the GPU's MIG devices."""
        return [device for device in self.devices if device.profile != WHOLE]


@dataclass(frozen=True, slots=True)
class NodeView:
    """Everything that ``tessera smi`` shows; ``source`` is "gpud" or "slices".

    ``clock`` is one of ``hal.observe.modelled.CLOCKS``: the clock that programs' events measure.
    """

    source: str
    version: str | None
    cuda_version: str
    isolation_enforced: bool | None
    isolation_reason: str
    sandbox: list[str] | None
    budget_total_bytes: int | None
    budget_used_bytes: int | None
    gpus: list[GpuView]
    clock: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the view as JSON values. A GPU's facts become fields of the GPU, null where
        unknown.
        """
        document = asdict(self)
        for gpu in document["gpus"]:
            gpu |= gpu.pop("facts") or dict.fromkeys(DECLARED)
        return document


def from_gpud(run_dir: Path) -> NodeView:
    """Read the view from gpud's administration socket.

    Raises:
        OSError: the socket cannot be reached or used.
        documents.DocumentError: gpud is of another version.
    """
    with AdminClient(run_dir, timeout_seconds=5.0) as client:
        inventory = client.inventory()
    return NodeView(
        source="gpud",
        version=inventory.version,
        cuda_version=CUDA_VERSION,
        isolation_enforced=inventory.isolation.enforced,
        isolation_reason=inventory.isolation.reason,
        sandbox=list(inventory.sandbox.active),
        budget_total_bytes=inventory.budget.total_bytes,
        budget_used_bytes=inventory.budget.used_bytes,
        gpus=[_gpu(gpu) for gpu in inventory.gpus],
        clock=inventory.clock,
    )


def from_slices(slices_dir: Path) -> NodeView:
    """Read the view from every slice socket below a directory. Raises slice_client.NotAnswered."""
    infos = slice_client.query_all(slices_dir)
    by_gpu: dict[bytes, list[DeviceInfo]] = {}
    for info in infos:
        by_gpu.setdefault(bytes(info.gpu_uuid), []).append(info)
    enforced = all(info.isolation for info in infos) if infos else None
    return NodeView(
        source="slices",
        version=None,
        cuda_version=CUDA_VERSION,
        isolation_enforced=enforced,
        isolation_reason="" if enforced else "gpud keeps limits by bookkeeping alone",
        sandbox=None,
        budget_total_bytes=None,
        budget_used_bytes=None,
        gpus=[
            _gpu_of(sorted(group, key=lambda info: int(info.instance_start)))
            for group in sorted(by_gpu.values(), key=lambda group: int(group[0].gpu_index))
        ],
        clock=_clock(infos),
    )


def _clock(infos: Sequence[DeviceInfo]) -> str | None:
    """Return the clock that events measure; None if no slice reports one, as with an earlier
    gpud.
    """
    clocks = {int(info.attributes[CLOCK_ATTRIBUTE]) for info in infos} & {0, 1}
    return None if not clocks else MODELLED if 1 in clocks else WALL


def _gpu(gpu: admin.Gpu) -> GpuView:
    return GpuView(
        index=gpu.index,
        uuid=gpu.uuid,
        board=gpu.board,
        product=gpu.product,
        capability=".".join(map(str, gpu.capability)),
        memory_bytes=gpu.memory_bytes,
        multiprocessors=gpu.multiprocessors,
        health=gpu.health,
        devices=[_device(index, instance) for index, instance in enumerate(gpu.instances)],
        facts=gpu.facts,
    )


def _device(index: int, instance: admin.Instance) -> DeviceView:
    names = {holder.pod_uid: f"{holder.namespace}/{holder.name}" for holder in instance.holders}
    return DeviceView(
        index=index,
        uuid=instance.uuid,
        profile=instance.profile,
        start=instance.start,
        size=instance.size,
        multiprocessors=instance.multiprocessors,
        memory_bytes=instance.memory_bytes,
        memory_used_bytes=instance.shared_used_bytes,
        context_count=len(instance.contexts),
        admit=instance.admit,
        holders=list(names.values()),
        processes=[_process(context, names) for context in instance.contexts],
    )


def _process(context: admin.Context, names: dict[str, str]) -> ProcessView:
    return ProcessView(
        pid=context.client_pid,
        name=_program_of(context.client_pid),
        worker_pid=context.pid,
        uid=context.client_uid,
        holder=names.get(context.pod_uid, context.pod_uid),
        memory_bytes=context.memory_bytes,
        launches=context.launches,
        first_launch_ns=context.first_launch_ns,
        last_launch_ns=context.last_launch_ns,
        busy_ns=context.busy_ns,
        running_kernel=context.running_kernel or None,
        running_seconds=_seconds_since(context.running_since_ns),
        sandbox=context.sandbox,
    )


def _seconds_since(begin_ns: int) -> float | None:
    """Return the seconds that have passed since a time of this node's CLOCK_MONOTONIC; None if the
    time is 0.
    """
    return round(max(0, time.monotonic_ns() - begin_ns) / 1e9, 1) if begin_ns else None


def _program_of(pid: int) -> str | None:
    """Return the command of a process, or None if /proc does not show it."""
    try:
        argument = (Path("/proc") / str(pid) / "cmdline").read_bytes().split(b"\0")[0]
    except OSError:
        return None
    return clean_text(argument.decode("utf-8", "replace"), 128) or None


def _gpu_of(infos: Iterable[DeviceInfo]) -> GpuView:
    devices = list(infos)
    first = devices[0]
    key = first.board.decode("ascii", "replace")
    whole = board(key)
    return GpuView(
        index=first.gpu_index,
        uuid=f"GPU-{UUID(bytes=bytes(first.gpu_uuid))}",
        board=key,
        product=whole.product_name,
        capability=f"{first.capability_major}.{first.capability_minor}",
        memory_bytes=whole.memory_bytes,
        multiprocessors=whole.sm_count,
        health=None,
        devices=[
            DeviceView(
                index=index,
                uuid=f"{'MIG' if info.is_mig else 'GPU'}-{UUID(bytes=bytes(info.uuid))}",
                profile=info.profile.decode("ascii", "replace"),
                start=info.instance_start,
                size=info.instance_size,
                multiprocessors=info.multiprocessors,
                memory_bytes=info.memory_bytes,
                memory_used_bytes=info.memory_used_bytes,
                context_count=info.context_count,
                admit=None,
                holders=None,
                processes=None,
            )
            for index, info in enumerate(devices)
        ],
    )
