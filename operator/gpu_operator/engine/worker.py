"""Takes keys, asks the pure controllers, performs what they say."""

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
from gpu_operator.controllers.pools.scatter import Rooms
from gpu_operator.engine import routes
from gpu_operator.engine.computing import Computing
from gpu_operator.engine.queue import Key, WorkQueue
from gpu_operator.engine.store import Store
from gpu_operator.kube.actions import Action, Apply, Evict, Record
from gpu_operator.kube.port import Kube

_EVICT_AGAIN_S = 10.0
_BURST_S = 0.05
_AT_ONCE = 8  # writes of one reconciliation
_INDEXED = ("GPU", "Node", "MIGLayout", "GPUPool", "Pod")  # whose changes the indexes tell of
_Result = TypeVar("_Result")
_State = tuple[str, int]
"""An object's UID and generation."""
_log = logging.getLogger(__name__)


class Worker:
    """Reconciles; every write asks ``fence`` first, which raises NotLeader.

    Controllers compute in a thread beside the event loop, one at a time, each on the world as it is
    when its turn comes; everything else here belongs to the loop.
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
        """``caught_up`` is called when everything that was there at first was reconciled once."""
        self._caught_up = caught_up
        self._first: set[Key] | None = None  # what of the first pass is still to be reconciled
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
        """The world as it was looked at last; a value, for any thread."""
        self.last_resync = time.monotonic()

    @property
    def stuck_for_s(self) -> float:
        """For how long a controller has been computing now."""
        return self._computing.stuck_for_s

    def rooms(self) -> Mapping[str, Rooms]:
        """Return the room for slices of each pool that has divided GPUs; for any thread."""
        books = dict(self._fleet.pool_books)
        return {name: dict(book.room.rooms) for name, book in books.items() if book.room.rooms}

    def changed(self, kind: str, name: str) -> None:
        """Enqueue what a change concerns, a moment later: changes come in bursts."""
        if kind not in _INDEXED:
            for key in routes.affected(kind, name, self._store.world()):
                self._queue.add_after(key, _BURST_S)
        if self._looking is None:
            loop = asyncio.get_running_loop()
            self._looking = loop.create_task(self._look())

    async def _look(self) -> None:
        """Bring the indexes up to date, which tells what the last changes concern."""
        await asyncio.sleep(_BURST_S)
        self._looking = None
        try:
            await self._computed(lambda world: None, delay_s=0.0)
        except Exception:  # noqa: BLE001 - the next look sees everything anew
            _log.exception("cannot take what has changed")

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._queue.work_on_one(self.work)

    async def resync(self) -> None:
        """List everything and enqueue everything, again and again."""
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
        """Reconcile policies before all else, as everything else goes by them. Raises KubeError."""
        for key in sorted(routes.all_keys(self._store.world())):
            if key.kind == "GPUPolicy":
                try:
                    with suppress(errors.Refused):  # its status says so
                        await self._reconcile(key)
                except (errors.KubeError, errors.NotLeader):
                    raise
                except Exception:  # noqa: BLE001 - it is reconciled again with all the others
                    _log.exception("%s: will retry", key)
        await self.list_all()

    def _tick_off(self, *keys: Key) -> None:
        """Note which keys were reconciled; report once when all of the first pass have been."""
        if self._first is not None:
            self._first.difference_update(keys)
            if not self._first and not self._reported:
                self._reported = True
                self._caught_up()

    async def list_all(self) -> None:
        """Bring the store up to date, deletions included. Raises KubeError."""
        for kind in kinds.watched():
            as_of = time.monotonic()
            namespace = self._namespace if kind.namespaced else None
            listed = await self._kube.list(kind.name, namespace)
            for _ in self._store.replacing(kind.name, listed, as_of):
                await asyncio.sleep(0)  # others get their turn

    async def work(self, key: Key) -> bool:
        """Reconcile one key; return whether all of it was done."""
        with metrics.reconciling(key.kind) as ended:
            done = await self._worked(key)
            ended(done)
            if done:
                self._tick_off(key)
            return done

    async def _worked(self, key: Key) -> bool:
        try:
            outcome = await self._reconcile(key)
        except errors.Refused as err:
            _log.error("%s: refused: %s", key, err)
            self._tick_off(key)  # its status says so
            return False
        except errors.KubeError as err:
            _log.info("%s: will retry: %s", key, err)
            return False
        except errors.NotLeader:
            raise
        except Exception:  # noqa: BLE001 - what is wrong with one object must not stop the others
            _log.exception("%s: will retry", key)
            self._tick_off(key)  # nor an upgrade: it fails each time
            return False
        if outcome.again_in_s is not None:
            self._queue.add_after(key, outcome.again_in_s)
        return True

    async def _reconcile(self, key: Key) -> Outcome:
        """Do all that is decided. The object's status says what the API server refuses."""
        outcome = await self._decided(key)
        try:
            await self._perform_all(outcome.actions)
        except errors.Refused as err:
            if self._store.note_refusal(key.kind, key.name, str(err)):
                for action in (await self._decided(key)).actions:
                    if isinstance(action, Record) or (isinstance(action, Apply) and action.status):
                        await self._perform(action)
            raise
        if self._store.note_refusal(key.kind, key.name, ""):
            self._queue.add(key)  # to take it back
        return outcome

    async def _decided(self, key: Key) -> Outcome:
        return await self._computed(lambda world: self._decide(key, world), key)

    async def _computed(
        self,
        compute: Callable[[World], _Result],
        looked_at: Key | None = None,
        delay_s: float = _BURST_S,
    ) -> _Result:
        """Compute in the thread, on the world and its indexes as they are when the turn comes.

        What else is worth a look by what had changed until then is enqueued, also where computing
        fails: nobody is told of a change twice.
        """
        touched: set[tuple[str, str]] = set()

        def prepare() -> Callable[[], _Result]:
            changes = self._store.take_changes()
            self.seen = seen = self._store.world()

            def work() -> _Result:
                world = replace(seen, index=self._fleet)
                touched.update(self._fleet.see(world, changes))
                return compute(world)

            return work

        try:
            return await self._computing.run(prepare)
        finally:
            for other in {Key(kind, name) for kind, name in touched} - {looked_at}:
                self._queue.add_after(other, delay_s)

    def _decide(self, key: Key, world: World) -> Outcome:
        now = datetime.datetime.now(datetime.UTC)
        broken = world.broken.get((key.kind, key.name))
        if broken is not None:
            return Outcome(conditions.report_broken(broken, now))
        if key.kind == "GPUPool":
            book = self._fleet.pool_book(key.name)
            node_config, namespace = self._config.node, self._namespace
            return pools.reconcile(world, key.name, node_config, namespace, now, book)
        if key.kind == "GPUPolicy":
            return policies.reconcile(world, key.name, self._config.node, self._namespace, now)
        if key.kind == "MIGLayout":
            return layouts.reconcile(world, key.name, now, self._fleet.books.get(key.name))
        if key.kind == "GPU":
            outcome = orphans.reconcile(world, key.name)
            return Outcome((*outcome.actions, *faults.write(world, key.name)), outcome.again_in_s)
        if key.kind == "GPUFault":
            return faults.reconcile(world, key.name, now)
        if key.kind == "Node":
            status = extended_resources.reconcile(world, key.name, time.monotonic())
            return status.then(mig_config.reconcile(world, key.name, self._config.mig_manager))
        return Outcome()

    async def _perform_all(self, actions: Sequence[Action]) -> None:
        """Perform in order; neighbours that concern different GPUs and nodes at once.

        Raises what the first of them failed with, when the others of its neighbourhood are done.
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
            raise errors.Unreachable("a request was given up")  # kopf, which is stopping, did it
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
                _log.warning("%s", err)  # an event is not worth a retry
                return
            raise
        if isinstance(action, Evict):
            self._store.note_eviction(action.uid, "")
            self._evicted[action.uid] = time.monotonic()
        _log.info("%s: %s", type(action).__name__, action.what)
        if document is not None and kinds.named(document["kind"]).watched:
            if isinstance(action, Apply) and not action.status:
                self._applied[action.what] = (action, _state(document))
            if self._store.put(document["kind"], document):
                self.changed(document["kind"], document["metadata"]["name"])

    def _is_as_applied(self, action: Action) -> bool:
        """Return whether an object that is always rendered still has the spec that we wrote."""
        if not isinstance(action, Apply) or action.status:
            return False
        if not kinds.named(action.document["kind"]).rendered:
            return False
        now = self._store.document(action.document["kind"], action.document["metadata"]["name"])
        return now is not None and self._applied.get(action.what) == (action, _state(now))

    def _was_just_evicted(self, action: Action) -> bool:
        """Return whether the pod is ending already: each look at a layout asks again."""
        now = time.monotonic()
        self._evicted = {u: t for u, t in self._evicted.items() if now - t < _EVICT_AGAIN_S}
        return isinstance(action, Evict) and action.uid in self._evicted


def _state(document: Mapping[str, Any]) -> _State:
    """Return what changes with an object's spec: one that was made anew begins at 1 again."""
    metadata = document["metadata"]
    return metadata.get("uid") or "", int(metadata.get("generation") or 0)
