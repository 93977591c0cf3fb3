"""What is known of a layout's GPUs, kept as they change: a pass looks only at what is due.

One GPU's change is one GPU's judgement and a few searches in sorted lists, however many GPUs the
layout has. What a pass has decided is kept beside what was judged until the GPU has changed or the
next pass, so that a report can be made of sums.
"""

import datetime
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.resource import Gpu, Layout
from gpu_operator.controllers.common.world import World
from gpu_operator.controllers.layouts import assessment, change, plans, targets
from gpu_operator.controllers.layouts.assessment import Judgement, State
from gpu_operator.controllers.layouts.steps import Begin, Move, begun, unplannable
from gpu_operator.controllers.layouts.tally import Tally
from mig.errors import MigError

Group = tuple[State, Reason]


@dataclass(frozen=True, slots=True)
class Entry:
    """One GPU that follows the layout.

    ``step`` is due whatever the others do. ``in_turn``: it has to change, and loses slices by that
    or needs a plan to know; so it waits for its turn.
    """

    judged: Judgement
    applied: int = 0
    step: Begin | Move | None = None
    in_turn: bool = False
    unavailable: bool = False
    begun: datetime.datetime | None = None
    rivals: tuple[str, ...] = ()

    @property
    def said(self) -> Judgement:
        """Return what is said of it while its step is being taken."""
        if isinstance(self.step, Begin | Move):
            return begun(self.judged, self.step.blockers)
        return self.judged


class LayoutBook:
    """The GPUs that one version of a layout selects. Of another version a new book is made."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.entries: dict[str, Entry] = {}
        self.said: dict[str, Judgement] = {}
        self.groups: Tally[Group] = Tally()
        self.turns: list[str] = []  # sorted
        self.steps: dict[str, Begin | Move] = {}
        self.deadlines: list[tuple[datetime.datetime, str]] = []  # sorted by when it began
        self.undated: set[str] = set()  # nobody noted when it began
        self.waiting: set[str] = set()
        self.unavailable = 0
        self.applied = 0
        self.withheld = 0  # slices that have to go and that pods hold
        self.boards: Counter[str] = Counter()
        self.rivals: Counter[str] = Counter()
        self.unplaceable: dict[str, Gpu] = {}
        self.taken: dict[str, str] = {}
        self.of_claims: set[str] = set()
        self._decided: set[str] = set()

    def follow(self, world: World, gpu: Gpu, rivals: tuple[str, ...] = ()) -> None:
        """Take a GPU that follows the layout, as it is now."""
        self.drop(gpu.name)
        entry = enter(world, gpu, self.layout, rivals)
        name, judged = gpu.name, entry.judged
        self.entries[name] = entry
        self.say(name, entry.said)
        self.applied += entry.applied
        self.unavailable += entry.unavailable
        self.boards[gpu.spec.board] += 1
        self.rivals.update(rivals)
        if entry.in_turn:
            insort(self.turns, name)
        if entry.step is not None:
            self.steps[name] = entry.step
        if judged.has_deadline:
            if entry.begun is not None:
                insort(self.deadlines, (entry.begun, name))
            else:
                self.undated.add(name)
            if judged.state is State.WAITING:
                self.waiting.add(name)

    def cannot_hold(self, gpu: Gpu) -> None:
        """Take a GPU that is selected, does not follow, and whose board cannot hold the slices."""
        self.drop(gpu.name)
        self.unplaceable[gpu.name] = gpu
        self.boards[gpu.spec.board] += 1

    def lose_to(self, gpu: Gpu, other: str) -> None:
        """Take a GPU that is selected and follows another layout."""
        self.drop(gpu.name)
        self.taken[gpu.name] = other

    def leave_to_claims(self, gpu: Gpu) -> None:
        """Take a GPU that is selected and that only ResourceClaims give to pods."""
        self.drop(gpu.name)
        self.of_claims.add(gpu.name)

    def drop(self, name: str) -> None:
        """Forget a GPU."""
        self.of_claims.discard(name)
        self.taken.pop(name, None)
        stranger = self.unplaceable.pop(name, None)
        if stranger is not None:
            self._leave_board(stranger)
        entry = self.entries.pop(name, None)
        if entry is None:
            return
        self._unsay(name)
        self._decided.discard(name)
        self.applied -= entry.applied
        self.unavailable -= entry.unavailable
        self._leave_board(entry.judged.gpu)
        self.rivals.subtract(entry.rivals)
        self.rivals += Counter()  # without those that are left with none
        if entry.in_turn:
            del self.turns[bisect_left(self.turns, name)]
        self.steps.pop(name, None)
        self.undated.discard(name)
        self.waiting.discard(name)
        if entry.judged.has_deadline and entry.begun is not None:
            del self.deadlines[bisect_left(self.deadlines, (entry.begun, name))]

    def forget_decisions(self) -> None:
        """Say of each GPU what is judged: a new pass decides anew."""
        for name in self._decided:
            self._unsay(name)
            self.say(name, self.entries[name].said)
        self._decided.clear()

    def decide(self, name: str, said: Judgement) -> None:
        """Say this of a GPU until it changes, or the next pass."""
        self._unsay(name)
        self.say(name, said)
        self._decided.add(name)

    @property
    def has_failed_back(self) -> bool:
        """Return whether a GPU was rolled back from this version."""
        return any(reason is Reason.DEADLINE_EXCEEDED for _, reason in self.groups.used())

    def first(self, groups: Sequence[Group], most: int) -> Iterator[Judgement]:
        """Yield the first judgements, by name, of GPUs in any of these groups."""
        names = sorted(n for group in groups for n in self.groups.names(group)[:most])
        return (self.said[name] for name in names[:most])

    def say(self, name: str, said: Judgement) -> None:
        """Say this of a GPU of which nothing has been said yet."""
        self.said[name] = said
        self.groups.put(name, (said.state, said.reason))
        self.withheld += len(said.waits_for)

    def _unsay(self, name: str) -> None:
        self.withheld -= len(self.said.pop(name).waits_for)
        self.groups.drop(name)

    def _leave_board(self, gpu: Gpu) -> None:
        self.boards[gpu.spec.board] -= 1
        if not self.boards[gpu.spec.board]:
            del self.boards[gpu.spec.board]


def enter(world: World, gpu: Gpu, layout: Layout, rivals: tuple[str, ...]) -> Entry:
    """Judge one GPU, and plan for it where that does not have to wait for its turn."""
    judged = assessment.judge(world, gpu, layout)
    wanted = targets.wish(gpu.spec.board, layout.spec.instances).entries
    last = change.of(gpu)
    asked = set(gpu.spec.instances)
    entry = Entry(
        judged,
        applied=targets.met(gpu.status.slices, wanted),
        unavailable=judged.underway and not last.spare and not asked.issuperset(last.before),
        begun=last.begun,
        rivals=rivals,
    )
    if judged.needs_change:
        return _to_change(entry, gpu, wanted)
    if judged.has_deadline and judged.state is State.WAITING:
        return _to_move(entry, gpu, wanted)
    return entry


def _to_change(entry: Entry, gpu: Gpu, wanted: targets.Entries) -> Entry:
    spare = change.is_spare(gpu)
    if not spare and plans.removes_surely(gpu.status.slices, wanted):
        return replace(entry, in_turn=True)
    try:
        plan = plans.choose(gpu.spec.board, gpu.status.slices, wanted, gpu.status.claims)
    except MigError as err:
        return replace(entry, judged=unplannable(entry.judged, err))
    if plan.removed and not spare:
        return replace(entry, in_turn=True)
    return replace(entry, step=Begin(plan.instances, plan.blockers))


def _to_move(entry: Entry, gpu: Gpu, wanted: targets.Entries) -> Entry:
    """Choose other places if fewer pods stand in the way there: one may have got a slice since."""
    try:
        plan = plans.choose(gpu.spec.board, gpu.status.slices, wanted, gpu.status.claims)
    except MigError:
        return entry
    if len(plan.blockers) < len(entry.judged.waits_for) + len(entry.judged.claims):
        return replace(entry, step=Move(plan.instances, plan.blockers))
    return entry
