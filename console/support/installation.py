"""Reads an installation: Tessera's objects, the nodes, and the pods of its own namespace."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpu_operator import errors
from gpu_operator.api.v1alpha1 import POOL_LABEL
from gpu_operator.kube.port import Chosen, Document, Source
from rdma.kinds import NETWORK_KIND, POLICY_KIND

OPERATOR: Final = "app.kubernetes.io/component=operator"
_CHART: Final = "helm.sh/chart"
_CHART_NAME: Final = "tessera-"
_INSTANCE: Final = "app.kubernetes.io/instance"
_NAME: Final = "app.kubernetes.io/name"
OWN_KINDS: Final = ("GPUPool", "GPU", "MIGLayout", "GPUPolicy", "GPUFault")
RDMA_KINDS: Final = (NETWORK_KIND, POLICY_KIND, "RDMANodeTables")


@dataclass(slots=True)
class Installation:
    """The objects that were read. ``problems`` has the API server's message by kind.

    ``chosen`` is the namespace to which the search for the operator was restricted, if any, and
    ``elsewhere`` are the other namespaces that have an operator. ``rdma``, ``events`` and
    ``unread``, the problems with these, are for bundles only.
    """

    objects: dict[str, list[Document]] = field(default_factory=dict)
    operators: list[Document] = field(default_factory=list)
    elsewhere: tuple[str, ...] = ()
    chosen: str = ""
    pods: list[Document] = field(default_factory=list)
    daemon_sets: list[Document] = field(default_factory=list)
    namespaces: list[Document] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    rdma: dict[str, list[Document]] = field(default_factory=dict)
    events: list[Document] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)

    @property
    def operator(self) -> Document | None:
        """Return the operator; None if there is none, or if several Deployments may be it."""
        return self.operators[0] if len(self.operators) == 1 else None

    @property
    def absence(self) -> str:
        """Return that no operator was found; empty if one was, or if it is not known."""
        if self.operators or "Deployment" in self.problems:
            return ""
        if not self.chosen:
            return "the cluster has no operator of Tessera"
        verb = "has" if len(self.elsewhere) == 1 else "have"
        where = f"; {', '.join(self.elsewhere)} {verb} one" if self.elsewhere else ""
        return f"namespace {self.chosen} has no operator of Tessera{where}"

    @property
    def namespace(self) -> str:
        """Return the namespace of the operator; empty if it is not known."""
        return metadata(self.operator).get("namespace", "") if self.operator else ""

    @property
    def version(self) -> str:
        """Return the version of the chart; empty if it is not known."""
        chart = labels(self.operator).get(_CHART, "") if self.operator else ""
        return chart.removeprefix(_CHART_NAME)


async def read(source: Source, namespace: str = "") -> Installation:
    """Read everything that checks and bundles need. Kinds that cannot be read are problems.

    Any user can label a Deployment as the operator is. So pods are read only if one Deployment
    has these labels, in ``namespace`` if that is not empty.
    """
    installation = Installation()
    kinds = (*OWN_KINDS, "Node", "Namespace", "DaemonSet", "Deployment")
    chosen = {"Deployment": Chosen(labels=OPERATOR), "DaemonSet": Chosen(labels=POOL_LABEL)}
    lists = await asyncio.gather(
        *(_list(source, kind, chosen.get(kind, Chosen()), installation.problems) for kind in kinds)
    )
    installation.objects = dict(zip(kinds, lists, strict=True))
    installation.namespaces = installation.objects.pop("Namespace")
    operators = [
        deployment
        for deployment in installation.objects.pop("Deployment")
        if labels(deployment).get(_CHART, "").startswith(_CHART_NAME)
    ]
    installation.operators = [
        deployment
        for deployment in operators
        if namespace in ("", metadata(deployment).get("namespace"))
    ]
    spaces = {str(metadata(deployment).get("namespace") or "") for deployment in operators}
    installation.chosen, installation.elsewhere = namespace, tuple(sorted(spaces - {namespace}))
    installation.daemon_sets = [
        daemon_set
        for daemon_set in installation.objects.pop("DaemonSet")
        if metadata(daemon_set).get("namespace") == installation.namespace
    ]
    if len(installation.operators) > 1:
        installation.problems["Pod"] = (
            f"pods and logs are left out: {len(installation.operators)} Deployments have the"
            " operator's labels; --namespace NAME chooses the one in a namespace"
        )
    if installation.operator:
        pods = await _list(
            source, "Pod", Chosen(namespace=installation.namespace), installation.problems
        )
        installation.pods = [pod for pod in pods if _is_own(pod, installation.operator)]
    return installation


async def read_rdma(source: Source, installation: Installation, chosen: Iterable[Chosen]) -> None:
    """Add the RDMA objects, and the events that ``chosen`` selects."""
    lists = await asyncio.gather(
        *(_list(source, kind, Chosen(), installation.unread) for kind in RDMA_KINDS)
    )
    installation.rdma = dict(zip(RDMA_KINDS, lists, strict=True))
    events: dict[str, Document] = {}
    for selection in chosen:  # two selections can have the same event
        for event in await _list(source, "Event", selection, installation.unread):
            events[f"{metadata(event).get('namespace')}/{name_of(event)}"] = event
    installation.events = list(events.values())


def metadata(document: Document) -> Mapping[str, Any]:
    """Return the metadata of an object."""
    return document.get("metadata") or {}


def name_of(document: Document) -> str:
    """Return the name of an object."""
    return str(metadata(document).get("name") or "")


def labels(document: Document) -> Mapping[str, str]:
    """Return the labels of an object."""
    return metadata(document).get("labels") or {}


def conditions(document: Document) -> Iterator[Mapping[str, Any]]:
    """Yield the conditions of an object."""
    yield from (document.get("status") or {}).get("conditions") or ()


def containers(pod: Document) -> Iterator[Mapping[str, Any]]:
    """Yield the init containers and the containers of a pod, or of a pod's template."""
    spec = pod.get("spec") or {}
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


async def _list(
    source: Source, kind: str, chosen: Chosen, problems: dict[str, str]
) -> list[Document]:
    items: list[Document] = []
    token = ""
    try:
        while True:
            page = await source.page(kind, chosen, token)
            items += page.get("items") or ()
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return items
    except errors.KubeError as err:
        problems[kind] = str(err)
        return []


def _is_own(pod: Document, operator: Document) -> bool:
    """Return whether a pod is of the chart's release, or of the operator's DaemonSets."""
    own, pod_labels = labels(operator), labels(pod)
    of_release = all(own.get(key) == pod_labels.get(key) for key in (_INSTANCE, _NAME))
    return of_release or POOL_LABEL in pod_labels
