"""Starts the worker of an authorised context and hands it over to the table of contexts."""

import asyncio
import socket
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from vgpu_sim.driver import processes, seqpacket
from vgpu_sim.driver.attributes import MAX_THREADS_PER_BLOCK
from vgpu_sim.driver.budget import Budget
from vgpu_sim.driver.caches import OwnerCaches
from vgpu_sim.driver.cgroups.base import Share, SliceCgroups
from vgpu_sim.driver.contexts import Context, ContextTable
from vgpu_sim.driver.cuda_status import CudaStatus
from vgpu_sim.driver.errors import HelloRefused, WorkerStartError
from vgpu_sim.driver.hello import Hello
from vgpu_sim.driver.model import InstanceUuid, MigInstance, Owner, Peer
from vgpu_sim.driver.zygote import Zygote
from vgpu_sim.hal.spawn import WorkerConfig

MAX_CONTEXTS_PER_SLICE = 64
FIRST_WORKER_UID = 70000


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What is the same for all workers of a node.

    ``capability`` None is the board's own. ``own_uids``: gpud may give each instance its uid.
    ``cache_root`` is the directory of the owners' object caches.
    """

    backend: str
    threads: int
    capability: tuple[int, int] | None
    own_uids: bool
    strict_cpu: bool
    cache_root: Path

    def capability_of(self, instance: MigInstance) -> tuple[int, int]:
        """Return the compute capability that an instance reports."""
        return self.capability or instance.gpu.board.compute_capability


class Launcher:
    """Starts workers, at most MAX_CONTEXTS_PER_SLICE at a time on one instance."""

    def __init__(
        self,
        settings: WorkerSettings,
        zygote: Zygote,
        cgroups: SliceCgroups,
        budget: Budget,
        contexts: ContextTable,
    ) -> None:
        self._settings = settings
        self._zygote = zygote
        self._cgroups = cgroups
        self._budget = budget
        self._contexts = contexts
        self._caches = OwnerCaches(settings.cache_root, shared=settings.own_uids)
        self._starting: Counter[InstanceUuid] = Counter()

    def count(self, uuid: InstanceUuid) -> int:
        """Return how many contexts live or are being started on an instance."""
        return len(self._contexts.of(uuid)) + self._starting[uuid]

    async def launch(
        self, instance: MigInstance, hello: Hello, client: socket.socket, peer: Peer, owner: Owner
    ) -> None:
        """Start a worker that answers the client's HELLO itself.

        Raises:
            HelloRefused: too many contexts (2), or no worker could be started (802).
        """
        if self.count(instance.uuid) >= MAX_CONTEXTS_PER_SLICE:
            raise HelloRefused(
                CudaStatus.OUT_OF_MEMORY, f"the slice has {MAX_CONTEXTS_PER_SLICE} contexts"
            )
        self._starting[instance.uuid] += 1
        try:
            context = await self._start(instance, hello, client, peer, owner)
        except (WorkerStartError, OSError) as err:
            self._contexts.not_started(instance, owner, str(err))
            raise HelloRefused(CudaStatus.SYSTEM_NOT_READY, str(err)) from err
        finally:
            self._starting[instance.uuid] -= 1
        self._contexts.add(context)

    def share_of(self, instance: MigInstance) -> Share:
        """Return what an instance's control group is to hold."""
        return Share.of(
            instance,
            self._budget.most_bytes(instance),
            self._settings.threads,
            self._settings.strict_cpu,
        )

    async def _start(
        self, instance: MigInstance, hello: Hello, client: socket.socket, peer: Peer, owner: Owner
    ) -> Context:
        self._cgroups.prepare(instance.uuid, self.share_of(instance), self.count(instance.uuid))
        mine, its = seqpacket.pair()
        mine.setblocking(False)
        try:
            with its:
                config = self._config(instance, hello, owner)
                pid = await self._zygote.start_worker(config, client, its)
            pidfd = processes.open_process(pid)
            if pidfd is None:
                raise WorkerStartError("the worker ended at once")
        except BaseException:
            mine.close()
            raise
        asyncio.get_running_loop().run_in_executor(None, self._caches.trim, owner)
        account = self._budget.open(instance)
        return Context(instance, owner, peer, account, pid, pidfd, mine)

    def _config(self, instance: MigInstance, hello: Hello, owner: Owner) -> WorkerConfig:
        uid = FIRST_WORKER_UID + instance.slot if self._settings.own_uids else None
        return WorkerConfig(
            request=hello.request,
            instance_uuid=instance.uuid,
            profile=instance.profile.name,
            capability=self._settings.capability_of(instance),
            backend=self._settings.backend,
            aperture_base=hello.aperture_base,
            gpu_index=instance.gpu.index,
            context_index=hello.context_index,
            memory_limit_bytes=instance.profile.memory_bytes,
            threads=self._settings.threads,
            max_threads_per_block=MAX_THREADS_PER_BLOCK,
            cgroup_procs=self._cgroups.procs_files(instance.uuid),
            uid=uid,
            gid=uid,
            cache_dir=self._caches.directory(owner),
        )
