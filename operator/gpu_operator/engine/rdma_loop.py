"""Runs RDMA policies: reflectors feed ``PolicyCluster``, whose actions are performed.

Two loops share the ``PolicyCluster``; its computations run one at a time in a thread. Tables are
written as soon as anything changed, and statuses after them, so that tables never wait for a
thousand statuses.
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
from gpu_operator.engine.readings import Readings
from gpu_operator.kube.actions import Action, Apply, Delete, Record
from gpu_operator.kube.port import Chosen, Cluster, Document
from gpu_operator.kube.reflector import Reflector
from rdma.kinds import NETWORK_KIND, POLICY_KIND

GATHER_S: Final = 0.01  # changes arrive in bursts
_RETRY_S: Final = (0.25, 15.0)
_AT_ONCE: Final = 16  # concurrent requests
_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"
_HOLDERS: Final = f"spec.nodeName!=,spec.hostNetwork!=true,{_ENDED}"
_READERS: Final[Mapping[str, Callable[[Document], Any]]] = {
    "Namespace": reading.read_namespace,
    "Node": reading.read_node,
    "Pod": reading.read_pod,
    "Lease": reading.read_heartbeat,
    NETWORK_KIND: reading.read_network,
    POLICY_KIND: reading.read_policy,
    TABLES_KIND: reading.read_tables,
}
_READ_IN_THREAD: Final = (NETWORK_KIND, POLICY_KIND, TABLES_KIND)
"""Kinds whose readers do not run on the event loop.

Reading the largest object that the schema allows takes hundreds of milliseconds; the readers of the
other kinds take a few at most, whatever the object.
"""
_log = logging.getLogger(__name__)


def object_selectors(kind: str, namespace: str) -> Chosen:
    """Return the selectors with which to list a kind's objects.

    Pods without an HCA cannot be excluded, because no field identifies pods with an HCA.
    """
    if kind == "Pod":
        return Chosen(fields=_HOLDERS)
    if kind == "Lease":
        return Chosen(namespace=namespace, labels=LEASE_LABEL)
    return Chosen()


class RdmaLoop:
    """Computes and writes tables and statuses of RDMA policies. Owned by one event loop.

    Every write calls ``fence`` first, which may raise NotLeader.
    """

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
        self._specs = reading.SpecReader()
        slow = {
            NETWORK_KIND: self._specs.read_network,
            POLICY_KIND: self._specs.read_policy,
            TABLES_KIND: _READERS[TABLES_KIND],
        }
        self._readings = Readings("rdma-reading", slow, self.on_change)
        self.reflectors = [
            Reflector(kube, kind, object_selectors(kind, namespace), read, self.on_change)
            for kind, read in _READERS.items()
            if kind not in _READ_IN_THREAD
        ]
        self.reflectors += [
            Reflector(
                kube,
                kind,
                object_selectors(kind, namespace),
                lambda document: document,
                self._readings.put,
            )
            for kind in _READ_IN_THREAD
        ]

    @property
    def stuck_for_s(self) -> float:
        """Return the seconds for which the current computation has been running."""
        return max(self._computing.stuck_for_s, self._readings.stuck_for_s)

    def on_change(self, kind: str, key: str, value: Any) -> None:
        """Record a change.

        Tables and statuses that result from changes are written only after every kind has been
        listed.
        """
        if value is None:
            self._specs.forget(kind, key)
        self._inbox.append((kind, key, value))
        self._tables_due.set()

    async def run(self) -> None:
        """Write tables and statuses until this task is cancelled. Raises NotLeader."""
        following = (reflector.run() for reflector in self.reflectors)
        try:
            await until_one_ends(*following, self._readings.run(), self._work())
        finally:
            self._computing.close()
            self._readings.close()

    async def _work(self) -> None:
        # Incomplete tables, compiled before everything is listed, would allow forbidden operations.
        await asyncio.gather(*(reflector.listed.wait() for reflector in self.reflectors))
        await self._readings.wait_until_idle()
        await asyncio.gather(
            self._run_when_due(self._tables_due, self.write_tables),
            self._run_when_due(self._reports_due, self.write_reports),
        )

    async def _run_when_due(self, due: asyncio.Event, work: Callable[[], Any]) -> Never:
        pause_s, again_s = 0.0, None
        while True:
            try:
                async with asyncio.timeout(pause_s or again_s):
                    await due.wait()
            except TimeoutError:
                pass
            if pause_s:
                # even if more is due: the API server is not responding
                await asyncio.sleep(pause_s)
            await asyncio.sleep(GATHER_S)
            due.clear()
            is_done, again_s = await work()
            min_pause_s, max_pause_s = _RETRY_S
            pause_s = 0.0 if is_done else min(max(min_pause_s, 2 * pause_s), max_pause_s)

    async def write_tables(self) -> tuple[bool, float | None]:
        """Write outdated tables.

        Return whether all writes succeeded, and the seconds until the next check is due, if any.
        """
        actions, _ = await self._decide(self._cluster.plan_tables)
        is_done = await self._perform_all(actions)
        self._reports_due.set()
        return is_done, None

    async def write_reports(self) -> tuple[bool, float | None]:
        """Write outdated statuses.

        Return whether all writes succeeded, and the seconds until the next check is due, if any.
        """
        actions, again_s = await self._decide(self._cluster.plan_reports)
        return await self._perform_all(actions), again_s

    async def _decide(
        self, decide: Callable[[Now], tuple[Action, ...]]
    ) -> tuple[tuple[Action, ...], float | None]:
        def prepare() -> Callable[[], tuple[tuple[Action, ...], float | None]]:
            changes, self._inbox = self._inbox, []

            def compute() -> tuple[tuple[Action, ...], float | None]:
                current_time = Now(time.monotonic(), datetime.datetime.now(datetime.UTC))
                self._cluster.apply(changes, current_time)
                return decide(current_time), self._cluster.again_in_s(current_time)

            return compute

        try:
            return await self._computing.run(prepare)
        except Exception:  # noqa: BLE001 - an error in one object must not end the loop
            _log.exception("evaluation of RDMA policies failed, will retry")
            return (), _RETRY_S[1]

    async def _perform_all(self, actions: Sequence[Action]) -> bool:
        """Perform the actions, some concurrently; return whether all succeeded."""
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
            return True  # deleted in the meantime
        except errors.KubeError as err:
            _log.warning("%s: %s", action.what, err)
            return isinstance(action, Record)  # an event is not retried
        _log.info("%s: %s", type(action).__name__, action.what)
        if isinstance(action, Delete):
            self.on_change(action.kind, action.name, None)
        elif isinstance(action, Apply) and document is not None:
            kind, metadata = document["kind"], document["metadata"]
            namespace = metadata.get("namespace")
            key = f"{namespace}/{metadata['name']}" if namespace else metadata["name"]
            read = self._read_own(kind, document)
            if read is None:
                self._readings.put(kind, key, document)
            else:
                # Not through ``on_change``: the result of the operator's own write needs no further
                # pass.
                self._inbox.append((kind, key, read))
        return True

    def _read_own(self, kind: str, document: Document) -> Any:
        """Read the result of the operator's own write; None: it takes long.

        A write of a status leaves the specification as it was read before. Tables are not parsed.
        """
        if kind == TABLES_KIND:
            return reading.read_tables(document)
        return self._specs.refresh(kind, document)
