"""Second phase of a layout's pass: decides which GPUs change now and which are rolled back.

A GPU that loses slices is unavailable until its change is done, unless it was spare: whole
because no layout selected it, and held by no pod. ``rollout.maxUnavailable`` limits how many
GPUs are unavailable at a time, and after a rollback no further change begins. A GPU that waits
for its turn is neither planned nor visited.

A pass begins a limited number of changes: its writes precede the layout's status, which would
otherwise be outdated for minutes while thousands of changes begin.
"""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.miglayout import OnInUse
from gpu_operator.api.v1alpha1.resource import Layout
from gpu_operator.controllers.layouts import change, plans, targets
from gpu_operator.controllers.layouts.assessment import GpuAssessment, State
from gpu_operator.controllers.layouts.book import LayoutBook
from gpu_operator.controllers.layouts.steps import (
    Begin,
    Decision,
    Evict,
    Redate,
    RollBack,
    assess_begin,
    assess_unplannable,
)
from mig.errors import MigError

PORTION = 128  # GPUs whose change begins or moves in one pass


@dataclass(frozen=True, slots=True)
class PassDecisions:
    """The decisions of one pass over the GPUs of a layout.

    ``why_not`` is the reason why no further GPU may lose slices now. ``next_deadline_s`` is the
    number of seconds until the next deadline of a running change; None if there is none. If
    ``more`` is set, another pass must follow at once, because this pass reached its maximum
    number of changes.
    """

    decisions: tuple[Decision, ...]
    why_not: str
    next_deadline_s: float | None
    more: bool = False


def decide(book: LayoutBook, current_time: datetime.datetime) -> PassDecisions:
    """Decide about all GPUs of a layout, in the order of their names."""
    book.clear_decisions()
    layout = book.layout
    expired = _find_expired(book, layout, current_time)
    stopped = book.has_rolled_back or bool(expired)
    free = layout.spec.rollout.unavailable_of(len(book.entries)) - book.unavailable
    decisions = [_roll_back(book, name) for name in expired]
    due = sorted(name for name in book.steps if name not in expired)
    decisions += [Decision(book.entries[n].assessed, book.steps[n]) for n in due[:PORTION]]
    decisions += [
        Decision(book.entries[n].assessed, Redate()) for n in _find_future_dated(book, current_time)
    ]
    room = PORTION - len(due)
    if not stopped:
        for decision in _begin_next(book, free, room):
            decisions.append(decision)
            free -= _loses_slices(decision)
            room -= 1
    has_more = room < 0 or (room == 0 and not stopped and free > 0 and len(book.turns) > 0)
    if evicts_pods(layout):
        for name in book.waiting:
            if name not in expired and name not in book.steps:
                decisions.append(Decision(book.entries[name].assessed, Evict()))
    decisions.sort(key=lambda decision: decision.assessed.gpu.name)
    why_not = _explain_wait(layout, stopped, free)
    return PassDecisions(
        tuple(decisions), why_not, _next_deadline_s(book, expired, current_time), has_more
    )


def evicts_pods(layout: Layout) -> bool:
    """Return whether the layout evicts pods from slices that must be removed."""
    return layout.spec.rollout.on_in_use is OnInUse.EVICT


def _find_expired(
    book: LayoutBook, layout: Layout, current_time: datetime.datetime
) -> dict[str, None]:
    """Return the GPUs whose change has exceeded the deadline."""
    expired_gpus: dict[str, None] = {}
    for began, name in book.deadlines:
        if (current_time - began).total_seconds() < layout.spec.rollout.deadline_seconds:
            break
        expired_gpus[name] = None
    return expired_gpus


def _find_future_dated(book: LayoutBook, current_time: datetime.datetime) -> Iterator[str]:
    """Yield the GPUs whose change has a start in the future, at most PORTION of them.

    The clock that set the start was fast; the deadline would be late by the difference.
    """
    for began, name in book.deadlines[: -PORTION - 1 : -1]:
        if began <= current_time:
            break
        if name not in book.steps:
            yield name


def _next_deadline_s(
    book: LayoutBook, expired: dict[str, None], current_time: datetime.datetime
) -> float | None:
    deadline_s = book.layout.spec.rollout.deadline_seconds
    if len(book.deadlines) > len(expired):
        began, _ = book.deadlines[len(expired)]
        return deadline_s - (current_time - began).total_seconds()
    return float(deadline_s) if book.undated else None


def _begin_next(book: LayoutBook, free: int, room: int) -> Iterator[Decision]:
    """Begin the changes of GPUs that are due: at most ``room``, of which at most ``free`` lose
    slices.
    """
    for name in tuple(book.turns):
        if free <= 0 or room <= 0:
            return
        assessed = book.entries[name].assessed
        gpu = assessed.gpu
        target_entries = targets.resolve_target(gpu.spec.board, book.layout.spec.instances).entries
        try:
            plan = plans.choose(
                gpu.spec.board, gpu.status.slices, target_entries, gpu.status.claims
            )
        except MigError as err:
            book.override(name, assess_unplannable(assessed, err))
            continue
        book.override(name, assess_begin(assessed, plan.blockers))
        decision = Decision(assessed, Begin(plan.instances, plan.blockers))
        free -= _loses_slices(decision)
        room -= 1
        yield decision


def _loses_slices(decision: Decision) -> bool:
    """Return whether a GPU has fewer slices for a while after this decision."""
    gpu, step = decision.assessed.gpu, decision.step
    if not isinstance(step, Begin) or change.is_spare(gpu):
        return False
    staying = {i.place for i in step.instances}
    return any(s.place not in staying for s in gpu.status.slices)


def _explain_wait(layout: Layout, stopped: bool, free: int) -> str:
    """Return why the GPUs that wait for their turn do not change now."""
    if stopped:
        return "the rollout has stopped: another GPU was rolled back"
    if free <= 0:
        limit = layout.spec.rollout.max_unavailable
        return f"waits for its turn (rollout.maxUnavailable: {limit})"
    return f"waits for its turn ({PORTION} GPUs begin at a time)"


def _roll_back(book: LayoutBook, name: str) -> Decision:
    assessed = book.entries[name].assessed
    old_places = change.write_places(change.read_change(assessed.gpu).before) or "no slices"
    why = (
        f"not done in {book.layout.spec.rollout.deadline_seconds} s, rolled back"
        f" to {old_places}: {assessed.message}"
    )
    book.override(name, GpuAssessment(assessed.gpu, State.FAILED, Reason.DEADLINE_EXCEEDED, why))
    return Decision(assessed, RollBack(why))
