"""Live contexts: one worker process each, from its spawn to its last reserved byte.

Whatever a worker did not give back is given back here when its process has ended, however it ended.
"""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from vgpu_sim.gpud.contexts import worker_channel
from vgpu_sim.gpud.contexts.worker_channel import ChannelViolation, Statistics, WorkerChannel
from vgpu_sim.gpud.events import EventBus
from vgpu_sim.gpud.limits.budget import Account, Budget
from vgpu_sim.gpud.model import InstanceUuid, MigInstance, Owner
from vgpu_sim.gpud.telemetry import counting
from vgpu_sim.hal.compute import abi, spawn
from vgpu_sim.hal.management.admin import Counters
from vgpu_sim.system import processes, seqpacket
from vgpu_sim.system.foreign import ForeignSockets
from vgpu_sim.system.pacing import Turnstile
from vgpu_sim.system.peers import Peer

logger = logging.getLogger("tessera.gpud")

FENCE_GRACE_SECONDS = 2.0
CHANNEL_CLOSED_GRACE_SECONDS = 2.0
_LAST_WORDS_SECONDS = 2.0  # final statistics and the zygote's report come within a millisecond


@dataclass(slots=True, eq=False)
class Context:
    """One CUDA context.

    ``adopted``: an earlier gpud started its worker; ``channel`` is None if that has no reconnect
    socket, whose address is ``reconnect``. ``opened_ns``: when it was started (CLOCK_MONOTONIC).
    ``born``: when worker and client started, in clock ticks since boot, once somebody has looked.
    ``settled``: it serves its client (``served``), or has ended. ``told``: whoever should know why
    it ends has been told, or knows.
    """

    instance: MigInstance
    owner: Owner
    client: Peer
    account: Account
    pid: int
    pidfd: int
    channel: socket.socket | None
    sockets: ForeignSockets
    statistics: Statistics = field(default_factory=Statistics)
    sandbox: dict[str, bool] = field(default_factory=dict)
    end_reason: str = ""
    fenced: bool = False
    paused: bool = False
    told: bool = False
    wait_status: int | None = None
    reported: asyncio.Event = field(default_factory=asyncio.Event)
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    served: bool = False
    born: tuple[int, int] | None = None
    adopted: bool = False
    reconnect: Path | None = None
    opened_ns: int = field(default_factory=time.monotonic_ns)

    @property
    def answered(self) -> bool:
        """Return whether the client has its answer from the worker, for better or worse."""
        status = self.wait_status
        refused = status is not None and os.waitstatus_to_exitcode(status) == spawn.REFUSED_STATUS
        return self.served or refused


class ContextTable:
    """All live contexts. ``on_change`` runs after every start and every end of a context."""

    def __init__(
        self,
        budget: Budget,
        events: EventBus,
        on_change: Callable[[MigInstance], None],
        fence_grace_seconds: float = FENCE_GRACE_SECONDS,
    ) -> None:
        self._budget = budget
        self._events = events
        self._on_change = on_change
        self._fence_grace_seconds = fence_grace_seconds
        self._contexts: list[Context] = []
        self._turnstiles: dict[InstanceUuid, Turnstile] = {}  # of slices with contexts
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended: dict[InstanceUuid, Counters] = {}
        self._inherited: dict[InstanceUuid, Counters] = {}

    def __iter__(self) -> Iterator[Context]:
        return iter(tuple(self._contexts))

    def of(self, uuid: InstanceUuid) -> list[Context]:
        """Return an instance's contexts, oldest first."""
        return [context for context in self._contexts if context.instance.uuid == uuid]

    def ended(self, uuid: InstanceUuid) -> Counters:
        """Return what an instance's contexts that are no more have counted."""
        return self._ended.get(uuid, Counters())

    def all_ended(self) -> dict[InstanceUuid, Counters]:
        """Return what contexts that are no more have counted, by instance."""
        return dict(self._ended)

    def inherit(self, ended: Mapping[InstanceUuid, Counters]) -> None:
        """Take over what contexts have counted that ended under an earlier gpud."""
        self._inherited = dict(ended)
        self._ended = dict(ended)

    def inherited(self, uuid: InstanceUuid) -> Counters:
        """Return what was counted of an instance's ended contexts before this gpud."""
        return self._inherited.get(uuid, Counters())

    def counters(self, uuid: InstanceUuid) -> Counters:
        """Return what all contexts of an instance have counted."""
        live = (context.statistics.counters for context in self.of(uuid))
        return counting.total(self.ended(uuid), *live)

    def forget(self, uuid: InstanceUuid) -> None:
        """Drop what is remembered of an instance that is no more."""
        self._ended.pop(uuid, None)
        self._inherited.pop(uuid, None)

    def add(self, *contexts: Context) -> None:
        """Watch over contexts from now on; their descriptors and accounts are the table's.

        All are in the table before ``on_change`` runs: what it records misses none.
        """
        self._contexts.extend(contexts)
        for context in contexts:
            task = asyncio.create_task(self._live(context))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            self._events.emit(
                "context_started",
                instance=context.instance.uuid,
                pid=context.pid,
                client_pid=context.client.pid,
                pod_uid=context.owner.pod_uid,
            )
            self._on_change(context.instance)

    def not_started(self, instance: MigInstance, owner: Owner, message: str) -> None:
        """Tell a pod that asked for a context why it got none."""
        self._events.emit(
            "worker_failed",
            instance=instance.uuid,
            pod_uid=owner.pod_uid,
            namespace=owner.namespace,
            pid=0,
            message=message,
        )

    def worker_exited(self, pid: int, wait_status: int) -> None:
        """Take the zygote's report of how a worker ended."""
        for context in self._contexts:
            if context.pid == pid and context.wait_status is None:
                context.wait_status = wait_status
                context.reported.set()
                return

    def fence(self, context: Context, reason: str) -> None:
        """End a context whose holder lost the slice: told first, killed after the grace."""
        if context.fenced:
            return
        context.fenced = context.told = True
        context.end_reason = f"fenced: {reason}"
        self._events.emit(
            "fenced",
            instance=context.instance.uuid,
            pod_uid=context.owner.pod_uid,
            namespace=context.owner.namespace,
            pid=context.pid,
            reason=reason,
        )
        self._end_soon(context, reason)

    def strike(self, context: Context, error: int, reason: str) -> None:
        """End a context whose GPU failed: its client gets this CUresult; killed after the grace."""
        if context.fenced:
            return
        context.fenced = context.told = True
        context.end_reason = f"fault: {reason}"
        nowhere = {"kernel": "", "ptx_line": 0, "address": 0, "block": 0}
        kind = abi.FaultKind.DEVICE.name
        self._tell(context, "fault", {**nowhere, "kind": kind, "message": reason})
        self._end_soon(context, reason, error)

    def pause(self, context: Context) -> None:
        """Let nothing of a context move until it is struck or killed: its GPU hangs."""
        context.paused = context in self._contexts and processes.stop(context.pidfd)

    def _end_soon(self, context: Context, reason: str, error: int = 0) -> None:
        if context.channel is None:
            self.kill(context)
            return
        with suppress(OSError):  # a full or closed channel: the kill comes anyway
            message = {"type": "fence", "reason": reason, "error": error}
            context.channel.send(spawn.encode(message))
        if context.paused:
            processes.resume(context.pidfd)
        loop = asyncio.get_running_loop()
        loop.call_later(self._fence_grace_seconds, self.kill, context)

    def dismiss(self, context: Context, reason: str) -> None:
        """End a context that nobody needs any more."""
        context.told = True
        context.end_reason = context.end_reason or reason
        self.kill(context)

    def kill(self, context: Context) -> None:
        """SIGKILL a worker that is still in the table."""
        if context in self._contexts and not processes.kill(context.pidfd):
            logger.error("worker_kill_failed pid=%d", context.pid)

    async def drain(self, timeout_seconds: float) -> bool:
        """Wait until no context is left; False when time is up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                while self._tasks:
                    await asyncio.wait(tuple(self._tasks))
        return not self._contexts

    async def _live(self, context: Context) -> None:
        serving = asyncio.create_task(self._serve(context))
        try:
            await seqpacket.readable(context.pidfd)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS_SECONDS):
                    await asyncio.wait((serving,))
                    await self._learn_end(context)
        except asyncio.CancelledError:
            return  # gpud ends and the worker lives on
        finally:
            serving.cancel()
        if context.wait_status is None:  # its zygote may have ended without a report just now
            context.wait_status = processes.reap(context.pidfd)
        self._end(context)

    async def _learn_end(self, context: Context) -> None:
        """Get the wait status: the zygote's report, or gpud's own if it inherited the worker."""
        if context.adopted or context.wait_status is not None:
            return  # an adopted worker is no child of this gpud's zygote
        context.wait_status = processes.reap(context.pidfd)
        if context.wait_status is None:
            await context.reported.wait()

    async def _serve(self, context: Context) -> None:
        if context.channel is None:
            return
        channel = WorkerChannel(
            context.channel,
            context.sockets,
            self._budget,
            context.account,
            context.statistics,
            self._turnstiles.setdefault(context.instance.uuid, worker_channel.turnstile()),
            context.opened_ns,
            context.adopted,
        )
        try:
            async for name, fields in channel.events():
                self._worker_event(context, name, fields)
        except ChannelViolation as err:
            context.end_reason = f"protocol violation: {err}"
            self.kill(context)
            return
        loop = asyncio.get_running_loop()
        loop.call_later(CHANNEL_CLOSED_GRACE_SECONDS, self.kill, context)

    def _worker_event(self, context: Context, name: str, fields: dict[str, object]) -> None:
        if name == "worker_started":
            sandbox = fields["sandbox"]
            context.sandbox = sandbox if isinstance(sandbox, dict) else {}
            context.served = True
            context.settled.set()
            logger.info("worker_started pid=%d sandbox=%s", context.pid, sandbox)
            return
        if name == "fault" and context.fenced:
            return  # its way of ending, which has been told
        if name in {"fault", "worker_failed"}:
            context.told = True
            context.end_reason = context.end_reason or f"{name}: {fields['message']}"
        self._tell(context, name, fields)

    def _tell(self, context: Context, name: str, fields: dict[str, object]) -> None:
        self._events.emit(
            name,
            instance=context.instance.uuid,
            pod_uid=context.owner.pod_uid,
            namespace=context.owner.namespace,
            pid=context.pid,
            **fields,
        )

    def _end(self, context: Context) -> None:
        reason = context.end_reason = context.end_reason or _reason(context.wait_status)
        if not context.told and _untimely(context.wait_status):
            nowhere = {"kind": "", "kernel": "", "ptx_line": 0, "address": 0, "block": 0}
            self._tell(context, "fault", {**nowhere, "message": f"the worker ended: {reason}"})
        self._contexts.remove(context)
        uuid = context.instance.uuid
        self._ended[uuid] = counting.total(self.ended(uuid), context.statistics.counters)
        if not self.of(context.instance.uuid):
            self._turnstiles.pop(context.instance.uuid, None)
        context.settled.set()
        self._budget.close(context.account)
        os.close(context.pidfd)
        if context.channel is not None:
            context.sockets.close(context.channel)
            context.sockets.end()
        if context.reconnect is not None:
            context.reconnect.unlink(missing_ok=True)
        self._events.emit(
            "context_ended",
            instance=context.instance.uuid,
            pid=context.pid,
            pod_uid=context.owner.pod_uid,
            reason=reason,
        )
        self._on_change(context.instance)


def _untimely(wait_status: int | None) -> bool:
    """Tell whether a worker is known to have ended otherwise than its client was told or asked."""
    if wait_status is None:
        return False
    return os.waitstatus_to_exitcode(wait_status) not in (0, spawn.REFUSED_STATUS)


def _reason(wait_status: int | None) -> str:
    if wait_status is None:
        return "ended"
    if os.WIFSIGNALED(wait_status):
        return f"killed by signal {os.WTERMSIG(wait_status)}"
    code = os.waitstatus_to_exitcode(wait_status)
    return "closed" if code == 0 else f"exit status {code}"
