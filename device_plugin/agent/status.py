"""Builds a GPU's status from what gpud and the kubelet say. Pure but for the clock it is given."""

import datetime
from collections.abc import Collection, Mapping, Sequence

from device_plugin.agent.steps import Steps
from device_plugin.inventory.model import Gpu, HolderPod, Inventory
from gpu_operator.api.v1alpha1 import quantity
from gpu_operator.api.v1alpha1.base import Condition, ConditionType, Reason
from gpu_operator.api.v1alpha1.gpu import (
    Budget,
    GPUStatus,
    Holder,
    IsolationStatus,
    Slice,
    SliceState,
)

_State = tuple[bool, Reason, str]


def build(
    inventory: Inventory,
    gpu: Gpu,
    steps: Steps,
    holders: Mapping[str, Sequence[HolderPod]],
    served: Collection[str],
    resources: Mapping[str, str],
    generation: int,
    before: Sequence[Condition],
    now: datetime.datetime,
) -> GPUStatus:
    """Return the status of one GPU after ``steps`` were taken.

    ``resources`` has the extended resource of each slice, by its UUID.
    """
    withdrawn = {s.uuid for s in steps.withdraw}
    slices = tuple(
        Slice(
            uuid=s.uuid,
            profile=s.instance.profile.name,
            start=s.instance.start,
            state=SliceState.WITHDRAWING if s.uuid in withdrawn else SliceState.ACTIVE,
            resource=resources[s.uuid],
            admitted=resources[s.uuid] in served,
            memory_bytes=s.memory_bytes,
            memory_used_bytes=s.memory_used_bytes,
            multiprocessors=s.multiprocessors,
            holders=tuple(
                Holder(namespace=pod.namespace, name=pod.name, uid=pod.uid)
                for pod in holders.get(s.uuid, ())
            ),
        )
        for s in gpu.slices
    )
    names = sorted({f"{h.namespace}/{h.name}" for s in slices for h in s.holders})
    return GPUStatus(
        observed_generation=generation,
        conditions=_conditions(_states(gpu, steps, inventory), generation, before, now),
        product=gpu.board.product_name,
        memory_bytes=gpu.board.memory_bytes,
        multiprocessors=gpu.board.sm_count,
        health=gpu.health.partition(":")[0],
        slices=slices,
        slices_total=len(slices),
        slices_used=sum(bool(s.holders) for s in slices),
        holders=",".join(names),
        budget=Budget(
            total=quantity.of_bytes(inventory.budget_total_bytes),
            used=quantity.of_bytes(inventory.budget_used_bytes),
        ),
        isolation=IsolationStatus(
            enforced=inventory.isolation_enforced, reason=inventory.isolation_reason
        ),
        agent_version=inventory.version,
    )


def empty(before: GPUStatus) -> GPUStatus:
    """Return a status without slices: a GPU that gpud does not have has none."""
    nothing = {"slices": (), "slices_total": 0, "slices_used": 0, "holders": ""}
    return unknown(before).model_copy(update=nothing)


def unknown(before: GPUStatus) -> GPUStatus:
    """Return the last known status of a GPU that nobody can look at now."""
    return before.model_copy(update={"health": "Unknown"})


def failed(
    reason: Reason,
    message: str,
    known: GPUStatus,
    generation: int,
    before: Sequence[Condition],
    now: datetime.datetime,
) -> GPUStatus:
    """Return what is known, marked as not ready for this reason."""
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
    return known.model_copy(
        update={
            "observed_generation": generation,
            "conditions": _conditions(states, generation, before, now),
        }
    )


def _states(gpu: Gpu, steps: Steps, inventory: Inventory) -> dict[ConditionType, _State]:
    healthy = gpu.health == "Healthy"
    if steps.problem:
        ready: _State = (False, Reason.NOT_PLACEABLE, steps.problem)
        progressing: _State = (False, Reason.NOT_PLACEABLE, steps.problem)
    elif not steps.settled:
        waiting = ", ".join(str(s.instance) for s in steps.withdraw)
        message = f"waiting for holders of {waiting}" if waiting else "creating slices"
        reason = Reason.SLICE_IN_USE if waiting else Reason.APPLYING
        ready = (False, reason, message)
        progressing = (True, reason, message)
    else:
        ready = (True, Reason.RECONCILED, f"{len(gpu.slices)} slices as desired")
        progressing = (False, Reason.RECONCILED, "")
    walls = f"workers are confined by: {', '.join(inventory.sandbox) or 'not known yet'}"
    if not healthy:
        degraded: _State = (True, Reason.UNHEALTHY, f"{gpu.uuid} is {gpu.health}")
    elif not inventory.isolation_enforced:
        degraded = (
            False,
            Reason.NOT_ENFORCED,
            f"limits are bookkeeping only: {inventory.isolation_reason}; {walls}",
        )
    else:
        degraded = (False, Reason.HEALTHY, walls)
    return {
        ConditionType.ACCEPTED: (True, Reason.ACCEPTED, ""),
        ConditionType.READY: ready,
        ConditionType.PROGRESSING: progressing,
        ConditionType.DEGRADED: degraded,
    }


def _conditions(
    states: Mapping[ConditionType, _State],
    generation: int,
    before: Collection[Condition],
    now: datetime.datetime,
) -> tuple[Condition, ...]:
    known = {condition.type: condition for condition in before}
    conditions = []
    for kind, (value, reason, message) in states.items():
        status = "True" if value else "False"
        old = known.get(kind.value)
        changed = old is None or old.status != status
        moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions.append(
            Condition(
                type=kind.value,
                status=status,
                reason=reason.value,
                message=message,
                last_transition_time=moment if changed or old is None else old.last_transition_time,
                observed_generation=generation,
            )
        )
    return tuple(conditions)
