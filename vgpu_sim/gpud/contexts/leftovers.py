"""Adopts the workers that an earlier gpud of this node started and that are still running.

These workers keep serving their clients. gpud reserves the memory that each worker holds,
reconnects to the worker (``reconnecting``) for its reports, and ends the worker when its client
ends. The list of workers is in the run directory: like the workers, it does not survive a
reboot. A pid identifies a process only together with the process's start time.
"""

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from vgpu_sim.gpud.contexts import reconnecting
from vgpu_sim.gpud.contexts.index import Context
from vgpu_sim.gpud.contexts.table import ContextTable
from vgpu_sim.gpud.devices.inventory import Inventory
from vgpu_sim.gpud.limits.budget import Budget
from vgpu_sim.gpud.limits.cgroups.base import SliceCgroups
from vgpu_sim.gpud.model import InstanceUuid, MigInstance, Owner
from vgpu_sim.hal.compute.address_map import CHUNK_ALIGN_BYTES
from vgpu_sim.hal.management.admin import Counters
from vgpu_sim.records import dataclass
from vgpu_sim.system import processes, seqpacket
from vgpu_sim.system.foreign import ForeignSockets
from vgpu_sim.system.peers import Peer, PodUid

logger = logging.getLogger("tessera.gpud")

FILE_NAME = "contexts.json"
CLIENT_GONE_GRACE_SECONDS = 5.0
RESUME_SECONDS = 1.0  # how long to wait for the first reports of adopted workers
_GENERATIONS = 2  # descendants of a worker: its compile helper and that helper's children
_VERSION = 1
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
_MAX_FILE_BYTES = 4 << 20  # fits a node's largest number of contexts, each with the longest record


@dataclass(frozen=True, slots=True)
class Record:
    """A worker and its client, each identified by its pid and its start time in clock ticks since
    boot.
    """

    pid: int
    start_ticks: int
    client_pid: int
    client_start_ticks: int
    client_uid: int
    instance_uuid: str
    pod_uid: str
    namespace: str
    claim: str = ""
    reconnect: str = ""
    opened_ns: int = 0

    @property
    def owner(self) -> Owner:
        """The owner on whose behalf the worker runs."""
        return Owner(PodUid(self.pod_uid), self.namespace, self.claim)

    def belongs_to(self, instance: MigInstance) -> bool:
        """Return whether the worker's owner still has the instance, according to the journal."""
        return not self.claim or instance.share_of(self.claim) is not None

    @property
    def alive(self) -> bool:
        """Return whether the worker still runs."""
        return processes.start_ticks(self.pid) == self.start_ticks

    @property
    def client_alive(self) -> bool:
        """Return whether the worker's client still runs."""
        return processes.start_ticks(self.client_pid) == self.client_start_ticks


def save(
    run_dir: Path,
    contexts: Iterable[Context],
    ended: Mapping[InstanceUuid, Counters] | None = None,
) -> None:
    """Write the list of live contexts and the counters of each instance's ended contexts.

    A failure is logged but not raised: programs must keep running.
    """
    live = tuple(contexts)
    document = {
        "version": _VERSION,
        "contexts": [_encode(context) for context in live],
        # In a separate object, because an older gpud rejects additional fields of a context.
        "channels": {
            str(context.pid): {"reconnect": context.reconnect.name, "opened_ns": context.opened_ns}
            for context in live
            if context.reconnect is not None
        },
        "ended": {uuid: asdict(counted) for uuid, counted in (ended or {}).items()},
    }
    path = run_dir / FILE_NAME
    temporary = path.with_suffix(".tmp")
    try:
        temporary.write_text(json.dumps(document), encoding="utf-8")
        temporary.rename(path)
    except OSError as err:
        logger.warning("contexts_not_recorded error=%s", err)


class Recorder:
    """Writes the list of contexts after every change of the context table, outside the event loop.
    Changes during a write are written together.

    A context is recorded while its worker starts. This is normally before the context's client
    gets an answer; on a slow disk, the answer may come first.
    """

    def __init__(
        self,
        run_dir: Path,
        contexts: Iterable[Context],
        ended: Callable[[], Mapping[InstanceUuid, Counters]] = dict,
    ) -> None:
        self._run_dir = run_dir
        self._contexts = contexts
        self._ended = ended
        self._stale = False
        self._writing: asyncio.Task[None] | None = None

    def schedule_save(self) -> None:
        """Schedule a write of the current list of contexts."""
        self._stale = True
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())

    async def finish(self) -> None:
        """Wait until all changes to the list are written."""
        while self._writing is not None:
            await asyncio.wait((self._writing,))

    async def _write(self) -> None:
        try:
            while self._stale:
                self._stale = False
                live, ended = tuple(self._contexts), self._ended()
                await asyncio.to_thread(save, self._run_dir, live, ended)
        finally:
            self._writing = None


def load(run_dir: Path) -> list[Record]:
    """Read the list of workers. An unreadable list counts as empty: gpud ends the processes left in
    control groups in any case.
    """
    try:
        document = _read(run_dir)
        channels = document.get("channels", {})
        return [
            Record(**entry, **channels.get(str(entry["pid"]), {})) for entry in document["contexts"]
        ]
    except FileNotFoundError:
        return []
    except _UNREADABLE as err:
        logger.warning("contexts_unreadable error=%s", err)
        return []


def load_ended(run_dir: Path) -> dict[InstanceUuid, Counters]:
    """Read the counters of each instance's ended contexts; empty if they cannot be read."""
    counter_names = {field.name for field in fields(Counters)}
    with suppress(*_UNREADABLE):
        return {
            InstanceUuid(uuid): Counters(
                **{name: int(count) for name, count in counted.items() if name in counter_names}
            )
            for uuid, counted in _read(run_dir).get("ended", {}).items()
        }
    return {}


def _read(run_dir: Path) -> dict[str, Any]:
    with (run_dir / FILE_NAME).open("rb") as file:
        document = json.loads(file.read(_MAX_FILE_BYTES))
    if document["version"] != _VERSION:
        raise ValueError(f"unexpected version {document['version']}")
    return dict(document)


class Leftovers:
    """Adopts an earlier gpud's workers once, at start."""

    def __init__(
        self,
        inventory: Inventory,
        budget: Budget,
        contexts: ContextTable,
        cgroups: SliceCgroups,
        run_dir: Path | None = None,
    ) -> None:
        self._inventory = inventory
        self._budget = budget
        self._contexts = contexts
        self._cgroups = cgroups
        self._run_dir = run_dir
        self._watches: set[asyncio.Task[None]] = set()
        self._resuming: list[Context] = []

    def take_over(
        self, records: Iterable[Record], ended: Mapping[InstanceUuid, Counters] | None = None
    ) -> None:
        """Watch the workers that still run, end workers without an instance or a record, and remove
        empty control groups.

        ``ended`` holds the counters of each instance's ended contexts.
        """
        instances = {instance.uuid: instance for instance in self._inventory.instances}
        self._contexts.inherit(
            {u: counters for u, counters in (ended or {}).items() if u in instances}
        )
        survivors: list[tuple[Context, Record]] = []
        for record in records:
            pidfd = processes.open_process(record.pid)
            if pidfd is None:
                continue
            instance = instances.get(record.instance_uuid)  # type: ignore[call-overload]
            if not record.alive or instance is None or not record.belongs_to(instance):
                if record.alive:
                    processes.kill(pidfd)
                os.close(pidfd)
                continue
            held_bytes = _chunk_bytes(record.pid)
            context = Context(
                instance=instance,
                owner=record.owner,
                client=Peer(record.client_pid, record.client_uid),
                account=self._budget.open(instance, held_bytes, record.owner.sharer),
                pid=record.pid,
                pidfd=pidfd,
                channel=None,
                sockets=ForeignSockets(f"worker {record.pid}", refusing=True),
                adopted=True,
                reconnect=self._address(record),
                opened_ns=record.opened_ns or time.monotonic_ns(),
            )
            self._reconnect(context)
            logger.info("worker_found pid=%d instance=%s", record.pid, instance.uuid)
            survivors.append((context, record))
        self._contexts.add(*(context for context, _ in survivors))
        for context, record in survivors:
            self._watch(context, record)
        self._reap_groups({record.pid for _, record in survivors})
        if self._run_dir is not None:
            kept_paths = {
                context.reconnect for context, _ in survivors if context.reconnect is not None
            }
            reconnecting.remove_others(self._run_dir, kept_paths)

    async def wait_until_resumed(self) -> None:
        """Wait, at most RESUME_SECONDS, until the adopted workers have reported their counters. The
        counters that gpud publishes then include those of these workers.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(RESUME_SECONDS):
                for context in self._resuming:
                    await context.settled.wait()

    def _address(self, record: Record) -> Path | None:
        with suppress(ValueError):
            if self._run_dir is not None:
                return reconnecting.address(self._run_dir, record.reconnect)
        return None

    def _reconnect(self, context: Context) -> None:
        connection = reconnecting.reconnect(context.reconnect) if context.reconnect else None
        if connection is None:
            return
        context.channel, refusing = connection
        context.sockets = ForeignSockets(f"worker {context.pid}", refusing)
        self._resuming.append(context)

    def _reap_groups(self, kept_pids: set[int]) -> None:
        known_uuids = {instance.uuid for instance in self._inventory.instances}
        for uuid in self._cgroups.existing():
            for pid in self._cgroups.processes(uuid):
                if _belongs_to(pid, kept_pids):
                    continue
                pidfd = processes.open_process(pid)
                if pidfd is not None:
                    logger.warning("worker_reaped pid=%d group=%s", pid, uuid)
                    processes.kill(pidfd)
                    os.close(pidfd)
            if uuid not in known_uuids:
                try:
                    self._cgroups.remove(uuid)
                except OSError as err:  # its processes are still dying; the next start removes it
                    logger.info("cgroup_kept group=%s reason=%s", uuid, err.strerror)

    def _watch(self, context: Context, record: Record) -> None:
        task = asyncio.create_task(self._end_without_client(context, record))
        self._watches.add(task)
        task.add_done_callback(self._watches.discard)

    async def _end_without_client(self, context: Context, record: Record) -> None:
        client = processes.open_process(record.client_pid)
        if client is not None:
            try:
                if record.client_alive:
                    await seqpacket.wait_until_readable(client)
            finally:
                os.close(client)
        await asyncio.sleep(CLIENT_GONE_GRACE_SECONDS)
        self._contexts.dismiss(context, "its client is gone")


def _belongs_to(pid: int | None, workers: set[int]) -> bool:
    """Return whether a process is one of these workers, a compile helper, or a helper's child."""
    for _ in range(_GENERATIONS):
        if pid is None or pid in workers:
            break
        pid = processes.parent(pid)
    return pid in workers


def _chunk_bytes(pid: int) -> int:
    """Return how many bytes of memory a worker's chunks have. The result is rounded up, because the
    kernel's counter lags by some pages.
    """
    return -(-processes.shared_resident_bytes(pid) // CHUNK_ALIGN_BYTES) * CHUNK_ALIGN_BYTES


def _encode(context: Context) -> dict[str, Any]:
    if context.born is None:
        born = (processes.start_ticks(pid) or 0 for pid in (context.pid, context.client.pid))
        context.born = (next(born), next(born))
    return {
        "pid": context.pid,
        "start_ticks": context.born[0],
        "client_pid": context.client.pid,
        "client_start_ticks": context.born[1],
        "client_uid": context.client.uid,
        "instance_uuid": context.instance.uuid,
        "pod_uid": context.owner.pod_uid,
        "namespace": context.owner.namespace,
        # Omitted if empty, so that an older gpud can read the list.
        **({"claim": context.owner.claim} if context.owner.claim else {}),
    }
