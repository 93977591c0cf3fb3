"""Builders of the objects that the operator observes: nodes, pools, GPUs and layouts, with
consistent defaults.
"""

import datetime
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gpu_operator.api.v1alpha1 import FINALIZER, INDEX_LABEL, NODE_LABEL, NODE_UID, POOL_LABEL
from gpu_operator.api.v1alpha1.base import Condition, ConditionType
from gpu_operator.api.v1alpha1.gpu import (
    ClaimedSlice,
    GPUSpec,
    GPUStatus,
    Holder,
    PlacedInstance,
    Slice,
    SliceState,
)
from gpu_operator.api.v1alpha1.gpupool import GPUPoolSpec, GPUPoolStatus
from gpu_operator.api.v1alpha1.miglayout import (
    InstanceRequest,
    LayoutSelector,
    MIGLayoutSpec,
    MIGLayoutStatus,
    Rollout,
)
from gpu_operator.api.v1alpha1.resource import Gpu, Layout, Meta, Pool, Resource
from gpu_operator.controllers.common.world import Node, World
from gpu_operator.kube.actions import Action, Apply, Manager
from gpu_operator.render import gpu as gpu_render
from mig import geometry, spec as mig_spec

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
BOARD = "h100-80gb"
PREFIX = "gpu.tessera.dev"
GPU_NODE = {"gpu": "yes"}


def by_name(items: Sequence[Any]) -> dict[str, Any]:
    return {item.name: item for item in items}


def node(name: str = "n1", **changes: Any) -> Node:
    return Node(**{"name": name, "uid": f"uid-{name}", "labels": GPU_NODE, **changes})


def pool(name: str = "p", *, created: str = "2026-01-01T00:00:00Z", **changes: Any) -> Pool:
    meta = {"finalizers": (FINALIZER,), "created": created, **changes.pop("meta", {})}
    spec = {"node_selector": GPU_NODE, "board": BOARD, "count": 1, **changes}
    return Resource(
        Meta(**{"kind": "GPUPool", "name": name, "uid": f"uid-{name}", **meta}),
        GPUPoolSpec(**spec),
        GPUPoolStatus(),
    )


def instances(*texts: str) -> tuple[PlacedInstance, ...]:
    """Parse texts such as "3g.40gb@4" and "1c.3g.40gb@4.1"."""
    return tuple(map(PlacedInstance.from_place, mig_spec.parse_places(",".join(texts))))


def mig_slice(text: str, *pods: str, withdrawing: bool = False) -> Slice:
    """Return a slice "3g.40gb@4" that these pods ("namespace/name") hold."""
    (instance,) = instances(text)
    placed = geometry.board(BOARD).instance(*instance.place)
    profile = placed.profile
    holders = [pod.partition("/") for pod in pods]
    return Slice(
        uuid=f"GPU-{text}" if profile.is_whole else f"MIG-{text}",
        profile=instance.profile,
        start=instance.start,
        compute_start=instance.compute_start,
        state=SliceState.WITHDRAWING if withdrawing else SliceState.ACTIVE,
        resource=f"{PREFIX}/{placed.device.resource_name}",
        memory_bytes=profile.memory_bytes,
        multiprocessors=placed.device.sm_count,
        holders=tuple(
            Holder(namespace=ns, name=name, uid=f"uid-{name}") for ns, _, name in holders
        ),
    )


def gpu(
    on: str = "n1",
    index: int = 0,
    *,
    pool: str = "p",
    want: Sequence[str] = (),
    layout: str | None = None,
    have: Sequence[Slice] = (),
    claims: Sequence[ClaimedSlice] = (),
    reported: bool = True,
    generation: int = 1,
    seen: int | None = None,
    conditions: Sequence[Condition] | None = None,
    **meta: Any,
) -> Gpu:
    """Return a GPU whose agent has reported, unless ``reported`` is false."""
    fields: dict[str, Any] = {
        "kind": "GPU",
        "name": gpu_render.name_of(on, index),
        "uid": f"uid-{on}-{index}",
        "generation": generation,
        "finalizers": (FINALIZER,),
        "labels": {NODE_LABEL: on, POOL_LABEL: pool, INDEX_LABEL: str(index)},
    }
    meta["annotations"] = {NODE_UID: f"uid-{on}"} | meta.get("annotations", {})
    spec = GPUSpec(
        node_name=on,
        index=index,
        board=BOARD,
        uuid=gpu_render.uuid_of(on, index),
        pool=pool,
        layout=layout,
        instances=instances(*want),
    )
    if not reported:
        return Resource(Meta(**fields | meta), spec, GPUStatus())
    status = GPUStatus(
        observed_generation=generation if seen is None else seen,
        conditions=tuple(conditions or agent_conditions()),
        health="Healthy",
        slices=tuple(have),
        claims=tuple(claims),
        slices_total=len(have) + len(claims),
        slices_used=sum(bool(s.holders) for s in have) + len(claims),
        agent_version="1",
    )
    return Resource(Meta(**fields | meta), spec, status)


def claimed_slice(place: str, claim: str = "job", share_bytes: int = 0) -> ClaimedSlice:
    """Return a slice that was created for a ResourceClaim of the namespace ``team``, or a share of
    one.
    """
    profile, _, start = place.partition("@")
    return ClaimedSlice(
        uuid=f"MIG-{place}",
        profile=profile,
        start=int(start),
        claim=Holder(namespace="team", name=claim, uid=f"uid-{claim}"),
        shared=bool(share_bytes),
        memory_bytes=share_bytes or 1,
        multiprocessors=1,
    )


def agent_conditions(
    *,
    ready: tuple[str, str, str] = ("True", "Reconciled", ""),
    degraded: str = "",
    progressing_since: str = "",
) -> tuple[Condition, ...]:
    """Return the conditions that a node agent reports; ``degraded`` is "Reason: message"."""
    reason, _, message = degraded.partition(": ")
    values = {
        ConditionType.ACCEPTED: ("True", "Accepted", ""),
        ConditionType.READY: ready,
        ConditionType.PROGRESSING: (str(bool(progressing_since)), "Reconciled", ""),
        ConditionType.DEGRADED: ("True", reason, message) if degraded else ("False", "Healthy", ""),
    }
    return tuple(
        Condition(
            type=kind.value,
            status=s,
            reason=r,
            message=m,
            last_transition_time=progressing_since or "2026-01-01T00:00:00Z",
        )
        for kind, (s, r, m) in values.items()
    )


def layout(
    name: str = "l",
    *requests: str,
    created: str = "2026-01-01T00:00:00Z",
    select: dict[str, Any] | None = None,
    rollout: dict[str, Any] | None = None,
    **meta: Any,
) -> Layout:
    """Return a layout of requests such as "7x1g.10gb" or "3g.40gb@4"."""
    wanted = []
    for text in requests:
        count, _, rest = text.rpartition("x")
        profile, _, start = rest.partition("@")
        wanted.append(
            InstanceRequest(
                profile=profile, count=int(count or 1), start=int(start) if start else None
            )
        )
    fields = {"kind": "MIGLayout", "name": name, "uid": f"uid-{name}", "created": created}
    return Resource(
        Meta(**{**fields, **meta}),
        MIGLayoutSpec(
            selector=LayoutSelector(**(select or {})),
            instances=tuple(wanted),
            rollout=Rollout(**(rollout or {})),
        ),
        MIGLayoutStatus(),
    )


def world(*items: Any, **changes: Any) -> World:
    """Return a world of these nodes, pools, GPUs and layouts. Unless specified otherwise, kubelets
    are up to date: their nodes offer all active slices.
    """
    gpus = [i for i in items if _is(i, "GPU")]
    return World(
        nodes=by_name([_offering(i, gpus) for i in items if isinstance(i, Node)]),
        pools=by_name([i for i in items if _is(i, "GPUPool")]),
        gpus=by_name([i for i in items if _is(i, "GPU")]),
        layouts=by_name([i for i in items if _is(i, "MIGLayout")]),
        policies=by_name([i for i in items if _is(i, "GPUPolicy")]),
        **changes,
    )


def _offering(there: Node, gpus: Sequence[Gpu]) -> Node:
    if there.allocatable:
        return there
    offered = Counter(
        s.resource
        for gpu in gpus
        if gpu.spec.node_name == there.name
        for s in gpu.status.slices
        if s.state is SliceState.ACTIVE
    )
    return replace(there, allocatable={resource: str(n) for resource, n in offered.items()})


def _is(item: Any, kind: str) -> bool:
    return not isinstance(item, Node) and item.meta.kind == kind


def condition(actions: Sequence[Action], kind: str) -> tuple[str, str, str]:
    """Return status, reason and message of a condition in the only status write among the
    actions.
    """
    (write,) = (a for a in actions if isinstance(a, Apply) and a.manager is Manager.STATUS)
    found = next(c for c in write.document["status"]["conditions"] if c["type"] == kind)
    return found["status"], found["reason"], found["message"]


def applied_documents(actions: Sequence[Action], manager: Manager) -> list[dict[str, Any]]:
    """Return the documents that a manager applies."""
    return [dict(a.document) for a in actions if isinstance(a, Apply) and a.manager is manager]
