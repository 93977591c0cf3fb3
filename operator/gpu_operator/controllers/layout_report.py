"""Fourth phase of a layout's pass: what the MIGLayout says about itself."""

import datetime
from collections.abc import Callable, Mapping, Sequence

from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.miglayout import GPUProgress, MIGLayoutStatus
from gpu_operator.api.v1alpha1.resource import Gpu, Layout
from gpu_operator.controllers import targets
from gpu_operator.controllers.conditions import (
    Verdict,
    Verdicts,
    blocked,
    refused,
    report,
    verdicts,
)
from gpu_operator.controllers.layout_act import evicts
from gpu_operator.controllers.layout_judge import Judgement, State
from gpu_operator.controllers.selection import Scope
from gpu_operator.controllers.world import World
from gpu_operator.kube.actions import Action
from mig import geometry

_MOVING = (  # what a layout says first of GPUs that are not done
    Reason.SLICE_IN_USE,
    Reason.WAITING_FOR_AGENT,
    Reason.APPLYING,
    Reason.WAITING_FOR_KUBELET,
)
_TOLD = 5  # GPUs that a message names before it says how many more


def report_on(
    world: World,
    layout: Layout,
    selected: Scope,
    own: Sequence[Judgement],
    now: datetime.datetime,
) -> tuple[Action, ...]:
    """Return the status write and events, if anything changed."""
    on_each = sum(request.count for request in layout.spec.instances)
    told = sorted([*own, *map(_unplaceable(layout), selected.unplaceable)], key=_name)
    status = MIGLayoutStatus(
        desired=on_each * len(told),
        applied=sum(_applied(layout, j.gpu) for j in own),
        waiting=sum(len(j.waits_for) for j in own),
        gpus=tuple(
            GPUProgress(name=j.gpu.name, state=j.state.value, message=j.message) for j in told
        ),
    )
    refusal = world.refused_writes.get(("MIGLayout", layout.name), "")
    wanted = blocked(_verdicts(world, layout, selected, own), refusal)
    return report(layout.meta, layout.status, status, wanted, now)


def _applied(layout: Layout, gpu: Gpu) -> int:
    wish = targets.wish(gpu.spec.board, layout.spec.instances)
    return targets.met(gpu.status.slices, wish.entries)


def _name(judgement: Judgement) -> str:
    return judgement.gpu.name


def _unplaceable(layout: Layout) -> Callable[[Gpu], Judgement]:
    def judge(gpu: Gpu) -> Judgement:
        problem = targets.wish(gpu.spec.board, layout.spec.instances).problem
        return Judgement(gpu, State.FAILED, Reason.NOT_PLACEABLE, problem)

    return judge


def _verdicts(world: World, layout: Layout, selected: Scope, own: Sequence[Judgement]) -> Verdicts:
    unknown = [board for board in layout.spec.selector.boards if board not in geometry.BOARDS]
    if unknown:
        known = ", ".join(geometry.BOARDS)
        message = f"selector.boards: unknown board {unknown[0]!r}; known boards: {known}"
        return refused(Reason.UNKNOWN_BOARD, message)
    problems = _problems(world, layout, selected)
    placeable = [j for j in own if j.gpu.spec.board not in problems]
    if problems and not placeable and not selected.taken:
        return refused(Reason.NOT_PLACEABLE, _several(list(problems.values())))
    failed = [j for j in placeable if j.state is State.FAILED]
    degraded = Verdict(True, failed[0].reason, _told(failed)) if failed else None
    progressing = _progressing(world, layout, placeable)
    if selected.taken:
        told = [f"{gpu} follows the older layout {other}" for gpu, other in selected.taken.items()]
        ready = accepted = Verdict(False, Reason.LAYOUT_CONFLICT, _several(told))
    elif problems:
        message = _left_out(selected, own, problems)
        accepted = Verdict(True, Reason.PARTIALLY_ACCEPTED, message)
        ready = Verdict(False, Reason.NOT_PLACEABLE, message)
    else:
        accepted = None
        ready = _ready(placeable, failed, progressing)
    return verdicts(ready, accepted=accepted, progressing=progressing, degraded=degraded)


def _ready(
    own: Sequence[Judgement], failed: Sequence[Judgement], progressing: Verdict | None
) -> Verdict:
    if not own:
        return Verdict(False, Reason.NO_GPUS, "the selector matches no GPU")
    if failed:
        return Verdict(False, failed[0].reason, _told(failed))
    if progressing is not None:
        return Verdict(False, progressing.reason, progressing.message)
    return Verdict(True, Reason.RECONCILED, f"applied and verified on {len(own)} GPUs")


def _left_out(selected: Scope, own: Sequence[Judgement], problems: Mapping[str, str]) -> str:
    """Say which GPUs stay as they are, since their board cannot hold the slices, and why."""
    gpus = sorted([*(j.gpu for j in own), *selected.unplaceable], key=lambda gpu: gpu.name)
    told = []
    for board, problem in problems.items():
        names = [gpu.name for gpu in gpus if gpu.spec.board == board]
        told.append(f"not on {board} ({_several(names, ', ')}), which stay as they are: {problem}")
    return _several(told)


def _progressing(world: World, layout: Layout, own: Sequence[Judgement]) -> Verdict | None:
    moving = [j for j in own if j.underway or j.state is State.PENDING]
    for reason in _MOVING:
        found = [j for j in moving if j.reason is reason]
        if found:
            message = _told(found)
            if reason is Reason.SLICE_IN_USE and evicts(layout):
                message += _evictions(world, found)
            return Verdict(True, reason, message)
    return None


def _evictions(world: World, waiting: Sequence[Judgement]) -> str:
    pods = {h.uid: h for j in waiting for s in j.waits_for for h in s.holders}
    refusals = [
        f"{pod.namespace}/{pod.name}: {world.refused_evictions[uid]}"
        for uid, pod in pods.items()
        if uid in world.refused_evictions
    ]
    return f"; eviction refused: {_several(refusals)}" if refusals else "; being evicted"


def _problems(world: World, layout: Layout, selected: Scope) -> Mapping[str, str]:
    """Return why boards of selected GPUs cannot hold the slices, by board."""
    boards = {gpu.spec.board for gpu in (*selected.own, *selected.unplaceable)}
    pool = world.pools.get(layout.spec.selector.pool or "")
    if not boards and not selected.taken and pool is not None:
        boards = {pool.spec.board}  # no GPU is there yet
    found = {b: targets.wish(b, layout.spec.instances).problem for b in sorted(boards)}
    return {board: problem for board, problem in found.items() if problem}


def _told(found: Sequence[Judgement]) -> str:
    return _several([f"{j.gpu.name}: {j.message or j.state.value}" for j in found])


def _several(items: Sequence[str], between: str = "; ") -> str:
    more = len(items) - _TOLD
    return between.join([*items[:_TOLD], *([f"and {more} more"] if more > 0 else [])])
