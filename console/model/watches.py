"""The watches that fill the model: one per kind, shared by all viewers.

A kind that the user may not read, or that the cluster does not serve, leaves a gap that the pages
name; the other kinds are unaffected.
"""

import asyncio
import logging
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Never

from console.model import claims as known_claims, event_log, fabric, parts
from console.model.cluster import STORED, ClusterModel
from console.model.fabric import KINDS as FABRIC_KINDS
from gpu_operator import errors
from gpu_operator.controllers.claims import reading as claims
from gpu_operator.controllers.rdma import reading as rdma
from gpu_operator.kube.port import Chosen, Document, Source
from gpu_operator.kube.reflector import Reflector
from rdma.kinds import NETWORK_KIND, POLICY_KIND

RETRY_S: Final = 2.0
REFUSED_S: Final = 60.0  # a missing right or definition seldom appears within seconds
_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"
NAMESPACED: Final = ("Pod", "ResourceClaim", "Event", POLICY_KIND)
_READERS: Final[Mapping[str, Callable[[Document], Any]]] = {
    "Pod": parts.read_any_pod,
    "ResourceClaim": known_claims.read_claim,
    "DeviceClass": claims.read_device_class,
    "Event": event_log.read_event,
    "Namespace": rdma.read_namespace,
    NETWORK_KIND: fabric.read_network,
    POLICY_KIND: fabric.read_policy,
}
KINDS: Final = (*STORED, *_READERS)
assert set(FABRIC_KINDS) <= set(KINDS)
_log = logging.getLogger(__name__)


class Watches:
    """Follows every kind that the console shows. Owned by one event loop."""

    def __init__(
        self, source: Source, model: ClusterModel, namespace: str = "", retry_s: float = RETRY_S
    ) -> None:
        """Initialize; with ``namespace``, namespaced kinds are read in this namespace only."""
        self._model = model
        self._retry_s = retry_s
        self._reflectors = {
            kind: Reflector(
                source,
                kind,
                _chosen(kind, namespace),
                _READERS.get(kind, _keep),
                model.apply,
                retry_s,
                stored=ChainMap[str, Any](model.pods, model.parts) if kind == "Pod" else None,
            )
            for kind in KINDS
        }
        model.connection.expected = len(KINDS)
        model.connection.namespace = namespace

    async def run(self) -> None:
        """Follow all kinds until this task is cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind, reflector in self._reflectors.items():
                group.create_task(self._follow(kind, reflector))

    async def list_once(self, kinds: Iterable[str]) -> dict[str, errors.KubeError]:
        """List some kinds without following them; return the errors by kind."""
        chosen = tuple(kinds)
        listing = (self._reflectors[kind].list_once() for kind in chosen)
        results = await asyncio.gather(*listing, return_exceptions=True)
        problems: dict[str, errors.KubeError] = {}
        for kind, result in zip(chosen, results, strict=True):
            if isinstance(result, errors.KubeError):
                problems[kind] = result
                self._model.connection.problems[kind] = str(result)
            elif isinstance(result, BaseException):
                raise result
            else:
                self._model.connection.known.add(kind)
        return problems

    async def _follow(self, kind: str, reflector: Reflector) -> Never:
        while True:
            pause_s = self._retry_s
            reflector.listed.clear()
            listing = asyncio.create_task(self._note_list(kind, reflector))
            try:
                await reflector.follow()
            except errors.KubeError as err:
                self._note_problem(kind, str(err))
                if isinstance(err, errors.Refused | errors.NotFound):
                    pause_s = max(REFUSED_S, pause_s)
            finally:
                listing.cancel()
            await asyncio.sleep(pause_s)

    async def _note_list(self, kind: str, reflector: Reflector) -> None:
        """Record that a kind was listed completely, at first or after a failure."""
        await reflector.listed.wait()
        state = self._model.connection
        solved = state.problems.pop(kind, None) is not None
        if solved or kind not in state.listed:
            state.listed.add(kind)
            state.known.add(kind)
            self._model.note("Connection")

    def _note_problem(self, kind: str, problem: str) -> None:
        state = self._model.connection
        state.listed.discard(kind)
        if state.problems.get(kind) != problem:
            _log.warning("%s: %s", kind, problem)
            state.problems[kind] = problem
            self._model.note("Connection")


def _keep(document: Document) -> Document:
    """Return the document; the operator's store parses it."""
    return document


def _chosen(kind: str, namespace: str) -> Chosen:
    return Chosen(
        namespace=namespace if kind in NAMESPACED else "",
        fields=_ENDED if kind == "Pod" else "",
    )
