"""State of a layout's GPUs, updated as they change, so that a pass processes only what is due.

A change of one GPU costs one assessment and a few searches in sorted lists, whatever the size of
the layout. A pass's decisions are stored beside the assessments until the GPU changes or the
next pass begins, so that reports can be computed from sums.
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
from gpu_operator.controllers.layouts.assessment import GpuAssessment, State
from gpu_operator.controllers.layouts.steps import Begin, Move, assess_begin, assess_unplannable
from gpu_operator.controllers.layouts.tally import Tally
from mig.errors import MigError

Group = tuple[State, Reason]


@dataclass(frozen=True, slots=True)
class Entry:
    """A GPU that follows the layout, its assessment, and the next step of its change.

    If ``step`` is set, a pass over the layout may take that step without waiting for other GPUs. If
    ``in_turn`` is set, ``step`` is None and the GPU waits for its turn, because its change removes
    slices and the GPU is not spare (``change.is_spare``).
    """

    assessed: GpuAssessment
    applied: int = 0
    step: Begin | Move | None = None
    in_turn: bool = False
    unavailable: bool = False
    begun: datetime.datetime | None = None
    rivals: tuple[str, ...] = ()

    @property
    def reported_assessment(self) -> GpuAssessment:
        """Return the assessment to report for this GPU.

        If ``step`` is set, the assessment describes the GPU as if this step had been taken.
        """
        if isinstance(self.step, Begin | Move):
            return assess_begin(self.assessed, self.step.blockers)
        return self.assessed


class LayoutBook:
    """The state of the GPUs that one version of a layout selects; each version has its own book."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.entries: dict[str, Entry] = {}
        self.said: dict[str, GpuAssessment] = {}
        self.groups: Tally[Group] = Tally()
        self.turns: list[str] = []  # sorted
        self.steps: dict[str, Begin | Move] = {}
        self.deadlines: list[
            tuple[datetime.datetime, str]
        ] = []  # sorted by the time at which the change began
        self.undated: set[str] = set()  # changes without a recorded start
        self.waiting: set[str] = set()
        self.unavailable = 0
        self.applied = 0
        self.withheld = 0  # slices that must be removed and that pods hold
        self.boards: Counter[str] = Counter()
        self.rivals: Counter[str] = Counter()
        self.unplaceable: dict[str, Gpu] = {}
        self.taken: dict[str, str] = {}
        self.of_claims: set[str] = set()
        self._decided: set[str] = set()

    def add_follower(self, world: World, gpu: Gpu, rivals: tuple[str, ...] = ()) -> None:
        """Add or update a GPU that follows the layout.

        ``rivals`` are the names of other layouts that also select the GPU; they have no effect.
        """
        self.drop(gpu.name)
        entry = make_entry(world, gpu, self.layout, rivals)
        name, assessed = gpu.name, entry.assessed
        self.entries[name] = entry
        self.record(name, entry.reported_assessment)
        self.applied += entry.applied
        self.unavailable += entry.unavailable
        self.boards[gpu.spec.board] += 1
        self.rivals.update(rivals)
        if entry.in_turn:
            insort(self.turns, name)
        if entry.step is not None:
            self.steps[name] = entry.step
        if assessed.has_deadline:
            if entry.begun is not None:
                insort(self.deadlines, (entry.begun, name))
            else:
                self.undated.add(name)
            if assessed.state is State.WAITING:
                self.waiting.add(name)

    def add_unplaceable(self, gpu: Gpu) -> None:
        """Add a selected GPU that does not follow the layout because its board cannot hold the
        slices.
        """
        self.drop(gpu.name)
        self.unplaceable[gpu.name] = gpu
        self.boards[gpu.spec.board] += 1

    def add_taken(self, gpu: Gpu, followed_layout: str) -> None:
        """Add a selected GPU that follows another layout."""
        self.drop(gpu.name)
        self.taken[gpu.name] = followed_layout

    def add_claims_only(self, gpu: Gpu) -> None:
        """Add a selected GPU that is allocated only through ResourceClaims."""
        self.drop(gpu.name)
        self.of_claims.add(gpu.name)

    def drop(self, name: str) -> None:
        """Remove a GPU from the book."""
        self.of_claims.discard(name)
        self.taken.pop(name, None)
        stranger = self.unplaceable.pop(name, None)
        if stranger is not None:
            self._leave_board(stranger)
        entry = self.entries.pop(name, None)
        if entry is None:
            return
        self._unrecord(name)
        self._decided.discard(name)
        self.applied -= entry.applied
        self.unavailable -= entry.unavailable
        self._leave_board(entry.assessed.gpu)
        self.rivals.subtract(entry.rivals)
        self.rivals += Counter()  # without entries whose count is 0
        if entry.in_turn:
            del self.turns[bisect_left(self.turns, name)]
        self.steps.pop(name, None)
        self.undated.discard(name)
        self.waiting.discard(name)
        if entry.assessed.has_deadline and entry.begun is not None:
            del self.deadlines[bisect_left(self.deadlines, (entry.begun, name))]

    def clear_decisions(self) -> None:
        """Discard the decisions of the last pass; each GPU's own assessment is reported again."""
        for name in self._decided:
            self._unrecord(name)
            self.record(name, self.entries[name].reported_assessment)
        self._decided.clear()

    def override(self, name: str, gpu_assessment: GpuAssessment) -> None:
        """Report ``gpu_assessment`` for a GPU instead of the GPU's own assessment.

        It is reported until the GPU changes or the next pass begins.
        """
        self._unrecord(name)
        self.record(name, gpu_assessment)
        self._decided.add(name)

    @property
    def has_rolled_back(self) -> bool:
        """Return whether a GPU was rolled back from this version of the layout."""
        return any(
            reason is Reason.DEADLINE_EXCEEDED for _, reason in self.groups.nonempty_groups()
        )

    def first(self, groups: Sequence[Group], max_count: int) -> Iterator[GpuAssessment]:
        """Yield the assessments of the first ``max_count`` GPUs in these groups, by name."""
        names = sorted(n for group in groups for n in self.groups.names(group)[:max_count])
        return (self.said[name] for name in names[:max_count])

    def record(self, name: str, gpu_assessment: GpuAssessment) -> None:
        """Record ``gpu_assessment`` of the GPU ``name``.

        The book must not have an assessment of this GPU yet.
        """
        self.said[name] = gpu_assessment
        self.groups.put(name, (gpu_assessment.state, gpu_assessment.reason))
        self.withheld += len(gpu_assessment.waits_for)

    def _unrecord(self, name: str) -> None:
        self.withheld -= len(self.said.pop(name).waits_for)
        self.groups.drop(name)

    def _leave_board(self, gpu: Gpu) -> None:
        self.boards[gpu.spec.board] -= 1
        if not self.boards[gpu.spec.board]:
            del self.boards[gpu.spec.board]


def make_entry(world: World, gpu: Gpu, layout: Layout, rivals: tuple[str, ...]) -> Entry:
    """Assess a GPU, and plan the change that the GPU needs.

    If the change has to wait for its turn, it is not planned yet.
    """
    assessed = assessment.assess(world, gpu, layout)
    target_entries = targets.resolve_target(gpu.spec.board, layout.spec.instances).entries
    last = change.read_change(gpu)
    desired = set(gpu.spec.instances)
    entry = Entry(
        assessed,
        applied=targets.count_met(gpu.status.slices, target_entries),
        unavailable=assessed.underway and not last.spare and not desired.issuperset(last.before),
        begun=last.begun,
        rivals=rivals,
    )
    if assessed.needs_change:
        return _plan_change(entry, gpu, target_entries)
    if assessed.has_deadline and assessed.state is State.WAITING:
        return _plan_move(entry, gpu, target_entries)
    return entry


def _plan_change(entry: Entry, gpu: Gpu, target_entries: targets.Entries) -> Entry:
    spare = change.is_spare(gpu)
    if not spare and plans.certainly_removes(gpu.status.slices, target_entries):
        return replace(entry, in_turn=True)
    try:
        plan = plans.choose(gpu.spec.board, gpu.status.slices, target_entries, gpu.status.claims)
    except MigError as err:
        return replace(entry, assessed=assess_unplannable(entry.assessed, err))
    if plan.removed and not spare:
        return replace(entry, in_turn=True)
    return replace(entry, step=Begin(plan.instances, plan.blockers))


def _plan_move(entry: Entry, gpu: Gpu, target_entries: targets.Entries) -> Entry:
    """Return the entry with a step to other placements, if fewer pods block those.

    A pod may have received a slice since the current placements were chosen.
    """
    try:
        plan = plans.choose(gpu.spec.board, gpu.status.slices, target_entries, gpu.status.claims)
    except MigError:
        return entry
    if len(plan.blockers) < len(entry.assessed.waits_for) + len(entry.assessed.claims):
        return replace(entry, step=Move(plan.instances, plan.blockers))
    return entry
