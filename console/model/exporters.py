"""The metrics of one node's exporter, read through the API server's proxy on request.

The reader has the rights of the console: with a user's kubeconfig those of the user, in a cluster
those of its account, which has no right to ``pods/proxy``. Answers are kept for some seconds, so
that viewers cannot make the console send many requests.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from console.model.history import DeviceHistory, read_values
from gpu_operator import errors
from gpu_operator.kube.port import Chosen, Document

PORT: Final = 9400
MOST_BYTES: Final = 4 << 20  # pairs and kinds of denials alone may have more than 1 MiB
_LABELS: Final = "app.kubernetes.io/component=exporter"
_KEPT_S: Final = 5.0
_MOST_KEPT: Final = 64
_MOST_EARLIER: Final = 256 << 10  # characters
_LONGEST_S: Final = 60.0  # between two answers of which a rate is computed


class Proxy(Protocol):
    """The operations of the API server that reading an exporter needs."""

    async def page(self, kind: str, chosen: Chosen, token: str = "") -> Document:
        """Return one page of the list of a kind's objects."""

    async def read_port(
        self, namespace: str, pod: str, port: int, path: str, most_bytes: int
    ) -> bytes:
        """Return what a pod answers to GET on one of its ports."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """What an exporter has answered, or why there is no answer; ``at`` is the clock's time.

    ``earlier`` is what the same pod answered ``seconds`` before, from which rates follow; empty if
    that is too long ago, too large to keep, or not known.
    """

    text: str = ""
    problem: str = ""
    pod: str = ""
    at: float = 0.0
    earlier: str = ""
    seconds: float = 0.0


@dataclass(slots=True)
class Exporters:
    """Reads exporters, and keeps the last minutes of what they state about GPUs.

    ``proxy`` is None if the console has no connection that can read them.
    """

    proxy: Proxy | None
    clock: Callable[[], float] = time.monotonic
    history: DeviceHistory = field(default_factory=DeviceHistory)
    _kept: dict[str, tuple[float, Scrape]] = field(default_factory=dict)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def scrape(self, node: str) -> Scrape:
        """Return the metrics of a node's exporter; one request is sent at a time."""
        if self.proxy is None:
            return Scrape(problem="this console has no connection to an API server")
        async with self._reading:
            cached = self._kept.get(node)
            if cached is not None and self.clock() - cached[0] < _KEPT_S:
                return cached[1]
            answer = await self._read(self.proxy, node)
            if not answer.problem:
                values = await asyncio.to_thread(read_values, answer.text)
                self.history.add(node, answer.at, values)
            if cached is not None:
                answer = _join(cached[1], answer)
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[node] = (self.clock(), answer)
            return answer

    async def _read(self, proxy: Proxy, node: str) -> Scrape:
        chosen = Chosen(fields=f"spec.nodeName={node},status.phase=Running", labels=_LABELS)
        try:
            items = (await proxy.page("Pod", chosen)).get("items") or []
            pods = [pod["metadata"] for pod in items if _is_exporter(pod, node)]
            if not pods:
                return Scrape(problem=f"no exporter runs on node {node} (exporter.enabled)")
            spaces = sorted({str(pod_metadata["namespace"]) for pod_metadata in pods})
            if len(spaces) > 1:  # one of them may be a tenant's, with figures of its own invention
                names = ", ".join(spaces)[:200]
                several = "pods of several namespaces have an exporter's label"
                return Scrape(problem=f"{several}: {names}")
            name, space = str(pods[0]["name"]), spaces[0]
            body = await proxy.read_port(space, name, PORT, "/metrics", MOST_BYTES)
        except errors.Refused as err:
            return Scrape(problem=f"not permitted: {err}")
        except errors.KubeError as err:
            return Scrape(problem=str(err))
        return Scrape(body.decode(errors="replace"), pod=f"{space}/{name}", at=self.clock())


def _join(earlier: Scrape, answer: Scrape) -> Scrape:
    """Return an answer with the one before it."""
    seconds = answer.at - earlier.at
    is_usable = earlier.pod == answer.pod != "" and 0 < seconds <= _LONGEST_S
    if not is_usable or len(earlier.text) > _MOST_EARLIER:
        return answer
    return replace(answer, earlier=earlier.text, seconds=seconds)


def _is_exporter(pod: Document, node: str) -> bool:
    metadata = pod.get("metadata") or {}
    labels = metadata.get("labels") or {}
    is_exporter = labels.get("app.kubernetes.io/component") == "exporter"
    return is_exporter and (pod.get("spec") or {}).get("nodeName") == node
