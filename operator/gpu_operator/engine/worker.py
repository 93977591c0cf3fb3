"""Takes keys from the queue, calls the pure controllers, and performs their actions."""

import asyncio
import datetime
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from gpu_operator import errors, kinds, metrics
from gpu_operator.config import Config
from gpu_operator.controllers import faults, policies
from gpu_operator.controllers.common import conditions
from gpu_operator.controllers.common.world import Outcome, World
from gpu_operator.controllers.fleet import Fleet
from gpu_operator.controllers.layouts import layouts, orphans
from gpu_operator.controllers.mig_config import mig_config
from gpu_operator.controllers.nodes import extended_resources
from gpu_operator.controllers.pools import pools
from gpu_operator.controllers.pools.fragmentation import Rooms
from gpu_operator.engine import routes
from gpu_operator.engine.computing import Computing
from gpu_operator.engine.queue import Key, WorkQueue
from gpu_operator.engine.store import Store
from gpu_operator.kube.actions import Action, Apply, Evict, Record
from gpu_operator.kube.port import Kube

_EVICT_AGAIN_S = 10.0
_BURST_S = 0.05
_AT_ONCE = 8  # concurrent writes of one reconciliation
_INDEXED = ("GPU", "Node", "MIGLayout", "GPUPool", "Pod")  # kinds whose changes the indexes process
_Result = TypeVar("_Result")
_State = tuple[str, int]
"""An object's UID and generation, which identify a state of its spec."""
_log = logging.getLogger(__name__)


class Worker:
    """Reconciles keys from the queue. Every write calls ``fence`` first, which may raise NotLeader.

    Controllers run in a thread beside the event loop, one at a time, each on the latest world.
    All other state belongs to the loop.
    """

    def __init__(
        self,
        kube: Kube,
        store: Store,
        queue: WorkQueue,
        config: Config,
        namespace: str,
        fence: Callable[[], None],
        caught_up: Callable[[], None] = lambda: None,
    ) -> None:
        """Initialize the worker.

        ``caught_up`` is called once all initially existing objects have been reconciled.
        """
        self._caught_up = caught_up
        self._first: set[Key] | None = (
            None  # keys of the first pass that are still to be reconciled
        )
        self._reported = False
        self._kube = kube
        self._store = store
        self._queue = queue
        self._config = config
        self._namespace = namespace
        self._fence = fence
        self._applied: dict[str, tuple[Apply, _State]] = {}
        self._evicted: dict[str, float] = {}
        self._computing = Computing("controllers")
        self._fleet = Fleet()
        self._looking: asyncio.Task[None] | None = None
        self.seen: World | None = None
        """The world of the last computation; immutable, so any thread may read it."""
        self.last_resync = time.monotonic()

    @property
    def stuck_for_s(self) -> float:
        """Return the seconds for which the current computation has been running."""
        return self._computing.stuck_for_s

    def rooms(self) -> Mapping[str, Rooms]:
        """Return the room for slices in each pool, by the pool's name. Thread-safe.

        Pools without a divided GPU are omitted.
        """
        books = dict(self._fleet.pool_books)
        return {name: dict(book.room.rooms) for name, book in books.items() if book.room.rooms}

    def on_change(self, kind: str, name: str) -> None:
        """Enqueue the keys that a change affects, after a short delay.

        Changes arrive in bursts, and each key is then processed once.
        """
        if kind not in _INDEXED:
            for key in routes.keys_affected_by(kind, name, self._store.world()):
                self._queue.add_after(key, _BURST_S)
        if self._looking is None:
            loop = asyncio.get_running_loop()
            self._looking = loop.create_task(self._update_indexes())

    async def _update_indexes(self) -> None:
        """Update the indexes, which determines the keys that the last changes affect."""
        await asyncio.sleep(_BURST_S)
        self._looking = None
        try:
            await self._compute(lambda world: None, delay_s=0.0)
        except Exception:  # noqa: BLE001 - the next update rebuilds the indexes
            _log.exception("cannot update the indexes")

    async def run(self) -> None:
        """Process keys until this task is cancelled."""
        while True:
            await self._queue.work_on_one(self.work)

    async def resync(self) -> None:
        """List all objects and enqueue all keys, periodically."""
        while True:
            try:
                await self.list_all()
                if self._first is None:
                    await self._apply_policies()
                self.last_resync = time.monotonic()
            except errors.KubeError as err:
                _log.warning("resync failed, will retry: %s", err)
                await asyncio.sleep(2)
                continue
            keys = set(routes.all_keys(self._store.world()))
            for key in keys:
                self._queue.add(key)
            if self._first is None:
                self._first = keys
                self._tick_off()
            await asyncio.sleep(self._config.resync_seconds)

    async def _apply_policies(self) -> None:
        """Reconcile policies first, because all other objects depend on them. Raises KubeError."""
        for key in sorted(routes.all_keys(self._store.world())):
            if key.kind == "GPUPolicy":
                try:
                    with suppress(errors.Refused):  # the policy's status reports it
                        await self._reconcile(key)
                except (errors.KubeError, errors.NotLeader):
                    raise
                except Exception:  # noqa: BLE001 - it is reconciled again with all the others
                    _log.exception("%s: will retry", key)
        await self.list_all()

    def _tick_off(self, *keys: Key) -> None:
        """Mark keys as reconciled; call ``caught_up`` once the first pass is complete."""
        if self._first is not None:
            self._first.difference_update(keys)
            if not self._first and not self._reported:
                self._reported = True
                self._caught_up()

    async def list_all(self) -> None:
        """Bring the store up to date, deletions included. Raises KubeError."""
        for kind in kinds.watched_kinds():
            as_of = time.monotonic()
            namespace = self._namespace if kind.namespaced else None
            listed = await self._kube.list(kind.name, namespace)
            for _ in self._store.replace_in_steps(kind.name, listed, as_of):
                await asyncio.sleep(0)  # let other tasks run

    async def work(self, key: Key) -> bool:
        """Reconcile a key; return whether that succeeded."""
        with metrics.measure_reconciliation(key.kind) as ended:
            is_done = await self._try_reconcile(key)
            ended(is_done)
            if is_done:
                self._tick_off(key)
            return is_done

    async def _try_reconcile(self, key: Key) -> bool:
        try:
            outcome = await self._reconcile(key)
        except errors.Refused as err:
            _log.error("%s: refused: %s", key, err)
            self._tick_off(key)  # the object's status reports it
            return False
        except errors.KubeError as err:
            _log.info("%s: will retry: %s", key, err)
            return False
        except errors.NotLeader:
            raise
        except Exception:  # noqa: BLE001 - an error in one object must not stop the others
            _log.exception("%s: will retry", key)
            self._tick_off(key)  # an upgrade must not wait: the error would repeat
            return False
        if outcome.again_in_s is not None:
            self._queue.add_after(key, outcome.again_in_s)
        return True

    async def _reconcile(self, key: Key) -> Outcome:
        """Perform all actions for a key. The object's status reports a refusal by the API
        server.
        """
        outcome = await self._decide_key(key)
        try:
            await self._perform_all(outcome.actions)
        except errors.Refused as err:
            if self._store.note_refusal(key.kind, key.name, str(err)):
                for action in (await self._decide_key(key)).actions:
                    if isinstance(action, Record) or (isinstance(action, Apply) and action.status):
                        await self._perform(action)
            raise
        if self._store.note_refusal(key.kind, key.name, ""):
            self._queue.add(key)  # to remove the refusal from its status
        return outcome

    async def _decide_key(self, key: Key) -> Outcome:
        return await self._compute(lambda world: self._decide(key, world), key)

    async def _compute(
        self,
        compute: Callable[[World], _Result],
        looked_at: Key | None = None,
        delay_s: float = _BURST_S,
    ) -> _Result:
        """Run a computation in the thread, on the latest world and indexes.

        Afterwards, enqueue all other keys that the latest changes affect, even if the
        computation fails: each change is reported only once.
        """
        touched: set[tuple[str, str]] = set()

        def prepare() -> Callable[[], _Result]:
            changes = self._store.take_changes()
            self.seen = latest_world = self._store.world()

            def work() -> _Result:
                world = replace(latest_world, index=self._fleet)
                touched.update(self._fleet.update(world, changes))
                return compute(world)

            return work

        try:
            return await self._computing.run(prepare)
        finally:
            for affected_key in {Key(kind, name) for kind, name in touched} - {looked_at}:
                self._queue.add_after(affected_key, delay_s)

    def _decide(self, key: Key, world: World) -> Outcome:
        current_time = datetime.datetime.now(datetime.UTC)
        broken = world.broken.get((key.kind, key.name))
        if broken is not None:
            return Outcome(conditions.report_broken(broken, current_time))
        if key.kind == "GPUPool":
            book = self._fleet.pool_book(key.name)
            node_config, namespace = self._config.node, self._namespace
            return pools.reconcile(world, key.name, node_config, namespace, current_time, book)
        if key.kind == "GPUPolicy":
            return policies.reconcile(
                world, key.name, self._config.node, self._namespace, current_time
            )
        if key.kind == "MIGLayout":
            return layouts.reconcile(world, key.name, current_time, self._fleet.books.get(key.name))
        if key.kind == "GPU":
            outcome = orphans.reconcile(world, key.name)
            return Outcome((*outcome.actions, *faults.write(world, key.name)), outcome.again_in_s)
        if key.kind == "GPUFault":
            return faults.reconcile(world, key.name, current_time)
        if key.kind == "Node":
            status = extended_resources.reconcile(world, key.name, time.monotonic())
            return status.then(mig_config.reconcile(world, key.name, self._config.mig_manager))
        return Outcome()

    async def _perform_all(self, actions: Sequence[Action]) -> None:
        """Perform actions in order; adjacent ones for different GPUs and nodes run concurrently.

        If some of the concurrent actions fail, the first exception is raised after all have
        ended.
        """
        neighbours: dict[str, list[Action]] = {}
        for action in actions:
            if isinstance(action, Apply) and action.document["kind"] in ("GPU", "Node"):
                neighbours.setdefault(action.what, []).append(action)
                continue
            await self._perform_neighbours(neighbours)
            neighbours = {}
            await self._perform(action)
        await self._perform_neighbours(neighbours)

    async def _perform_neighbours(self, neighbours: Mapping[str, Sequence[Action]]) -> None:
        gate = asyncio.Semaphore(_AT_ONCE)

        async def perform(of_one: Sequence[Action]) -> None:
            async with gate:
                for action in of_one:
                    await self._perform(action)

        work = map(perform, neighbours.values())
        failures = [e for e in await asyncio.gather(*work, return_exceptions=True) if e is not None]
        if any(isinstance(failure, asyncio.CancelledError) for failure in failures):
            # kopf cancels requests when it stops
            raise errors.Unreachable("a request was cancelled")
        for kind in (errors.NotLeader, errors.Refused, BaseException):
            for failure in failures:
                if isinstance(failure, kind):
                    raise failure

    async def _perform(self, action: Action) -> None:
        if self._is_as_applied(action) or self._was_just_evicted(action):
            return
        self._fence()
        try:
            document = await self._kube.perform(action)
        except errors.EvictionBlocked as err:
            if isinstance(action, Evict):
                self._store.note_eviction(action.uid, str(err))
                _log.info("%s: %s", action.what, err)
            return
        except errors.KubeError as err:
            if isinstance(action, Record):
                _log.warning("%s", err)  # an event is not retried
                return
            raise
        if isinstance(action, Evict):
            self._store.note_eviction(action.uid, "")
            self._evicted[action.uid] = time.monotonic()
        _log.info("%s: %s", type(action).__name__, action.what)
        if document is not None and kinds.find_kind(document["kind"]).watched:
            if isinstance(action, Apply) and not action.status:
                self._applied[action.what] = (action, _state(document))
            if self._store.put(document["kind"], document):
                self.on_change(document["kind"], document["metadata"]["name"])

    def _is_as_applied(self, action: Action) -> bool:
        """Return whether an object that is always rendered still has the spec that was last
        applied.
        """
        if not isinstance(action, Apply) or action.status:
            return False
        if not kinds.find_kind(action.document["kind"]).rendered:
            return False
        stored_document = self._store.document(
            action.document["kind"], action.document["metadata"]["name"]
        )
        return stored_document is not None and self._applied.get(action.what) == (
            action,
            _state(stored_document),
        )

    def _was_just_evicted(self, action: Action) -> bool:
        """Return whether the pod of an eviction was just evicted.

        Each pass over a layout requests the eviction again.
        """
        now_s = time.monotonic()
        self._evicted = {u: t for u, t in self._evicted.items() if now_s - t < _EVICT_AGAIN_S}
        return isinstance(action, Evict) and action.uid in self._evicted


def _state(document: Mapping[str, Any]) -> _State:
    """Return the UID and generation of an object, which change with its spec.

    The UID is necessary because a recreated object's generation restarts at 1.
    """
    metadata = document["metadata"]
    return metadata.get("uid") or "", int(metadata.get("generation") or 0)
