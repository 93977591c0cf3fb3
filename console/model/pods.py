"""Pods, reduced to the fields that the pages show.

Of a pod that has devices, and neither waits, has an HCA nor exposes metrics, little is stored: a
large cluster has tens of thousands of such pods.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from console.model.metrics_port import MetricsPort, read_metrics_port
from gpu_operator.api.timestamps import parse_timestamp
from gpu_operator.api.v1alpha1 import quantity
from gpu_operator.controllers.claims import reading as claim_reading
from gpu_operator.controllers.claims.reading import WaitingPod
from gpu_operator.controllers.rdma import reading as rdma_reading
from rdma.objects import PodFacts

Document = dict[str, Any]
_LONGEST: Final = 2000  # characters of the scheduler's message that are stored
_ENDED: Final = ("Succeeded", "Failed")  # such a pod holds nothing
_CORDONED: Final = "node.kubernetes.io/unschedulable"


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint that keeps pods off a node: its effect is NoSchedule or NoExecute."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}{'=' * bool(self.value)}{self.value}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of a pod; an empty key tolerates every taint, a value None every value."""

    key: str
    effect: str = ""
    value: str | None = None

    def covers(self, taint: Taint) -> bool:
        """Return whether this tolerates a taint, as the scheduler decides it."""
        return (
            self.key in ("", taint.key)
            and self.effect in ("", taint.effect)
            and self.value in (None, taint.value)
        )


@dataclass(frozen=True, slots=True)
class PodDetails:
    """What only some pods have: those that wait, have an HCA or expose metrics.

    ``uid`` is the pod's. While the pod waits, ``requests`` are the extended resources of all its
    containers. ``waiting`` is set if it has ResourceClaims, and ``unmade_claims`` are those that
    are still to be created from templates. ``facts`` is set if the pod holds an HCA, and
    ``metrics`` if it runs with devices or claims and states where it exposes metrics.
    """

    uid: str = ""
    requests: tuple[tuple[str, int], ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    has_affinity: bool = False
    tolerations: tuple[Toleration, ...] = ()
    scheduler: str = ""
    gates: tuple[str, ...] = ()
    waiting: WaitingPod | None = None
    unmade_claims: tuple[str, ...] = ()
    facts: PodFacts | None = None
    metrics: MetricsPort | None = None


_NO_DETAILS: Final = PodDetails()


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod that waits for a node, or that has devices, claims or an HCA.

    ``key`` is "namespace/name". ``problem`` is what the kubelet reports of a container that does
    not start or has failed, ``restarts`` how often its containers were restarted, and
    ``is_ending`` whether the pod is being deleted. ``containers`` are pairs of a container and of
    a resource or "claim NAME" that it has. ``started_after_s`` is the time from the pod's creation
    until its node accepted it; 0 if that is not known. All other properties are those of
    ``details``, which plain pods share.
    """

    key: str
    node: str
    phase: str
    created: str
    problem: str = ""
    restarts: int = 0
    is_ending: bool = False
    started_after_s: int = 0
    containers: tuple[tuple[str, str], ...] = ()
    details: PodDetails = _NO_DETAILS

    @property
    def is_plain(self) -> bool:
        """Return whether the pod only has devices, which the status of a GPU states as well."""
        waits = self.requests or self.waiting or self.unmade_claims
        return not (waits or self.facts or self.metrics or self.problem)

    @property
    def is_starting(self) -> bool:
        """Return whether the pod has a node, but a container of it does not run."""
        return bool(self.node and not self.is_ending and (self.phase == "Pending" or self.problem))

    @property
    def namespace(self) -> str:
        """Return the pod's namespace."""
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        """Return the pod's name."""
        return self.key.rpartition("/")[2]

    @property
    def uid(self) -> str:
        """Return the pod's UID; empty if it is plain."""
        return self.details.uid

    @property
    def requests(self) -> tuple[tuple[str, int], ...]:
        """Return the extended resources that the pod waits for."""
        return self.details.requests

    @property
    def node_selector(self) -> tuple[tuple[str, str], ...]:
        """Return the labels of a node for which the pod waits."""
        return self.details.node_selector

    @property
    def has_affinity(self) -> bool:
        """Return whether the pod waits and has affinity."""
        return self.details.has_affinity

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        """Return the tolerations of a pod that waits."""
        return self.details.tolerations

    @property
    def scheduler(self) -> str:
        """Return the scheduler's message about a pod that waits."""
        return self.details.scheduler

    @property
    def gates(self) -> tuple[str, ...]:
        """Return the scheduling gates."""
        return self.details.gates

    @property
    def waiting(self) -> WaitingPod | None:
        """Return the claims of a pod that waits."""
        return self.details.waiting

    @property
    def unmade_claims(self) -> tuple[str, ...]:
        """Return the claims that do not exist yet."""
        return self.details.unmade_claims

    @property
    def facts(self) -> PodFacts | None:
        """Return what RDMA policies need of a pod with an HCA."""
        return self.details.facts

    @property
    def metrics(self) -> MetricsPort | None:
        """Return where the pod exposes metrics."""
        return self.details.metrics


def read_pod(document: Document) -> PodRecord | None:
    """Parse a pod; return None unless it requests devices, claims or an HCA."""
    metadata, spec = document["metadata"], document.get("spec") or {}
    status = document.get("status") or {}
    space = sys.intern(str(metadata.get("namespace") or ""))
    name, uid = str(metadata["name"]), str(metadata.get("uid") or "")
    node, phase = str(spec.get("nodeName") or ""), str(status.get("phase") or "Pending")
    is_ending = bool(metadata.get("deletionTimestamp"))
    waits = not node and phase == "Pending" and not is_ending
    claims = tuple(claim_reading.claim_names(document)) if waits else ()
    waiting = WaitingPod(space, name, uid, claims) if claims else None
    facts = rdma_reading.read_pod(document)
    requested_resources = _requests(spec)
    has_devices = bool(spec.get("resourceClaims") or requested_resources)
    if phase in _ENDED or not (has_devices or facts):
        return None
    requests = tuple(sorted(requested_resources.items())) if waits else ()
    metrics = read_metrics_port(document) if has_devices and phase == "Running" else None
    affinity = spec.get("affinity") or {}
    details = PodDetails(
        uid=uid,
        requests=requests,
        node_selector=tuple(sorted((spec.get("nodeSelector") or {}).items())) if waits else (),
        has_affinity=waits and bool(affinity),
        tolerations=tuple(_tolerations(spec)) if waits else (),
        scheduler=_scheduler_message(status)[:_LONGEST] if waits else "",
        gates=tuple(str(gate.get("name")) for gate in spec.get("schedulingGates") or ()),
        waiting=waiting,
        unmade_claims=tuple(_unmade_claims(document)) if waits else (),
        facts=facts,
        metrics=metrics,
    )
    return PodRecord(
        key=f"{space}/{name}" if space else name,
        node=sys.intern(node),
        phase=sys.intern(phase),
        created=sys.intern(str(metadata.get("creationTimestamp") or "")),  # many begin together
        problem=_container_problem(status)[:_LONGEST] if node else "",
        restarts=sum(
            int(container_status.get("restartCount") or 0)
            for container_status in _container_statuses(status)
        ),
        is_ending=is_ending,
        started_after_s=_start_of(metadata, status),
        containers=_share(tuple(_containers(document))),
        details=_NO_DETAILS if replace(details, uid="") == _NO_DETAILS else details,
    )


def _start_of(metadata: Mapping[str, Any], status: Mapping[str, Any]) -> int:
    """Return the seconds from a pod's creation until its node accepted it."""
    created, started = metadata.get("creationTimestamp"), status.get("startTime")
    if not created or not started or created == started:
        return 0
    times = parse_timestamp(str(created)), parse_timestamp(str(started))
    if times[0] is None or times[1] is None:
        return 0
    return max(int((times[1] - times[0]).total_seconds()), 0)


def read_taints(node: Document) -> tuple[Taint, ...]:
    """Return the taints of a node that keep new pods off it; a cordoned node counts as tainted."""
    spec = node.get("spec") or {}
    taints = {
        Taint(str(taint.get("key") or ""), str(taint.get("value") or ""), str(taint["effect"]))
        for taint in spec.get("taints") or ()
        if taint.get("effect") in ("NoSchedule", "NoExecute")
    }
    if spec.get("unschedulable"):
        taints.add(Taint(_CORDONED, "", "NoSchedule"))
    return tuple(sorted(taints, key=str))


def _requests(spec: Mapping[str, Any]) -> Counter[str]:
    """Return the extended resources that a pod requests, as Kubernetes counts them.

    Containers and sidecars (init containers that are restarted always) run together. Another init
    container runs beside the sidecars that precede it. The larger count is the request (KEP-753).
    """
    together: Counter[str] = Counter()
    for container in spec.get("containers") or ():
        together.update(dict(_limits(container)))
    sidecars: Counter[str] = Counter()
    init_request: Counter[str] = Counter()
    for container in spec.get("initContainers") or ():
        own = Counter(dict(_limits(container)))
        if container.get("restartPolicy") == "Always":
            sidecars += own
            init_request |= sidecars
        else:
            init_request |= sidecars + own
    return +((together + sidecars) | init_request)


@lru_cache(maxsize=1024)
def _share(containers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return the same object for equal values: pods of one workload have equal containers."""
    return containers


def _containers(document: Document) -> Iterator[tuple[str, str]]:
    """Yield the containers that have devices, with the resource or the claim."""
    spec, status = document.get("spec") or {}, document.get("status") or {}
    names = {
        claim.get("name"): claim.get("resourceClaimName")
        for claim in (
            *(status.get("resourceClaimStatuses") or ()),
            *(spec.get("resourceClaims") or ()),
        )
        if claim.get("resourceClaimName")
    }
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        name = str(container.get("name") or "")
        for resource, _ in _limits(container):
            yield name, str(resource)
        for claim_reference in (container.get("resources") or {}).get("claims") or ():
            if claim_reference.get("name") in names:
                yield name, f"claim {names[claim_reference['name']]}"


def _limits(container: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    limits = (container.get("resources") or {}).get("limits") or {}
    for resource, text in limits.items():
        if "/" in resource:
            try:
                yield resource, quantity.parse_api_quantity(str(text))
            except ValueError:
                continue  # the API server accepts no such quantity


def _tolerations(spec: Mapping[str, Any]) -> Iterator[Toleration]:
    for toleration in spec.get("tolerations") or ():
        value = (
            None if toleration.get("operator") == "Exists" else str(toleration.get("value") or "")
        )
        yield Toleration(
            str(toleration.get("key") or ""), str(toleration.get("effect") or ""), value
        )


def _unmade_claims(document: Document) -> Iterator[str]:
    """Yield the names by which a pod refers to claims that have not been created yet."""
    statuses = (document.get("status") or {}).get("resourceClaimStatuses") or ()
    created_names = {status.get("name") for status in statuses}
    for claim in document["spec"].get("resourceClaims") or ():
        if not claim.get("resourceClaimName") and claim.get("name") not in created_names:
            yield str(claim.get("name"))


def _container_statuses(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for kind in ("initContainerStatuses", "containerStatuses"):
        yield from status.get(kind) or ()


def _container_problem(status: Mapping[str, Any]) -> str:
    """Return why the first container that does not run is waiting, such as for its image, or how it
    failed.

    A container that crashes again and again is between two starts most of the time, while the
    pod's phase stays Running.
    """
    for container in _container_statuses(status):
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        reason = str(waiting.get("reason") or "")
        message = str(waiting.get("message") or "")
        if ended.get("exitCode"):
            reason, message = str(ended.get("reason") or "Error"), f"exit code {ended['exitCode']}"
        if reason not in ("", "ContainerCreating", "PodInitializing"):
            return sys.intern(f"{reason}{': ' * bool(message)}{message}"[:_LONGEST])
    return ""


def _scheduler_message(status: Mapping[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "")
    return ""
