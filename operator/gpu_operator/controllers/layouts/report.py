"""Fourth phase of a layout's pass: what the MIGLayout says about itself.

It is made of sums and of the first few names: what it costs does not grow with the GPUs, unless
some of their boards cannot hold the slices.
"""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.miglayout import (
    LISTED_GPUS,
    LISTED_MESSAGE_LENGTH,
    GPUProgress,
    MIGLayoutStatus,
)
from gpu_operator.api.v1alpha1.resource import Layout
from gpu_operator.controllers.common.conditions import (
    Verdict,
    Verdicts,
    blocked,
    refused,
    report,
    verdicts,
)
from gpu_operator.controllers.common.world import World
from gpu_operator.controllers.layouts import targets
from gpu_operator.controllers.layouts.assessment import Judgement, State
from gpu_operator.controllers.layouts.book import Group, LayoutBook
from gpu_operator.controllers.layouts.decisions import evicts
from gpu_operator.kube.actions import Action
from mig import geometry

_MOVING = (  # what a layout says first of GPUs that are not done
    Reason.SLICE_IN_USE,
    Reason.WAITING_FOR_AGENT,
    Reason.APPLYING,
    Reason.WAITING_FOR_KUBELET,
)
_URGENT = (State.FAILED, State.WAITING, State.APPLYING, State.PENDING, State.APPLIED)
_TOLD = 5  # GPUs that a message names before it says how many more


def report_on(
    world: World, layout: Layout, book: LayoutBook, why_not: str, now: datetime.datetime
) -> tuple[Action, ...]:
    """Return the status write and events, if anything changed.

    ``why_not`` is what GPUs wait for whose turn has not come.
    """
    on_each = sum(request.count for request in layout.spec.instances)
    selected = len(book.entries) + len(book.unplaceable)
    status = MIGLayoutStatus(
        desired=on_each * selected,
        applied=book.applied,
        waiting=book.withheld,
        gpus=tuple(
            GPUProgress(
                name=j.gpu.name, state=j.state.value, message=j.message[:LISTED_MESSAGE_LENGTH]
            )
            for j in _listed(book, why_not)
        ),
        gpus_selected=selected + len(book.taken),
        gpus_applied=sum(book.groups.count(g) for g in _in_state(book, State.APPLIED)),
    )
    refusal = world.refused_writes.get(("MIGLayout", layout.name), "")
    wanted = blocked(_verdicts(world, layout, book, why_not), refusal)
    return report(layout.meta, layout.status, status, wanted, now)


def _in_state(book: LayoutBook, state: State) -> list[Group]:
    return [group for group in book.groups.used() if group[0] is state]


def _listed(book: LayoutBook, why_not: str) -> list[Judgement]:
    """Return the judgements that the status has room for, by name: those first that need a look."""
    found: list[Judgement] = []
    for state in _URGENT:
        room = LISTED_GPUS - len(found)
        here = list(book.first(_in_state(book, state), room))
        if state is State.FAILED:
            strangers = sorted(book.unplaceable)[:room]
            here += [_unplaceable(book, name) for name in strangers]
            here.sort(key=_name)
        found += [_explained(judgement, why_not) for judgement in here[:room]]
    return sorted(found, key=_name)


def _explained(judgement: Judgement, why_not: str) -> Judgement:
    """Return what is said of a GPU, with what it waits for if its turn has not come."""
    return replace(judgement, message=why_not) if judgement.needs_change else judgement


def _name(judgement: Judgement) -> str:
    return judgement.gpu.name


def _unplaceable(book: LayoutBook, name: str) -> Judgement:
    gpu = book.unplaceable[name]
    problem = targets.wish(gpu.spec.board, book.layout.spec.instances).problem
    return Judgement(gpu, State.FAILED, Reason.NOT_PLACEABLE, problem)


def _verdicts(world: World, layout: Layout, book: LayoutBook, why_not: str) -> Verdicts:
    unknown = [board for board in layout.spec.selector.boards if board not in geometry.BOARDS]
    if unknown:
        known = ", ".join(geometry.BOARDS)
        message = f"selector.boards: unknown board {unknown[0]!r}; known boards: {known}"
        return refused(Reason.UNKNOWN_BOARD, message)
    problems = _problems(world, layout, book)
    if problems:
        book = _without(book, problems)
    own = len(book.entries)
    if problems and not own and not book.taken:
        return refused(Reason.NOT_PLACEABLE, _several(list(problems.values())))
    failed = _told(book, _in_state(book, State.FAILED), why_not)
    progressing = _progressing(world, book, why_not)
    degraded = Verdict(True, *failed) if failed else None
    accepted: Verdict | None
    if book.taken:
        told = [f"{gpu} follows the older layout {book.taken[gpu]}" for gpu in sorted(book.taken)]
        ready = accepted = Verdict(False, Reason.LAYOUT_CONFLICT, _several(told))
        if own:  # the others are carried out
            message = f"on {own} of {own + len(book.taken)} GPUs: {ready.message}"
            accepted = Verdict(True, Reason.PARTIALLY_ACCEPTED, message)
    elif problems:
        message = _left_out(book, problems)
        accepted = Verdict(True, Reason.PARTIALLY_ACCEPTED, message)
        ready = Verdict(False, Reason.NOT_PLACEABLE, message)
    else:
        accepted = _contested(book)
        ready = _ready(world, book, failed, progressing)
    return verdicts(ready, accepted=accepted, progressing=progressing, degraded=degraded)


def _without(book: LayoutBook, problems: Mapping[str, str]) -> LayoutBook:
    """Return a book of the same without what follows and is on boards that cannot hold it."""
    rest = LayoutBook(book.layout)
    rest.taken = book.taken
    rest.of_claims = book.of_claims
    rest.unplaceable = dict(book.unplaceable)
    for name, entry in book.entries.items():
        gpu = entry.judged.gpu
        if gpu.spec.board in problems:
            rest.unplaceable[name] = gpu
        else:
            rest.entries[name] = entry
            rest.say(name, book.said[name])
    return rest


def _contested(book: LayoutBook) -> Verdict | None:
    """Say which other layouts select GPUs of this one, in vain."""
    told = [
        f"layout {other} selects {count} of its GPUs, in vain"
        for other, count in sorted(book.rivals.items())
    ]
    return Verdict(True, Reason.CONTESTED, _several(told)) if told else None


def _no_gpu(world: World, layout: Layout) -> str:
    pool = layout.spec.selector.pool
    if pool and pool not in world.pools:
        known = _several(sorted(world.pools), ", ") or "none"
        return f"selector.pool: there is no GPUPool {pool!r}; there are: {known}"
    return "the selector matches no GPU"


def _ready(
    world: World, book: LayoutBook, failed: tuple[Reason, str] | None, progressing: Verdict | None
) -> Verdict:
    own = len(book.entries)
    if not own and book.of_claims:
        message = (
            "ResourceClaims have all of the GPUs that the selector matches (allocation: DRA), and"
            f" layouts none: {_several(sorted(book.of_claims), ', ')}"
        )
        return Verdict(False, Reason.NO_GPUS, message)
    if not own:
        return Verdict(False, Reason.NO_GPUS, _no_gpu(world, book.layout))
    if failed:
        return Verdict(False, *failed)
    if progressing is not None:
        return Verdict(False, progressing.reason, progressing.message)
    return Verdict(True, Reason.RECONCILED, f"applied and verified on {own} GPUs")


def _left_out(book: LayoutBook, problems: Mapping[str, str]) -> str:
    """Say which GPUs stay as they are, since their board cannot hold the slices, and why."""
    told = []
    for board, problem in problems.items():
        names = sorted(n for n, gpu in book.unplaceable.items() if gpu.spec.board == board)
        told.append(f"not on {board} ({_several(names, ', ')}), which stay as they are: {problem}")
    return _several(told)


def _progressing(world: World, book: LayoutBook, why_not: str) -> Verdict | None:
    for reason in _MOVING:
        groups: list[Group] = [
            (state, reason) for state in (State.APPLYING, State.WAITING, State.PENDING)
        ]
        found = _told(book, groups, why_not)
        if found is not None:
            message = found[1]
            if reason is Reason.SLICE_IN_USE and evicts(book.layout):
                message += _evictions(world, book, groups)
            return Verdict(True, reason, message)
    return None


def _evictions(world: World, book: LayoutBook, groups: Sequence[Group]) -> str:
    waiting = book.first(groups, len(book.entries)) if world.refused_evictions else ()
    pods = {h.uid: h for j in waiting for s in j.waits_for for h in s.holders}
    refusals = [
        f"{pod.namespace}/{pod.name}: {world.refused_evictions[uid]}"
        for uid, pod in pods.items()
        if uid in world.refused_evictions
    ]
    return f"; eviction refused: {_several(refusals)}" if refusals else "; being evicted"


def _problems(world: World, layout: Layout, book: LayoutBook) -> Mapping[str, str]:
    """Return why boards of selected GPUs cannot hold the slices, by board."""
    boards = set(book.boards)
    pool = world.pools.get(layout.spec.selector.pool or "")
    if not boards and not book.taken and pool is not None:
        boards = {pool.spec.board}  # no GPU is there yet
    found = {b: targets.wish(b, layout.spec.instances).problem for b in sorted(boards)}
    return {board: problem for board, problem in found.items() if problem}


def _told(book: LayoutBook, groups: Sequence[Group], why_not: str) -> tuple[Reason, str] | None:
    """Return the reason of the first GPU in these groups, and what is said of the first few."""
    first = [_explained(judgement, why_not) for judgement in book.first(groups, _TOLD)]
    if not first:
        return None
    told = [f"{j.gpu.name}: {j.message or j.state.value}" for j in first]
    more = sum(map(book.groups.count, groups)) - len(first)
    return first[0].reason, "; ".join([*told, *([f"and {more} more"] if more > 0 else [])])


def _several(items: Sequence[str], between: str = "; ") -> str:
    more = len(items) - _TOLD
    return between.join([*items[:_TOLD], *([f"and {more} more"] if more > 0 else [])])
