"""Live contexts. Each has one worker process and is in the table until its memory is released.

When a worker process ends, gpud releases whatever the worker had not released itself. However
many contexts of a slice end at once, an iteration of gpud's loop takes only a few steps of that.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress

from vgpu_sim.gpud.contexts import worker_channel
from vgpu_sim.gpud.contexts.index import Context, ContextIndex
from vgpu_sim.gpud.contexts.shares import Shares
from vgpu_sim.gpud.contexts.worker_channel import ChannelViolation, WorkerChannel
from vgpu_sim.gpud.events import EventBus
from vgpu_sim.gpud.limits.budget import Budget
from vgpu_sim.gpud.model import InstanceUuid, MigInstance, Owner
from vgpu_sim.gpud.telemetry import counting
from vgpu_sim.hal.compute import abi, spawn
from vgpu_sim.hal.management.admin import Counters
from vgpu_sim.system import processes, seqpacket
from vgpu_sim.system.pacing import StepQueue, Turnstile

logger = logging.getLogger("tessera.gpud")

FENCE_GRACE_SECONDS = 2.0
CHANNEL_CLOSED_GRACE_SECONDS = 2.0
_LAST_WORDS_SECONDS = 2.0  # final statistics and the zygote's report arrive within a millisecond


class ContextTable:
    """The table of all live contexts. ``on_change`` is called whenever a context has started or
    ended.
    """

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
        self._contexts = ContextIndex()
        self._steps = StepQueue()
        self._shares = Shares(budget)
        self._turnstiles: dict[InstanceUuid, Turnstile] = {}  # of slices with contexts
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended: dict[InstanceUuid, Counters] = {}
        self._inherited: dict[InstanceUuid, Counters] = {}

    def __iter__(self) -> Iterator[Context]:
        return iter(tuple(self._contexts))

    def of(self, uuid: InstanceUuid) -> list[Context]:
        """Return an instance's contexts, oldest first."""
        return self._contexts.of(uuid)

    def count(self, uuid: InstanceUuid) -> int:
        """Return how many contexts an instance has."""
        return self._contexts.count(uuid)

    def owners(self, uuid: InstanceUuid) -> Mapping[Owner, int]:
        """Return how many contexts of an instance each owner has."""
        return self._contexts.owners(uuid)

    def find(self, pid: int) -> Context | None:
        """Return the context that has this worker; None if there is none."""
        return self._contexts.find(pid)

    def ended_counters(self, uuid: InstanceUuid) -> Counters:
        """Return the sum of the counters of an instance's ended contexts."""
        return self._ended.get(uuid, Counters())

    def ended_by_instance(self) -> dict[InstanceUuid, Counters]:
        """Return the sums of the counters of ended contexts, by instance."""
        return dict(self._ended)

    def inherit(self, ended: Mapping[InstanceUuid, Counters]) -> None:
        """Take over the counters of contexts that ended under an earlier gpud."""
        self._inherited = dict(ended)
        self._ended = dict(ended)

    def inherited_counters(self, uuid: InstanceUuid) -> Counters:
        """Return the counters of an instance's contexts that ended under an earlier gpud."""
        return self._inherited.get(uuid, Counters())

    def counters(self, uuid: InstanceUuid) -> Counters:
        """Return the sum of the counters of all contexts of an instance."""
        live = (context.statistics.counters for context in self.of(uuid))
        return counting.total(self.ended_counters(uuid), *live)

    def forget(self, uuid: InstanceUuid) -> None:
        """Forget the counters of an instance that was destroyed."""
        self._ended.pop(uuid, None)
        self._inherited.pop(uuid, None)

    def add(self, *contexts: Context) -> None:
        """Add contexts to the table and watch them from now on. The table then owns their
        descriptors and memory accounts.

        All of them are in the table before ``on_change`` is called, so that the list that
        ``on_change`` records is complete.
        """
        for context in contexts:
            self._contexts.insert(context)
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

    def report_not_started(self, instance: MigInstance, owner: Owner, message: str) -> None:
        """Report to the requesting pod why its context was not started."""
        self._events.emit(
            "worker_failed",
            instance=instance.uuid,
            pod_uid=owner.pod_uid,
            namespace=owner.namespace,
            pid=0,
            message=message,
        )

    def record_worker_exit(self, pid: int, wait_status: int) -> None:
        """Record a worker's wait status, as the zygote reported it."""
        context = self._contexts.find(pid)
        if context is not None and context.wait_status is None:
            context.wait_status = wait_status
            context.reported.set()

    def fence(self, context: Context, reason: str) -> None:
        """End a context whose holder lost the slice: notify the worker, and kill it after the grace
        period.
        """
        if context.fenced:
            return
        context.fenced = context.end_reported = True
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

    def end_failed(self, context: Context, error: int, reason: str) -> None:
        """End a context whose GPU failed: its client gets the CUresult ``error``, and the worker is
        killed after the grace period.
        """
        if context.fenced:
            return
        context.fenced = context.end_reported = True
        context.end_reason = f"fault: {reason}"
        nowhere = {"kernel": "", "ptx_line": 0, "address": 0, "block": 0}
        kind = abi.FaultKind.DEVICE.name
        self._tell(context, "fault", {**nowhere, "kind": kind, "message": reason})
        self._end_soon(context, reason, error)

    def pause(self, context: Context) -> None:
        """Stop the worker process of a context whose GPU hangs, until ``end_failed`` or ``kill``
        ends it.
        """
        context.paused = context in self._contexts and processes.stop(context.pidfd)

    def _end_soon(self, context: Context, reason: str, error: int = 0) -> None:
        if context.channel is None:
            self.kill(context)
            return
        with suppress(OSError):  # the channel is full or closed; the worker is killed later anyway
            message = {"type": "fence", "reason": reason, "error": error}
            context.channel.send(spawn.encode(message))
        if context.paused:
            processes.resume(context.pidfd)
        loop = asyncio.get_running_loop()
        loop.call_later(self._fence_grace_seconds, self.kill, context)

    def dismiss(self, context: Context, reason: str) -> None:
        """End a context that is no longer needed."""
        context.end_reported = True
        context.end_reason = context.end_reason or reason
        self.kill(context)

    def kill(self, context: Context) -> None:
        """Send SIGKILL to the worker of a context that is still in the table."""
        if context in self._contexts and not processes.kill(context.pidfd):
            logger.error("worker_kill_failed pid=%d", context.pid)

    async def drain(self, timeout_seconds: float) -> bool:
        """Wait until no context is left; return False if that takes longer than the timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                while self._tasks:
                    await asyncio.wait(tuple(self._tasks))
        return not self._contexts

    async def _live(self, context: Context) -> None:
        serving = asyncio.create_task(self._serve(context))
        try:
            await seqpacket.wait_until_readable(context.pidfd)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS_SECONDS):
                    await asyncio.wait((serving,))
                    await self._collect_exit_status(context)
        except asyncio.CancelledError:
            return  # gpud ends, while the worker keeps running
        finally:
            serving.cancel()
        if context.wait_status is None:  # the zygote may just have ended without reporting it
            context.wait_status = processes.reap(context.pidfd)
        await self._steps.run(context.instance.uuid, self._end_in_steps(context))

    async def _collect_exit_status(self, context: Context) -> None:
        """Get a worker's wait status from the zygote's report, or from the kernel for an adopted
        worker.
        """
        if context.adopted or context.wait_status is not None:
            return  # an adopted worker is not a child of this gpud's zygote
        context.wait_status = processes.reap(context.pidfd)
        if context.wait_status is None:
            await context.reported.wait()

    async def _serve(self, context: Context) -> None:
        if context.channel is None:
            return
        if context.instance.profile.is_whole:
            self._shares.allow_peers(context.account, context.client.pid)
        channel = WorkerChannel(
            context.channel,
            context.sockets,
            self._budget,
            context.account,
            context.statistics,
            self._turnstiles.setdefault(context.instance.uuid, worker_channel.turnstile()),
            context.opened_ns,
            context.adopted,
            self._shares,
            self._steps,
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
            return  # gpud ended this worker itself, and has reported why
        if name in {"fault", "worker_failed"}:
            context.end_reported = True
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

    def _end_in_steps(self, context: Context) -> Generator[None, None, None]:
        """Release what a context's worker had, then remove the context from the table."""
        yield from self._shares.drop_in_steps(context.account)
        self._end(context)

    def _end(self, context: Context) -> None:
        reason = context.end_reason = context.end_reason or _reason(context.wait_status)
        if not context.end_reported and _is_unexpected_end(context.wait_status):
            nowhere = {"kind": "", "kernel": "", "ptx_line": 0, "address": 0, "block": 0}
            self._tell(context, "fault", {**nowhere, "message": f"the worker ended: {reason}"})
        self._contexts.remove(context)
        uuid = context.instance.uuid
        if not self._contexts.count(uuid):
            self._turnstiles.pop(uuid, None)
        self._ended[uuid] = counting.total(self.ended_counters(uuid), context.statistics.counters)
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


def _is_unexpected_end(wait_status: int | None) -> bool:
    """Return whether a worker ended in a way that was neither requested nor reported to its
    client.
    """
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
