"""Second phase of a layout's pass: which GPUs change now, which are rolled back, which go on.

A GPU that loses slices is unavailable until it is done, unless it was a spare one: whole for want
of a layout, and held by no pod. ``rollout.maxUnavailable`` bounds how many
are so at a time, and after a rollback no further one begins. So a plan is asked for only where it
could be carried out: a GPU that has to wait for its turn costs no planning, and none of its own
look.

A pass begins a portion: its writes come before the layout's status, which would otherwise count
nothing for minutes while thousands of GPUs are begun.
"""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.miglayout import OnInUse
from gpu_operator.api.v1alpha1.resource import Layout
from gpu_operator.controllers.layouts import change, plans, targets
from gpu_operator.controllers.layouts.assessment import Judgement, State
from gpu_operator.controllers.layouts.book import LayoutBook
from gpu_operator.controllers.layouts.steps import (
    Begin,
    Date,
    Decision,
    Evict,
    RollBack,
    begun,
    unplannable,
)
from mig.errors import MigError

PORTION = 128  # GPUs that begin or move in one pass


@dataclass(frozen=True, slots=True)
class Decided:
    """What is done, and why no further GPU loses slices now.

    ``next_deadline_s``: when the next change underway will have taken too long; None: none is.
    ``more``: the next pass has something to begin, whatever changes until then.
    """

    decisions: tuple[Decision, ...]
    why_not: str
    next_deadline_s: float | None
    more: bool = False


def decide(book: LayoutBook, now: datetime.datetime) -> Decided:
    """Decide about all GPUs of a layout, in the order of their names."""
    book.forget_decisions()
    layout = book.layout
    expired = _expired(book, layout, now)
    stopped = book.has_failed_back or bool(expired)
    free = layout.spec.rollout.unavailable_of(len(book.entries)) - book.unavailable
    decisions = [_roll_back(book, name) for name in expired]
    due = sorted(name for name in book.steps if name not in expired)
    decisions += [Decision(book.entries[n].judged, book.steps[n]) for n in due[:PORTION]]
    decisions += [Decision(book.entries[n].judged, Date()) for n in _ahead(book, now)]
    room = PORTION - len(due)
    if not stopped:
        for decision in _turns(book, free, room):
            decisions.append(decision)
            free -= _loses(decision)
            room -= 1
    more = room < 0 or (room == 0 and not stopped and free > 0 and len(book.turns) > 0)
    if evicts(layout):
        for name in book.waiting:
            if name not in expired and name not in book.steps:
                decisions.append(Decision(book.entries[name].judged, Evict()))
    decisions.sort(key=lambda decision: decision.judgement.gpu.name)
    why_not = _why_not(layout, stopped, free)
    return Decided(tuple(decisions), why_not, _next_deadline_s(book, expired, now), more)


def evicts(layout: Layout) -> bool:
    """Return whether pods that hold a slice in the way are evicted."""
    return layout.spec.rollout.on_in_use is OnInUse.EVICT


def _expired(book: LayoutBook, layout: Layout, now: datetime.datetime) -> dict[str, None]:
    """Return the GPUs whose change has taken too long."""
    found: dict[str, None] = {}
    for began, name in book.deadlines:
        if (now - began).total_seconds() < layout.spec.rollout.deadline_seconds:
            break
        found[name] = None
    return found


def _ahead(book: LayoutBook, now: datetime.datetime) -> Iterator[str]:
    """Yield the GPUs whose change has yet to begin, by its date; a portion of them.

    The clock that dated it was ahead, and the deadline would be late by as much.
    """
    for began, name in book.deadlines[: -PORTION - 1 : -1]:
        if began <= now:
            break
        if name not in book.steps:
            yield name


def _next_deadline_s(
    book: LayoutBook, expired: dict[str, None], now: datetime.datetime
) -> float | None:
    deadline_s = book.layout.spec.rollout.deadline_seconds
    if len(book.deadlines) > len(expired):
        began, _ = book.deadlines[len(expired)]
        return deadline_s - (now - began).total_seconds()
    return float(deadline_s) if book.undated else None


def _turns(book: LayoutBook, free: int, room: int) -> Iterator[Decision]:
    """Yield what begins of those whose turn has come: ``room``, of which ``free`` lose slices."""
    for name in tuple(book.turns):
        if free <= 0 or room <= 0:
            return
        judged = book.entries[name].judged
        gpu = judged.gpu
        wanted = targets.wish(gpu.spec.board, book.layout.spec.instances).entries
        try:
            plan = plans.choose(gpu.spec.board, gpu.status.slices, wanted, gpu.status.claims)
        except MigError as err:
            book.decide(name, unplannable(judged, err))
            continue
        book.decide(name, begun(judged, plan.blockers))
        decision = Decision(judged, Begin(plan.instances, plan.blockers))
        free -= _loses(decision)
        room -= 1
        yield decision


def _loses(decision: Decision) -> bool:
    """Return whether a GPU that begins will have fewer slices for a while."""
    gpu, step = decision.judgement.gpu, decision.step
    if not isinstance(step, Begin) or change.is_spare(gpu):
        return False
    staying = {i.place for i in step.instances}
    return any(s.place not in staying for s in gpu.status.slices)


def _why_not(layout: Layout, stopped: bool, free: int) -> str:
    """Return why GPUs do not lose slices now whose turn has not come."""
    if stopped:
        return "the rollout has stopped: another GPU was rolled back"
    if free <= 0:
        limit = layout.spec.rollout.max_unavailable
        return f"waits for its turn (rollout.maxUnavailable: {limit})"
    return f"waits for its turn ({PORTION} GPUs begin at a time)"


def _roll_back(book: LayoutBook, name: str) -> Decision:
    judged = book.entries[name].judged
    before = change.write(change.of(judged.gpu).before) or "no slices"
    why = (
        f"not done in {book.layout.spec.rollout.deadline_seconds} s, rolled back"
        f" to {before}: {judged.message}"
    )
    book.decide(name, Judgement(judged.gpu, State.FAILED, Reason.DEADLINE_EXCEEDED, why))
    return Decision(judged, RollBack(why))
