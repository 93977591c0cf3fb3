"""Writes events that explain why ResourceClaims wait, from the objects that reflectors supply.

Of pods, only those that do not run yet are watched; they are few even in a busy cluster.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Never, TypeVar

from gpu_operator import errors
from gpu_operator.controllers.claims import reading
from gpu_operator.controllers.claims.claim_events import ClaimEvents
from gpu_operator.controllers.claims.kubelet_triggers import KubeletTriggers
from gpu_operator.controllers.claims.reading import Claim, StartingPod, WaitingPod
from gpu_operator.controllers.claims.selectors import Facts
from gpu_operator.controllers.common.world import World
from gpu_operator.engine.computing import Computing
from gpu_operator.engine.parts import until_one_ends
from gpu_operator.kube.actions import Annotate, Record
from gpu_operator.kube.port import Chosen, Cluster, Document
from gpu_operator.kube.reflector import Reflector

GATHER_S: Final = 5.0  # changes arrive in bursts, and the scheduler should act first
TRIGGER_S: Final = 0.5  # interval between checks of starting pods
_AGAIN_S: Final = 15.0  # while a pod waits: GPUs may change, too
# pause between computations, as a multiple of the last one's duration (8,000 GPUs: 1 to 5 s)
_REST: Final = 9.0
_READERS: Final[Mapping[str, tuple[Chosen, Callable[[Document], Any]]]] = {
    "ResourceClaim": (Chosen(), reading.read_claim),
    "Pod": (Chosen(fields="spec.nodeName=,status.phase=Pending"), reading.read_waiting_pod),
    "DeviceClass": (Chosen(), reading.read_device_class),
}
_STARTING: Final = Chosen(fields="spec.nodeName!=,status.phase=Pending")
_log = logging.getLogger(__name__)

_Action = TypeVar("_Action", Record, Annotate)


class ClaimLoop:
    """Computes and writes the events of claims. Owned by one event loop.

    Every write calls ``fence`` first, which may raise NotLeader.
    """

    def __init__(
        self,
        kube: Cluster,
        world: Callable[[], World],
        fence: Callable[[], None],
        gather_s: float = GATHER_S,
        trigger_kubelets: bool = False,
    ) -> None:
        """Initialize; with ``trigger_kubelets``, pods with unprepared claims are annotated."""
        self._kube = kube
        self._world = world
        self._fence = fence
        self._gather_s = gather_s
        self._claim_events = ClaimEvents()
        self._claims: dict[str, Claim] = {}
        self._pods: dict[str, WaitingPod] = {}
        self._classes: dict[str, Facts] = {}
        self._triggers = KubeletTriggers()
        self._starting: dict[str, StartingPod] = {}
        self._due = asyncio.Event()
        self._starts = asyncio.Event()
        self._computing = Computing("claims")
        self._triggering = Computing("triggers")
        self.reflectors = [
            Reflector(kube, kind, chosen, read, self.on_change)
            for kind, (chosen, read) in _READERS.items()
        ]
        if trigger_kubelets:
            self.reflectors.append(
                Reflector(kube, "Pod", _STARTING, reading.read_starting_pod, self._on_starting_pod)
            )

    @property
    def stuck_for_s(self) -> float:
        """Return the seconds for which the current computation has been running."""
        return max(self._computing.stuck_for_s, self._triggering.stuck_for_s)

    def on_change(self, kind: str, key: str, value: Any) -> None:
        """Record a change of an object. Events that result from it are written after a short
        delay.
        """
        every: Mapping[str, dict[str, Any]] = {
            "ResourceClaim": self._claims,
            "Pod": self._pods,
            "DeviceClass": self._classes,
        }
        objects_by_key = every[kind]
        if value is None:
            objects_by_key.pop(key, None)
        else:
            objects_by_key[key] = value
        self._due.set()

    def _on_starting_pod(self, kind: str, key: str, pod: StartingPod | None) -> None:
        """Record a change of a pod that has a node and does not run yet."""
        del kind
        if pod is None:
            self._starting.pop(key, None)
        else:
            self._starting[key] = pod
            self._starts.set()

    async def run(self) -> None:
        """Write events until this task is cancelled. Raises NotLeader."""
        following = (reflector.run() for reflector in self.reflectors)
        try:
            await until_one_ends(*following, self._work(), self._trigger())
        finally:
            self._computing.close()
            self._triggering.close()

    async def _trigger(self) -> Never:
        """Trigger kubelets whenever that is due.

        While pods start, this is checked often, because the return of an agent changes no claim.
        """
        await asyncio.gather(*(reflector.listed.wait() for reflector in self.reflectors))
        while True:
            if not self._starting:
                self._starts.clear()
                await self._starts.wait()
            await asyncio.sleep(max(TRIGGER_S, _REST * self._triggering.took_s))
            for action in await self._compute(self._triggering, self._due_triggers):
                await self._perform(action)

    def _due_triggers(self) -> Callable[[], Sequence[Annotate]]:
        claims, starting = tuple(self._claims.values()), tuple(self._starting.values())
        world, now_s = self._world(), time.monotonic()
        return lambda: self._triggers.take_due_annotations(claims, starting, world, now_s)

    async def _work(self) -> Never:
        # The users of GPUs are known once all claims are listed, their requests once all classes
        # are.
        await asyncio.gather(*(reflector.listed.wait() for reflector in self.reflectors))
        while True:
            try:
                async with asyncio.timeout(_AGAIN_S if self._pods else None):
                    await self._due.wait()
            except TimeoutError:
                pass
            await asyncio.sleep(max(self._gather_s, _REST * self._computing.took_s))
            self._due.clear()
            for action in await self._compute(self._computing, self._due_events):
                await self._perform(action)

    def _due_events(self) -> Callable[[], Sequence[Record]]:
        claims, pods = tuple(self._claims.values()), tuple(self._pods.values())
        world, classes, now_s = self._world(), dict(self._classes), time.monotonic()
        return lambda: self._claim_events.take_due_events(claims, pods, classes, world, now_s)

    async def _compute(
        self, computing: Computing, prepare: Callable[[], Callable[[], Sequence[_Action]]]
    ) -> Sequence[_Action]:
        try:
            return await computing.run(prepare)
        except Exception:  # noqa: BLE001 - an error in one object must not end the loop
            _log.exception("evaluation of waiting claims failed, will retry")
            return ()

    async def _perform(self, action: Record | Annotate) -> None:
        self._fence()
        try:
            await self._kube.perform(action)
        except errors.KubeError as err:
            _log.warning("%s: %s", action.what, err)  # an event is not retried
        else:
            _log.info("%s: %s", type(action).__name__, action.what)
