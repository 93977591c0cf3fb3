"""Fourth phase of a layout's pass: the MIGLayout's status.

It is computed from sums and the first few names, so its cost does not depend on the number of
GPUs, unless some boards cannot hold the slices.
"""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace

from facts.wording import list_first
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
    refusal_verdicts,
    report,
    verdicts,
    with_write_refusal,
)
from gpu_operator.controllers.common.world import World
from gpu_operator.controllers.layouts import targets
from gpu_operator.controllers.layouts.assessment import GpuAssessment, State
from gpu_operator.controllers.layouts.book import Group, LayoutBook
from gpu_operator.controllers.layouts.decisions import evicts_pods
from gpu_operator.kube.actions import Action
from mig import geometry

_MOVING = (  # reasons of unfinished GPUs, the most important first
    Reason.SLICE_IN_USE,
    Reason.WAITING_FOR_AGENT,
    Reason.APPLYING,
    Reason.WAITING_FOR_KUBELET,
)
_URGENT = (State.FAILED, State.WAITING, State.APPLYING, State.PENDING, State.APPLIED)
_MAX_NAMED = 5  # GPUs that a message names; for the others it states their number


def report_on(
    world: World, layout: Layout, book: LayoutBook, why_not: str, current_time: datetime.datetime
) -> tuple[Action, ...]:
    """Return the actions that write the layout's status, and its events, if anything changed.

    ``why_not`` is the reason why GPUs wait for their turn.
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
            for j in _select_listed(book, why_not)
        ),
        gpus_selected=selected + len(book.taken),
        gpus_applied=sum(book.groups.count(g) for g in _in_state(book, State.APPLIED)),
    )
    refusal = world.refused_writes.get(("MIGLayout", layout.name), "")
    new_verdicts = with_write_refusal(_verdicts(world, layout, book, why_not), refusal)
    return report(layout.meta, layout.status, status, new_verdicts, current_time)


def _in_state(book: LayoutBook, state: State) -> list[Group]:
    return [group for group in book.groups.nonempty_groups() if group[0] is state]


def _select_listed(book: LayoutBook, why_not: str) -> list[GpuAssessment]:
    """Return the assessments that fit into the status, by name; GPUs with problems take
    precedence.
    """
    assessments: list[GpuAssessment] = []
    for state in _URGENT:
        room = LISTED_GPUS - len(assessments)
        state_assessments = list(book.first(_in_state(book, state), room))
        if state is State.FAILED:
            strangers = sorted(book.unplaceable)[:room]
            state_assessments += [_assess_unplaceable(book, name) for name in strangers]
            state_assessments.sort(key=_name)
        assessments += [
            _with_wait_reason(assessed, why_not) for assessed in state_assessments[:room]
        ]
    return sorted(assessments, key=_name)


def _with_wait_reason(assessed: GpuAssessment, why_not: str) -> GpuAssessment:
    """Return the assessment; if the GPU waits for its turn, it has the reason ``why_not``."""
    return replace(assessed, message=why_not) if assessed.needs_change else assessed


def _name(assessed: GpuAssessment) -> str:
    return assessed.gpu.name


def _assess_unplaceable(book: LayoutBook, name: str) -> GpuAssessment:
    gpu = book.unplaceable[name]
    problem = targets.resolve_target(gpu.spec.board, book.layout.spec.instances).problem
    return GpuAssessment(gpu, State.FAILED, Reason.NOT_PLACEABLE, problem)


def _verdicts(world: World, layout: Layout, book: LayoutBook, why_not: str) -> Verdicts:
    unknown = [board for board in layout.spec.selector.boards if board not in geometry.BOARDS]
    if unknown:
        known_boards = ", ".join(geometry.BOARDS)
        message = f"selector.boards: unknown board {unknown[0]!r}; known boards: {known_boards}"
        return refusal_verdicts(Reason.UNKNOWN_BOARD, message)
    problems = _find_problems(world, layout, book)
    if problems:
        book = _exclude_boards(book, problems)
    own = len(book.entries)
    if problems and not own and not book.taken:
        return refusal_verdicts(
            Reason.NOT_PLACEABLE, list_first(list(problems.values()), _MAX_NAMED, "; ")
        )
    failed = _describe_first(book, _in_state(book, State.FAILED), why_not)
    progressing = _progressing_verdict(world, book, why_not)
    degraded = Verdict(True, *failed) if failed else None
    accepted: Verdict | None
    if book.taken:
        messages = [
            f"{gpu} follows the older layout {book.taken[gpu]}" for gpu in sorted(book.taken)
        ]
        ready = accepted = Verdict(
            False, Reason.LAYOUT_CONFLICT, list_first(messages, _MAX_NAMED, "; ")
        )
        if own:  # the layout is applied to the others
            message = f"on {own} of {own + len(book.taken)} GPUs: {ready.message}"
            accepted = Verdict(True, Reason.PARTIALLY_ACCEPTED, message)
    elif problems:
        message = _describe_unchanged(book, problems)
        accepted = Verdict(True, Reason.PARTIALLY_ACCEPTED, message)
        ready = Verdict(False, Reason.NOT_PLACEABLE, message)
    else:
        accepted = _describe_rivals(book)
        ready = _ready_verdict(world, book, failed, progressing)
    return verdicts(ready, accepted=accepted, progressing=progressing, degraded=degraded)


def _exclude_boards(book: LayoutBook, problems: Mapping[str, str]) -> LayoutBook:
    """Return a copy of the book in which GPUs of the boards in ``problems`` follow no layout."""
    reduced_book = LayoutBook(book.layout)
    reduced_book.taken = book.taken
    reduced_book.of_claims = book.of_claims
    reduced_book.unplaceable = dict(book.unplaceable)
    for name, entry in book.entries.items():
        gpu = entry.assessed.gpu
        if gpu.spec.board in problems:
            reduced_book.unplaceable[name] = gpu
        else:
            reduced_book.entries[name] = entry
            reduced_book.record(name, book.said[name])
    return reduced_book


def _describe_rivals(book: LayoutBook) -> Verdict | None:
    """Report which other layouts select GPUs of this one without effect."""
    messages = [
        f"layout {rival} also selects {count} of its GPUs, without effect"
        for rival, count in sorted(book.rivals.items())
    ]
    return (
        Verdict(True, Reason.CONTESTED, list_first(messages, _MAX_NAMED, "; "))
        if messages
        else None
    )


def _explain_no_gpu(world: World, layout: Layout) -> str:
    pool = layout.spec.selector.pool
    if pool and pool not in world.pools:
        known_pools = list_first(sorted(world.pools), _MAX_NAMED) or "none"
        return f"selector.pool: there is no GPUPool {pool!r}; there are: {known_pools}"
    nodes = {gpu.spec.node_name for gpu in world.gpus.values()}
    unknown = [name for name in layout.spec.selector.node_names or () if name not in nodes]
    if unknown:
        known_nodes = list_first(sorted(nodes), _MAX_NAMED) or "none"
        names = list_first(unknown, _MAX_NAMED)
        return f"selector.nodeNames: no GPU is on {names}; nodes with GPUs: {known_nodes}"
    return "the selector matches no GPU"


def _ready_verdict(
    world: World, book: LayoutBook, failed: tuple[Reason, str] | None, progressing: Verdict | None
) -> Verdict:
    own = len(book.entries)
    if not own and book.of_claims:
        message = (
            "the selector matches only GPUs for ResourceClaims (allocation: DRA), which layouts"
            f" cannot use: {list_first(sorted(book.of_claims), _MAX_NAMED)}"
        )
        return Verdict(False, Reason.NO_GPUS, message)
    if not own:
        return Verdict(False, Reason.NO_GPUS, _explain_no_gpu(world, book.layout))
    if failed:
        return Verdict(False, *failed)
    if progressing is not None:
        return Verdict(False, progressing.reason, progressing.message)
    return Verdict(True, Reason.RECONCILED, f"applied and verified on {own} GPU{'s' * (own != 1)}")


def _describe_unchanged(book: LayoutBook, problems: Mapping[str, str]) -> str:
    """Return which GPUs stay unchanged because their board cannot hold the slices, and why."""
    messages = []
    for board, problem in problems.items():
        names = sorted(n for n, gpu in book.unplaceable.items() if gpu.spec.board == board)
        messages.append(
            f"not applied on {board} ({list_first(names, _MAX_NAMED)}), whose GPUs stay unchanged: "
            f"{problem}"
        )
    return list_first(messages, _MAX_NAMED, "; ")


def _progressing_verdict(world: World, book: LayoutBook, why_not: str) -> Verdict | None:
    for reason in _MOVING:
        groups: list[Group] = [
            (state, reason) for state in (State.APPLYING, State.WAITING, State.PENDING)
        ]
        description = _describe_first(book, groups, why_not)
        if description is not None:
            message = description[1]
            if reason is Reason.SLICE_IN_USE and evicts_pods(book.layout):
                message += _describe_evictions(world, book, groups)
            return Verdict(True, reason, message)
    return None


def _describe_evictions(world: World, book: LayoutBook, groups: Sequence[Group]) -> str:
    waiting = book.first(groups, len(book.entries)) if world.refused_evictions else ()
    pods = {h.uid: h for j in waiting for s in j.waits_for for h in s.holders}
    refusals = [
        f"{pod.namespace}/{pod.name}: {world.refused_evictions[uid]}"
        for uid, pod in pods.items()
        if uid in world.refused_evictions
    ]
    return (
        f"; eviction refused: {list_first(refusals, _MAX_NAMED, '; ')}"
        if refusals
        else "; being evicted"
    )


def _find_problems(world: World, layout: Layout, book: LayoutBook) -> Mapping[str, str]:
    """Return why boards of selected GPUs cannot hold the slices, by board."""
    boards = set(book.boards)
    pool = world.pools.get(layout.spec.selector.pool or "")
    if not boards and not book.taken and pool is not None:
        boards = {pool.spec.board}  # no GPU exists yet
    problems_by_board = {
        b: targets.resolve_target(b, layout.spec.instances).problem for b in sorted(boards)
    }
    return {board: problem for board, problem in problems_by_board.items() if problem}


def _describe_first(
    book: LayoutBook, groups: Sequence[Group], why_not: str
) -> tuple[Reason, str] | None:
    """Return the reason of the first GPU in these groups, and a message about the first few."""
    first = [_with_wait_reason(assessed, why_not) for assessed in book.first(groups, _MAX_NAMED)]
    if not first:
        return None
    messages = [f"{j.gpu.name}: {j.message or j.state.value}" for j in first]
    omitted_count = sum(map(book.groups.count, groups)) - len(first)
    return first[0].reason, "; ".join(
        [*messages, *([f"and {omitted_count} more"] if omitted_count > 0 else [])]
    )
