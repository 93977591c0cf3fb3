"""Builds a GPU's status from the reports of gpud and the kubelet.

Everything is pure except for the given clock.
"""

import datetime
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache

from device_plugin.agent.leaving.allocatable import LONGEST_S
from device_plugin.agent.steps import Steps
from device_plugin.inventory.model import (
    Gpu,
    HolderPod,
    Inventory,
    MigSlice,
    is_allocatable,
)
from device_plugin.inventory.resources import Kind
from facts.health import is_in_service
from gpu_operator.api.v1alpha1 import quantity
from gpu_operator.api.v1alpha1.base import Condition, ConditionType, Reason
from gpu_operator.api.v1alpha1.gpu import (
    Budget,
    ClaimedSlice,
    FaultStatus,
    GPUStatus,
    Holder,
    IsolationStatus,
    MigMode,
    ModelledPeak,
    Slice,
    SliceState,
)
from gpu_operator.api.v1alpha1.gpupool import Clock
from mig import planner
from vgpu_sim.hal.observe.modelled_report import MODELLED
from vgpu_sim.perf.boards import BOARDS

_MOST_PODS_OF_A_SHARE = (
    16  # each of 48 shares may have that many pods, and an object at most 1.5 MiB
)
_NONE = Kind("")
_State = tuple[bool, Reason, str]


def build(
    inventory: Inventory,
    gpu: Gpu,
    steps: Steps,
    holders: Mapping[str, Sequence[HolderPod]],
    served: Collection[str],
    kinds: Mapping[str, Kind],
    unoffered: str,
    generation: int,
    earlier_conditions: Sequence[Condition],
    utc_now: datetime.datetime,
    faults: tuple[FaultStatus, ...] = (),
    rival: str = "",
) -> GPUStatus:
    """Build the status of one GPU.

    ``steps`` are the steps for the GPU that the current pass has not taken. ``kinds`` has the
    resource under which each slice is offered, by the slice's UUID. ``unoffered`` is the reason why
    the node offers no slices; it is empty if the node offers them. ``faults`` has the status of the
    faults that the GPU's spec requests. ``rival`` is a message about another plugin that serves a
    resource of this GPU.
    """
    withdrawn = {s.uuid for s in steps.withdraw}
    slices = tuple(
        Slice(
            uuid=s.uuid,
            profile=s.instance.device.name,
            start=s.instance.start,
            compute_start=planner.place_of(s.instance).compute_start,
            state=SliceState.WITHDRAWING if s.uuid in withdrawn else SliceState.ACTIVE,
            resource=kinds.get(s.uuid, _NONE).resource,
            shared=kinds.get(s.uuid, _NONE).is_share,
            admitted=kinds.get(s.uuid, _NONE).resource in served and is_allocatable(gpu, s),
            memory_bytes=s.memory_bytes,
            memory_used_bytes=s.memory_used_bytes,
            multiprocessors=s.multiprocessors,
            holders=_pods(holders.get(s.uuid, ())),
            health=s.health,
        )
        for s in gpu.unclaimed
    )
    claims = tuple(
        claimed_slice
        for s in gpu.claimed
        for claimed_slice in _claimed_slices(s, holders.get(s.uuid, ()))
    )
    pods = [pod for s in slices for pod in s.holders] + [p for s in claims for p in s.holders]
    names = sorted({f"{pod.namespace}/{pod.name}" for pod in pods})
    states = _states(gpu, steps, inventory, unoffered, rival)
    return GPUStatus(
        observed_generation=generation,
        conditions=_conditions(states, generation, earlier_conditions, utc_now),
        product=gpu.board.product_name,
        memory_bytes=gpu.board.memory_bytes,
        multiprocessors=gpu.board.sm_count,
        health=gpu.health.partition(":")[0],
        lost=gpu.is_lost,
        mig_mode=MigMode.ENABLED if gpu.mig_enabled else MigMode.DISABLED,
        slices=slices,
        claims=claims,
        slices_total=len(slices) + len(gpu.claimed),
        slices_used=sum(bool(s.holders) for s in slices) + len(gpu.claimed),
        holders=",".join(names),
        budget=Budget(
            total=quantity.format_bytes(inventory.budget_total_bytes),
            used=quantity.format_bytes(inventory.budget_used_bytes),
        ),
        isolation=IsolationStatus(
            enforced=inventory.isolation_enforced, reason=inventory.isolation_reason
        ),
        faults=faults,
        agent_version=inventory.version,
        modelled_peak=peak_of(gpu.board.key),
        clock=clock_of(inventory),
    )


def clock_of(inventory: Inventory) -> Clock:
    """Return whether CUDA events of new contexts on this node measure modelled or wall-clock
    time.
    """
    return Clock.MODELLED if inventory.clock == MODELLED else Clock.WALL


@cache
def peak_of(board: str) -> ModelledPeak | None:
    """Return the data sheet's peak figures for a board; None if the performance model has none."""
    figures = BOARDS.get(board)
    if figures is None:
        return None
    return ModelledPeak(
        memory_gigabytes_per_second=round(figures.dram_gb_per_s.value),
        link_gigabytes_per_second=round(figures.link_gb_per_s.value),
        pcie_gigabytes_per_second=round(figures.pcie_gb_per_s.value),
        fp32_gigaflops=round(figures.vector_tflops.value * 1e3),
        tensor_gigaflops={
            kind: round(rate.value * 1e3) for kind, rate in figures.tensor_tflops.items()
        },
    )


def _pods(pods: Sequence[HolderPod]) -> tuple[Holder, ...]:
    return tuple(Holder(namespace=pod.namespace, name=pod.name, uid=pod.uid) for pod in pods)


def _claimed_slices(s: MigSlice, pods: Sequence[HolderPod]) -> Iterator[ClaimedSlice]:
    """Yield the part of a slice that each claim has."""
    for claim_share in s.claims:
        namespace, _, name = claim_share.owner_name.partition("/")
        own = pods
        if s.shares:
            own = [pod for pod in pods if pod.claim == claim_share.owner][:_MOST_PODS_OF_A_SHARE]
        yield ClaimedSlice(
            uuid=s.uuid,
            profile=s.instance.device.name,
            start=s.instance.start,
            compute_start=planner.place_of(s.instance).compute_start,
            claim=Holder(namespace=namespace, name=name, uid=claim_share.claim_uid),
            shared=bool(s.shares),
            memory_bytes=claim_share.memory_bytes,
            memory_used_bytes=claim_share.memory_used_bytes,
            multiprocessors=s.multiprocessors,
            holders=_pods(own),
            health=s.health,
        )


def make_empty(last_status: GPUStatus) -> GPUStatus:
    """Return the status of a GPU that gpud does not have: no slices, and unknown health.

    All other values are those of ``last_status``, the last known status.
    """
    nothing = {"slices": (), "claims": (), "slices_total": 0, "slices_used": 0, "holders": ""}
    return mark_unknown(last_status).model_copy(update=nothing)


def mark_unknown(last_status: GPUStatus) -> GPUStatus:
    """Return the status of a GPU that cannot be read now.

    It is ``last_status``, the last known status, with unknown health.
    """
    return last_status.model_copy(update={"health": "Unknown", "lost": False})


def mark_failed(
    reason: Reason,
    message: str,
    known_status: GPUStatus,
    generation: int,
    earlier_conditions: Sequence[Condition],
    utc_now: datetime.datetime,
) -> GPUStatus:
    """Return the known status, marked as not ready for this reason."""
    states: dict[ConditionType, _State] = {
        ConditionType.ACCEPTED: (
            reason not in (Reason.UNKNOWN_BOARD, Reason.INVALID_SPEC, Reason.NODE_CONFLICT),
            reason,
            message,
        ),
        ConditionType.READY: (False, reason, message),
        ConditionType.PROGRESSING: (False, reason, message),
        ConditionType.DEGRADED: (True, reason, message),
    }
    return known_status.model_copy(
        update={
            "observed_generation": generation,
            "conditions": _conditions(states, generation, earlier_conditions, utc_now),
        }
    )


def _states(
    gpu: Gpu, steps: Steps, inventory: Inventory, unoffered: str, rival: str
) -> dict[ConditionType, _State]:
    healthy = gpu.health == "Healthy"
    if steps.problem:
        ready: _State = (False, Reason.NOT_PLACEABLE, steps.problem)
        progressing: _State = (False, Reason.NOT_PLACEABLE, steps.problem)
    elif not steps.settled:
        waiting = ", ".join(str(s.instance) for s in steps.withdraw)
        claims = "; ".join(map(_held_by_claims, steps.claimed))
        message = f"waiting for holders of {waiting}" if waiting else claims or "creating slices"
        reason = Reason.SLICE_IN_USE if waiting or claims else Reason.APPLYING
        if still := steps.listed or (() if waiting or claims else steps.renamed):
            reason, message = Reason.APPLYING, _still_listed(still)
        ready = (False, reason, message)
        progressing = (True, reason, message)
    else:
        inventory_text = (
            f"{len(gpu.unclaimed)} slices" if gpu.mig_enabled else "one whole GPU (MIG off)"
        )
        suffix = "" if healthy else f"; but the GPU is {gpu.health}: see Degraded"
        ready = (True, Reason.RECONCILED, f"{inventory_text} as desired{suffix}")
        progressing = (False, Reason.RECONCILED, "")
    sandbox = f"workers are confined by: {', '.join(inventory.sandbox) or 'not known yet'}"
    if degradations := _degradations(gpu, unoffered, rival):
        degraded: _State = (True, degradations[0][0], "; ".join(text for _, text in degradations))
    elif not inventory.isolation_enforced:
        degraded = (
            False,
            Reason.NOT_ENFORCED,
            f"limits are bookkeeping only: {inventory.isolation_reason}; {sandbox}",
        )
    else:
        degraded = (False, Reason.HEALTHY, sandbox)
    return {
        ConditionType.ACCEPTED: (True, Reason.ACCEPTED, ""),
        ConditionType.READY: ready,
        ConditionType.PROGRESSING: progressing,
        ConditionType.DEGRADED: degraded,
    }


def _degradations(gpu: Gpu, unoffered: str, rival: str) -> list[tuple[Reason, str]]:
    """Return the reasons why a GPU is degraded, with a message each, the most important first.

    The condition has one reason, and operators ignore ``Suspect`` for the node, so it is the last.
    """
    sick_slices = _find_worse_slices(gpu)
    states = [] if gpu.health == "Healthy" else [f"{gpu.uuid} is {gpu.health}"]
    states += [f"slice {s.instance} ({s.uuid}) is {s.health}" for s in sick_slices]
    in_service = all(map(is_in_service, (gpu.health, *(s.health for s in sick_slices))))
    sick = "; ".join(states)
    reasons = [
        (Reason.UNHEALTHY, "" if in_service else sick),
        (Reason.RESOURCE_CONFLICT, rival),
        (Reason.MIXED_PROFILES, unoffered),
        (Reason.SUSPECT, sick if in_service else ""),
    ]
    return [(reason, message) for reason, message in reasons if message]


def _find_worse_slices(gpu: Gpu) -> list[MigSlice]:
    """Return the slices whose state is worse than that of their GPU.

    A GPU that is out of service takes all its slices with it, so none of them is named.
    """
    state = gpu.health.partition(":")[0]
    if not is_in_service(state):
        return []
    return [s for s in gpu.slices if s.health.partition(":")[0] != state]


def _still_listed(slices: Sequence[MigSlice]) -> str:
    named = ", ".join(str(s.instance) for s in slices)
    return (
        f"waiting until the operator has lowered the node's allocatable by {named}"
        f" and the scheduler knows: {LONGEST_S:g} s at most"
    )


def _held_by_claims(s: MigSlice) -> str:
    names = ", ".join(claim_share.owner_name for claim_share in s.claims)
    return f"{s.instance} is held by claim{'s' if s.shares else ''} {names}"


def _conditions(
    states: Mapping[ConditionType, _State],
    generation: int,
    earlier_conditions: Collection[Condition],
    utc_now: datetime.datetime,
) -> tuple[Condition, ...]:
    conditions_by_type = {condition.type: condition for condition in earlier_conditions}
    conditions = []
    for kind, (value, reason, message) in states.items():
        status = "True" if value else "False"
        earlier_condition = conditions_by_type.get(kind.value)
        changed = earlier_condition is None or earlier_condition.status != status
        moment = utc_now.strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions.append(
            Condition(
                type=kind.value,
                status=status,
                reason=reason.value,
                message=message,
                last_transition_time=moment
                if changed or earlier_condition is None
                else earlier_condition.last_transition_time,
                observed_generation=generation,
            )
        )
    return tuple(conditions)
