"""Tells why ResourceClaims wait: reflectors feed ``Telling``, its events are written.

Pods that run are not followed, so of a busy cluster it is the few that wait.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Never, TypeVar

from gpu_operator import errors
from gpu_operator.controllers.claims import reading
from gpu_operator.controllers.claims.nudging import Nudging
from gpu_operator.controllers.claims.reading import Claim, StartingPod, WaitingPod
from gpu_operator.controllers.claims.selectors import Facts
from gpu_operator.controllers.claims.telling import Telling
from gpu_operator.controllers.common.world import World
from gpu_operator.engine.computing import Computing
from gpu_operator.engine.parts import until_one_ends
from gpu_operator.kube.actions import Annotate, Record
from gpu_operator.kube.port import Chosen, Cluster, Document
from gpu_operator.kube.reflector import Reflector

GATHER_S: Final = 5.0  # changes come in bursts, and the scheduler is to be first
NUDGE_S: Final = 0.5  # between two looks at pods that start
_AGAIN_S: Final = 15.0  # while somebody waits: GPUs change, too
_REST: Final = (
    9.0  # times what a round took: of a large fleet it may be seconds (8,000 GPUs: 1 to 5)
)
_READERS: Final[Mapping[str, tuple[Chosen, Callable[[Document], Any]]]] = {
    "ResourceClaim": (Chosen(), reading.claim),
    "Pod": (Chosen(fields="spec.nodeName=,status.phase=Pending"), reading.pod),
    "DeviceClass": (Chosen(), reading.device_class),
}
_STARTING: Final = Chosen(fields="spec.nodeName!=,status.phase=Pending")
_log = logging.getLogger(__name__)

_Action = TypeVar("_Action", Record, Annotate)


class ClaimLoop:
    """Owned by one event loop; every write asks ``fence`` first, which raises NotLeader."""

    def __init__(
        self,
        kube: Cluster,
        world: Callable[[], World],
        fence: Callable[[], None],
        gather_s: float = GATHER_S,
        nudge: bool = False,
    ) -> None:
        """``nudge``: touch pods whose claims their kubelet has yet to have prepared."""
        self._kube = kube
        self._world = world
        self._fence = fence
        self._gather_s = gather_s
        self._telling = Telling()
        self._claims: dict[str, Claim] = {}
        self._pods: dict[str, WaitingPod] = {}
        self._classes: dict[str, Facts] = {}
        self._nudging = Nudging()
        self._starting: dict[str, StartingPod] = {}
        self._due = asyncio.Event()
        self._starts = asyncio.Event()
        self._computing = Computing("claims")
        self._nudges = Computing("nudges")
        self.reflectors = [
            Reflector(kube, kind, chosen, read, self.changed)
            for kind, (chosen, read) in _READERS.items()
        ]
        if nudge:
            self.reflectors.append(
                Reflector(kube, "Pod", _STARTING, reading.starting, self._has_node)
            )

    @property
    def stuck_for_s(self) -> float:
        """For how long a computation has been going on now."""
        return max(self._computing.stuck_for_s, self._nudges.stuck_for_s)

    def changed(self, kind: str, key: str, value: Any) -> None:
        """Take a change; what it comes to is told a moment later."""
        every: Mapping[str, dict[str, Any]] = {
            "ResourceClaim": self._claims,
            "Pod": self._pods,
            "DeviceClass": self._classes,
        }
        known = every[kind]
        if value is None:
            known.pop(key, None)
        else:
            known[key] = value
        self._due.set()

    def _has_node(self, kind: str, key: str, pod: StartingPod | None) -> None:
        """Take a change of a pod that has a node and does not run yet."""
        del kind
        if pod is None:
            self._starting.pop(key, None)
        else:
            self._starting[key] = pod
            self._starts.set()

    async def run(self) -> None:
        """Work until cancelled. Raises NotLeader."""
        following = (reflector.run() for reflector in self.reflectors)
        try:
            await until_one_ends(*following, self._work(), self._nudge())
        finally:
            self._computing.close()
            self._nudges.close()

    async def _nudge(self) -> Never:
        """Look often while pods start: an agent that comes back is a change of no claim."""
        await asyncio.gather(*(reflector.listed.wait() for reflector in self.reflectors))
        while True:
            if not self._starting:
                self._starts.clear()
                await self._starts.wait()
            await asyncio.sleep(max(NUDGE_S, _REST * self._nudges.took_s))
            for action in await self._computed(self._nudges, self._nudges_due):
                await self._perform(action)

    def _nudges_due(self) -> Callable[[], Sequence[Annotate]]:
        claims, starting = tuple(self._claims.values()), tuple(self._starting.values())
        world, now_s = self._world(), time.monotonic()
        return lambda: self._nudging.due(claims, starting, world, now_s)

    async def _work(self) -> Never:
        # Who has a GPU is not known before all claims are, nor what they want before all classes.
        await asyncio.gather(*(reflector.listed.wait() for reflector in self.reflectors))
        while True:
            try:
                async with asyncio.timeout(_AGAIN_S if self._pods else None):
                    await self._due.wait()
            except TimeoutError:
                pass
            await asyncio.sleep(max(self._gather_s, _REST * self._computing.took_s))
            self._due.clear()
            for action in await self._computed(self._computing, self._events_due):
                await self._perform(action)

    def _events_due(self) -> Callable[[], Sequence[Record]]:
        claims, pods = tuple(self._claims.values()), tuple(self._pods.values())
        world, classes, now_s = self._world(), dict(self._classes), time.monotonic()
        return lambda: self._telling.due(claims, pods, classes, world, now_s)

    async def _computed(
        self, computing: Computing, prepare: Callable[[], Callable[[], Sequence[_Action]]]
    ) -> Sequence[_Action]:
        try:
            return await computing.run(prepare)
        except Exception:  # noqa: BLE001 - what is wrong with one object must not end the rest
            _log.exception("claims that wait: will retry")
            return ()

    async def _perform(self, action: Record | Annotate) -> None:
        self._fence()
        try:
            await self._kube.perform(action)
        except errors.KubeError as err:
            _log.warning("%s: %s", action.what, err)  # not worth a retry
        else:
            _log.info("%s: %s", type(action).__name__, action.what)
