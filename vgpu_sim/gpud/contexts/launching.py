"""Starts the worker of an authorised context and adds it to the table of contexts."""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from vgpu_sim.gpud.contexts import reconnecting
from vgpu_sim.gpud.contexts.index import Context
from vgpu_sim.gpud.contexts.settings import WorkerSettings
from vgpu_sim.gpud.contexts.table import ContextTable
from vgpu_sim.gpud.contexts.zygote import Zygote
from vgpu_sim.gpud.devices.attributes import sm_limits
from vgpu_sim.gpud.errors import HelloRefused, WorkerStartError
from vgpu_sim.gpud.limits.budget import Budget
from vgpu_sim.gpud.limits.caches import CacheOwner, OwnerCaches
from vgpu_sim.gpud.limits.cgroups.base import Share, SliceCgroups
from vgpu_sim.gpud.limits.cgroups.updates import GroupUpdates
from vgpu_sim.gpud.limits.sharing import SharingTable
from vgpu_sim.gpud.limits.starts import Starts
from vgpu_sim.gpud.model import InstanceUuid, MigInstance, Owner
from vgpu_sim.gpud.slices.hello import Hello
from vgpu_sim.hal.compute import spawn
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.compute.spawn import WorkerConfig
from vgpu_sim.system import foreign, polling, processes, seqpacket, threads
from vgpu_sim.system.foreign import ForeignSockets
from vgpu_sim.system.peers import Peer

logger = logging.getLogger("tessera.gpud")

MAX_CONTEXTS_PER_SLICE = 64  # contexts that run, start, or wait to start
LEAST_STARTS_AT_ONCE = 2
START_SECONDS = 10.0  # after this time a silent worker no longer delays other starts


def _has_hung_up(client: socket.socket) -> bool:
    """Return whether a waiting client has closed its connection. A client sends no data while it
    waits, so its socket is readable only after that.
    """
    return polling.is_readable(client)


def cache_owner(instance: MigInstance, owner: Owner) -> CacheOwner:
    """Return the owner of the object cache for contexts on this instance. ``owner`` is the owner of
    these contexts.
    """
    return CacheOwner(owner.namespace, instance.slot)


def _memory_share(instance: MigInstance) -> tuple[int, int]:
    """Return an instance's share of its GPU's memory and L2 cache as (the instance's units, the
    GPU's units).
    """
    whole = instance.gpu.board.placement_units
    return (whole if instance.profile.is_whole else instance.profile.size), whole


class Launcher:
    """Starts the workers of contexts.

    An instance has at most MAX_CONTEXTS_PER_SLICE contexts. Only a few contexts start concurrently;
    if several instances wait to start contexts, they take turns (``Starts``).
    """

    def __init__(
        self,
        settings: WorkerSettings,
        zygote: Zygote,
        cgroups: SliceCgroups,
        budget: Budget,
        contexts: ContextTable,
        sharing: SharingTable | None = None,
        run_dir: Path | None = None,
    ) -> None:
        """Prepare to start workers. ``run_dir`` holds their reconnect sockets; if it is None, no
        later gpud can adopt the workers.
        """
        self._run_dir = run_dir
        self._sharing = sharing if sharing is not None else SharingTable()
        self._settings = settings
        self._zygote = zygote
        self._cgroups = cgroups
        self.groups = GroupUpdates(cgroups, lambda one: (self.share_of(one), self.count(one.uuid)))
        self._budget = budget
        self._contexts = contexts
        self._caches = OwnerCaches(settings.cache_root, shared=settings.own_uids)
        self._starts = Starts(max(LEAST_STARTS_AT_ONCE, settings.threads))
        self._starting: Counter[InstanceUuid] = Counter()
        self._starting_of: Counter[tuple[InstanceUuid, str]] = Counter()  # by ``Owner.sharer``
        self._expecting: set[asyncio.Task[None]] = set()
        # A separate pool, because this work can take long.
        self._tidying = threads.pool(1, "caches")

    @property
    def problem(self) -> str:
        """The reason why no context can start now; empty if one can."""
        sandbox = self._zygote.sandbox
        if sandbox is not None and not (self._settings.weak_sandbox or spawn.is_confined(sandbox)):
            return spawn.NOT_CONFINED
        return self._zygote.problem

    def count(self, uuid: InstanceUuid, sharer: str = "") -> int:
        """Count the contexts that run or start on an instance. ``sharer`` limits this to one
        sharer's contexts; if it is empty, all are counted.
        """
        if not sharer:
            return self._contexts.count(uuid) + self._starting[uuid]
        owners = self._contexts.owners(uuid).items()
        live = sum(count for owner, count in owners if owner.sharer == sharer)
        return live + self._starting_of[uuid, sharer]

    def prepare_spare(self, instance: MigInstance, owner: Owner) -> None:
        """Prepare a spare worker in the background, for the first context of ``owner``, a new owner
        of the instance.
        """
        task = asyncio.create_task(self._expect(instance, owner))
        self._expecting.add(task)
        task.add_done_callback(self._expecting.discard)

    async def _expect(self, instance: MigInstance, owner: Owner) -> None:
        try:
            if self.problem != spawn.NOT_CONFINED:
                await self._zygote.request_spare(
                    self._config(instance, None, await self._cache(instance, owner), owner)
                )
        except (
            WorkerStartError,
            OSError,
        ) as err:  # the only effect is that the context starts more slowly
            logger.info("no_worker_ready instance=%s error=%s", instance.uuid, err)

    async def launch(
        self, instance: MigInstance, hello: Hello, client: socket.socket, peer: Peer, owner: Owner
    ) -> None:
        """Start a worker, which answers the client's HELLO itself.

        Returns when the worker serves the client or has ended.

        Raises:
            HelloRefused: with CUresult 2 if there are too many contexts. With CUresult 802 if the
                worker cannot be started, or ends before it serves the client.
            ConnectionAbortedError: the client hung up before its context could start.
        """
        if self.count(instance.uuid) >= MAX_CONTEXTS_PER_SLICE:
            raise HelloRefused(
                CudaError.OUT_OF_MEMORY, f"the slice has {MAX_CONTEXTS_PER_SLICE} contexts"
            )
        max_contexts = self._sharing.contexts(instance, MAX_CONTEXTS_PER_SLICE, owner.sharer)
        if self.count(instance.uuid, owner.sharer) >= max_contexts:
            who = "claim" if owner.claim else "pod"
            message = f"the {who} has {max_contexts} contexts of the slice"
            raise HelloRefused(CudaError.OUT_OF_MEMORY, message)
        async with self._count_start(instance.uuid, owner.sharer) as mark_started:
            if _has_hung_up(client):
                raise ConnectionAbortedError("the client hung up before its context was started")
            context = await self._start_or_refuse(instance, hello, client, peer, owner)
            self._contexts.add(context)
            mark_started()
            with suppress(TimeoutError):
                async with asyncio.timeout(START_SECONDS):
                    await context.settled.wait()
                    if not context.answered:
                        reason = f"the worker ended while it started: {context.end_reason}"
                        raise HelloRefused(CudaError.SYSTEM_NOT_READY, reason)

    @asynccontextmanager
    async def _count_start(
        self, uuid: InstanceUuid, sharer: str
    ) -> AsyncIterator[Callable[[], None]]:
        """Wait until a context may start on an instance, then count it as starting. Calling the
        yielded function ends that count.
        """
        counted = True

        def mark_started() -> None:
            nonlocal counted
            self._starting[uuid] -= counted
            self._starting_of[uuid, sharer] -= counted
            if not self._starting_of[uuid, sharer]:
                del self._starting_of[uuid, sharer]
            counted = False

        self._starting[uuid] += 1
        self._starting_of[uuid, sharer] += 1
        try:
            async with self._starts.turn(uuid):
                yield mark_started
        finally:
            mark_started()

    async def _start_or_refuse(
        self, instance: MigInstance, hello: Hello, client: socket.socket, peer: Peer, owner: Owner
    ) -> Context:
        try:
            if self.problem == spawn.NOT_CONFINED:
                raise WorkerStartError(spawn.NOT_CONFINED)
            return await self._start(instance, hello, client, peer, owner)
        except (WorkerStartError, OSError) as err:
            self._contexts.report_not_started(instance, owner, str(err))
            raise HelloRefused(CudaError.SYSTEM_NOT_READY, str(err)) from err

    def share_of(self, instance: MigInstance) -> Share:
        """Return the instance's share of memory and CPU, which its control group enforces."""
        return Share.of(
            instance,
            self._budget.most_bytes(instance),
            self._settings.threads,
            self._settings.strict_cpu,
        )

    async def _start(
        self, instance: MigInstance, hello: Hello, client: socket.socket, peer: Peer, owner: Owner
    ) -> Context:
        await self.groups.prepare(instance)
        cache_dir = await self._cache(instance, owner)
        mine, its = seqpacket.pair()
        mine.setblocking(False)
        refusing = foreign.refuse_descriptors(mine)
        sockets = ForeignSockets(f"worker of {instance.uuid}", refusing)
        reconnect = None
        try:
            with its:
                if not refusing:
                    await asyncio.to_thread(sockets.start)
                config = self._config(instance, hello, cache_dir, owner)
                if self._run_dir is not None:
                    reconnect = reconnecting.offer(self._run_dir, mine)
                pid = await self._zygote.start_worker(config, client, its)
            pidfd = processes.open_process(pid)
            if pidfd is None:
                raise WorkerStartError("the worker ended at once")
        except BaseException:
            mine.close()
            sockets.end()
            if reconnect is not None:
                reconnect.unlink(missing_ok=True)
            raise
        caches_in_use = {cache_owner(context.instance, context.owner) for context in self._contexts}
        asyncio.get_running_loop().run_in_executor(
            self._tidying, self._tidy_caches, cache_owner(instance, owner), caches_in_use
        )
        account = self._budget.open(instance, client=owner.sharer)
        return Context(
            instance, owner, peer, account, pid, pidfd, mine, sockets, reconnect=reconnect
        )

    def _tidy_caches(self, mine: CacheOwner, in_use: set[CacheOwner]) -> None:
        self._caches.trim(mine)
        self._caches.sweep(in_use | {mine})

    async def _cache(self, instance: MigInstance, owner: Owner) -> str | None:
        return await asyncio.to_thread(self._caches.directory, cache_owner(instance, owner))

    def _config(
        self, instance: MigInstance, hello: Hello | None, cache_dir: str | None, owner: Owner
    ) -> WorkerConfig:
        first = self._settings.first_uid
        uid = None if first is None else first + instance.slot
        share = hello.thread_share if hello is not None else 0
        return WorkerConfig(
            request=hello.request if hello is not None else 0,
            instance_uuid=instance.uuid,
            profile=instance.device_profile,
            capability=self._settings.capability_of(instance),
            backend=self._settings.backend,
            aperture_base=hello.aperture_base if hello is not None else 0,
            gpu_index=instance.gpu.index,
            context_index=hello.context_index if hello is not None else 0,
            memory_limit_bytes=self._sharing.client_bytes(instance, owner.sharer),
            threads=self._sharing.threads(instance, self._settings.threads, share),
            multiprocessors=self._sharing.multiprocessors(instance, share),
            sm_limits=sm_limits(self._settings.capability_of(instance)),
            cgroup_procs=self._cgroups.procs_files(instance.uuid),
            uid=uid,
            gid=uid,
            cache_dir=cache_dir,
            kernel_timeout_s=self._settings.kernel_timeout_s,
            weak_sandbox=self._settings.weak_sandbox,
            report_usage=self._settings.report_usage,
            clock=self._settings.clock,
            board=instance.gpu.board.key,
            memory_share=_memory_share(instance),
            facts=instance.gpu.facts,
        )
