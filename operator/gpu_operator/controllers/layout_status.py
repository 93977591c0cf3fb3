"""What a MIGLayout says about itself."""

import datetime
from collections.abc import Mapping, Sequence

from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.miglayout import GPUProgress, MIGLayoutStatus, OnInUse
from gpu_operator.api.v1alpha1.resource import Gpu, Layout
from gpu_operator.controllers import selection, targets
from gpu_operator.controllers.conditions import (
    Verdict,
    Verdicts,
    blocked,
    refused,
    report,
    verdicts,
)
from gpu_operator.controllers.progress import Progress, State
from gpu_operator.controllers.world import World
from gpu_operator.kube.actions import Action

_TOLD = 5  # GPUs that a message names before it says how many more


def report_on(
    world: World,
    layout: Layout,
    gpus: Sequence[Gpu],
    followed: Mapping[str, str],
    own: Sequence[Progress],
    now: datetime.datetime,
) -> tuple[Action, ...]:
    """Return the status write and events, if anything changed."""
    on_each = sum(request.count for request in layout.spec.instances)
    status = MIGLayoutStatus(
        desired=on_each * len(own),
        applied=sum(p.in_place for p in own if not p.needs_change),
        waiting=sum(len(p.withdrawn) for p in own if p.state is State.WAITING),
        gpus=tuple(
            GPUProgress(name=p.gpu.name, state=p.state.value, message=p.message) for p in own
        ),
    )
    refusal = world.refused_writes.get(("MIGLayout", layout.name), "")
    wanted = blocked(_verdicts(world, layout, gpus, followed, own), refusal)
    return report(layout.meta, layout.status, status, wanted, now)


def _verdicts(
    world: World,
    layout: Layout,
    gpus: Sequence[Gpu],
    followed: Mapping[str, str],
    own: Sequence[Progress],
) -> Verdicts:
    selected = [gpu for gpu in gpus if selection.selects(layout, gpu)]
    impossible = _impossible(world, layout, selected)
    if impossible:
        return refused(Reason.NOT_PLACEABLE, impossible)
    conflicts = [
        f"{gpu.name} follows the older layout {followed[gpu.name]}"
        for gpu in selected
        if followed.get(gpu.name, layout.name) != layout.name
    ]
    failed = [p for p in own if p.state is State.FAILED]
    moving = [p for p in own if p.state in (State.APPLYING, State.WAITING, State.PENDING)]
    degraded = Verdict(True, failed[0].reason, _told(failed)) if failed else None
    progressing = _progressing(world, layout, moving)
    if conflicts:
        conflict = Verdict(False, Reason.LAYOUT_CONFLICT, _several(conflicts))
        return verdicts(conflict, accepted=conflict, progressing=progressing, degraded=degraded)
    if not selected:
        none = Verdict(False, Reason.NO_GPUS, "the selector matches no GPU")
        return verdicts(none, progressing=progressing)
    if failed:
        ready = Verdict(False, failed[0].reason, _told(failed))
    elif moving and progressing is not None:
        ready = Verdict(False, progressing.reason, progressing.message)
    else:
        ready = Verdict(True, Reason.RECONCILED, f"applied and verified on {len(own)} GPUs")
    return verdicts(ready, progressing=progressing, degraded=degraded)


def _progressing(world: World, layout: Layout, moving: Sequence[Progress]) -> Verdict | None:
    for reason in (Reason.SLICE_IN_USE, Reason.WAITING_FOR_AGENT, Reason.APPLYING):
        found = [p for p in moving if p.reason is reason]
        if found:
            message = _told(found)
            if reason is Reason.SLICE_IN_USE:
                message += _evictions(world, layout, found)
            return Verdict(True, reason, message)
    return None


def _evictions(world: World, layout: Layout, waiting: Sequence[Progress]) -> str:
    if layout.spec.rollout.on_in_use is not OnInUse.EVICT:
        return ""
    pods = {h.uid: h for p in waiting for s in p.withdrawn for h in s.holders}
    refusals = [
        f"{pod.namespace}/{pod.name}: {world.refused_evictions[uid]}"
        for uid, pod in pods.items()
        if uid in world.refused_evictions
    ]
    return f"; eviction refused: {_several(refusals)}" if refusals else "; being evicted"


def _impossible(world: World, layout: Layout, selected: Sequence[Gpu]) -> str:
    boards = {gpu.spec.board for gpu in selected}
    pool = world.pools.get(layout.spec.selector.pool or "")
    if not boards and pool is not None:
        boards = {pool.spec.board}
    for board in sorted(boards):
        problem = targets.problem(board, layout.spec.instances)
        if problem:
            return problem
    return ""


def _told(found: Sequence[Progress]) -> str:
    return _several([f"{p.gpu.name}: {p.message or p.state.value}" for p in found])


def _several(items: Sequence[str]) -> str:
    more = len(items) - _TOLD
    return "; ".join(items[:_TOLD]) + (f"; and {more} more" if more > 0 else "")
