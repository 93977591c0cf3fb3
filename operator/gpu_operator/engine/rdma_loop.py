"""Runs policies of RDMA: reflectors feed ``PolicyCluster``, its actions are performed.

Two loops share it, one computation at a time in a thread of its own: tables are written as soon as
something changed, statuses after that, so that a thousand statuses never stand before a table.
"""

import asyncio
import datetime
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Never

from gpu_operator import errors
from gpu_operator.api.v1alpha1.rdma import LEASE_LABEL
from gpu_operator.controllers.rdma import reading
from gpu_operator.controllers.rdma.cluster import TABLES_KIND, Change, Now, PolicyCluster
from gpu_operator.engine.computing import Computing
from gpu_operator.engine.parts import until_one_ends
from gpu_operator.kube.actions import Action, Apply, Delete, Record
from gpu_operator.kube.port import Chosen, Cluster, Document
from gpu_operator.kube.reflector import Reflector
from rdma.reading.manifests import NETWORK_KIND, POLICY_KIND

GATHER_S: Final = 0.01  # changes come in bursts
_RETRY_S: Final = (0.25, 15.0)
_AT_ONCE: Final = 16  # requests
_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"
_HOLDERS: Final = f"spec.nodeName!=,spec.hostNetwork!=true,{_ENDED}"
_READERS: Final[Mapping[str, Callable[[Document], Any]]] = {
    "Namespace": reading.namespace,
    "Node": reading.node,
    "Pod": reading.pod,
    "Lease": reading.heartbeat,
    NETWORK_KIND: reading.network,
    POLICY_KIND: reading.policy,
    TABLES_KIND: reading.tables,
}
_log = logging.getLogger(__name__)


def chosen(kind: str, namespace: str) -> Chosen:
    """Return which objects of a kind are asked for; no field tells pods that hold an HCA."""
    if kind == "Pod":
        return Chosen(fields=_HOLDERS)
    if kind == "Lease":
        return Chosen(namespace=namespace, labels=LEASE_LABEL)
    return Chosen()


class RdmaLoop:
    """Owned by one event loop; every write asks ``fence`` first, which raises NotLeader."""

    def __init__(
        self,
        kube: Cluster,
        namespace: str,
        owners: Sequence[Mapping[str, Any]],
        fence: Callable[[], None],
    ) -> None:
        self._kube = kube
        self._fence = fence
        self._cluster = PolicyCluster(owners)
        self._inbox: list[Change] = []
        self._computing = Computing("policies")
        self._tables_due = asyncio.Event()
        self._reports_due = asyncio.Event()
        self.reflectors = [
            Reflector(kube, kind, chosen(kind, namespace), read, self.changed)
            for kind, read in _READERS.items()
        ]

    @property
    def stuck_for_s(self) -> float:
        """For how long a computation has been going on now."""
        return self._computing.stuck_for_s

    def changed(self, kind: str, key: str, value: Any) -> None:
        """Take a change; what it comes to is written as soon as everything has been listed."""
        self._inbox.append((kind, key, value))
        self._tables_due.set()

    async def run(self) -> None:
        """Work until cancelled. Raises NotLeader."""
        following = (reflector.run() for reflector in self.reflectors)
        try:
            await until_one_ends(*following, self._work())
        finally:
            self._computing.close()

    async def _work(self) -> None:
        # Tables that lack what has not been listed yet would let pass what is forbidden.
        await asyncio.gather(*(reflector.listed.wait() for reflector in self.reflectors))
        await asyncio.gather(
            self._again(self._tables_due, self.write_tables),
            self._again(self._reports_due, self.write_reports),
        )

    async def _again(self, due: asyncio.Event, work: Callable[[], Any]) -> Never:
        pause_s, again_s = 0.0, None
        while True:
            try:
                async with asyncio.timeout(pause_s or again_s):
                    await due.wait()
            except TimeoutError:
                pass
            if pause_s:
                await asyncio.sleep(pause_s)  # also when there is more to do: nothing is served
            await asyncio.sleep(GATHER_S)
            due.clear()
            done, again_s = await work()
            least, most = _RETRY_S
            pause_s = 0.0 if done else min(max(least, 2 * pause_s), most)

    async def write_tables(self) -> tuple[bool, float | None]:
        """Bring tables up to date; return whether all of it was done, and when to look again."""
        actions, _ = await self._decided(self._cluster.tables)
        done = await self._performed(actions)
        self._reports_due.set()
        return done, None

    async def write_reports(self) -> tuple[bool, float | None]:
        """Bring statuses up to date; return whether all of it was done, and when to look again."""
        actions, again_s = await self._decided(self._cluster.reports)
        return await self._performed(actions), again_s

    async def _decided(
        self, decide: Callable[[Now], tuple[Action, ...]]
    ) -> tuple[tuple[Action, ...], float | None]:
        def prepare() -> Callable[[], tuple[tuple[Action, ...], float | None]]:
            changes, self._inbox = self._inbox, []

            def compute() -> tuple[tuple[Action, ...], float | None]:
                now = Now(time.monotonic(), datetime.datetime.now(datetime.UTC))
                self._cluster.take(changes, now)
                return decide(now), self._cluster.again_in_s(now)

            return compute

        try:
            return await self._computing.run(prepare)
        except Exception:  # noqa: BLE001 - what is wrong with one object must not end the rest
            _log.exception("policies of RDMA: will retry")
            return (), _RETRY_S[1]

    async def _performed(self, actions: Sequence[Action]) -> bool:
        """Perform what was decided, some at once; return whether all of it was done."""
        gate = asyncio.Semaphore(_AT_ONCE)

        async def perform(action: Action) -> bool:
            async with gate:
                return await self._perform(action)

        return all(await asyncio.gather(*map(perform, actions)))

    async def _perform(self, action: Action) -> bool:
        self._fence()
        try:
            document = await self._kube.perform(action)
        except errors.NotFound:
            return True  # deleted meanwhile
        except errors.KubeError as err:
            _log.warning("%s: %s", action.what, err)
            return isinstance(action, Record)  # an event is not worth a retry
        _log.info("%s: %s", type(action).__name__, action.what)
        if isinstance(action, Delete):
            self.changed(action.kind, action.name, None)
        elif isinstance(action, Apply) and document is not None:
            kind, metadata = document["kind"], document["metadata"]
            namespace = metadata.get("namespace")
            key = f"{namespace}/{metadata['name']}" if namespace else metadata["name"]
            # Not through ``changed``: what we know already is no reason to look again.
            self._inbox.append((kind, key, _READERS[kind](document)))
        return True
