"""Reconciles a MIGLayout in one pass: assess each GPU that follows it, decide, act, report.

Each phase is a module: ``assessment``, ``decisions``, ``execution``, ``report``. A phase does
not depend on later ones. State that must survive a pass is stored in the GPU's annotations
(``change``), never in the layout's status. Assessments are cached in a ``LayoutBook``, and one
is renewed only after its GPU changed. Without a cached book, a pass builds one from the world.
"""

import datetime
from collections.abc import Iterator

from gpu_operator.api.v1alpha1.resource import Gpu, Layout
from gpu_operator.controllers.common.world import Outcome, World
from gpu_operator.controllers.layouts import decisions, execution, report
from gpu_operator.controllers.layouts.book import LayoutBook
from gpu_operator.controllers.layouts.decisions import PassDecisions
from gpu_operator.controllers.layouts.selection import Part, Role, roles_of
from gpu_operator.kube.actions import Action

_PAST_DEADLINE_S = 0.5


def reconcile(
    world: World, name: str, current_time: datetime.datetime, book: LayoutBook | None = None
) -> Outcome:
    """Reconcile a layout. A deleted layout needs no action here: see ``orphans``."""
    layout = world.layouts.get(name)
    if layout is None or layout.meta.deleting:
        return Outcome()
    if book is None:
        book = new_book(world, layout)
    decided = decisions.decide(book, current_time)
    actions: list[Action] = []
    for decision in decided.decisions:
        actions += execution.act(world, layout, decision, current_time)
    actions += report.report_on(world, layout, book, decided.why_not, current_time)
    return Outcome(tuple(actions), min(_look_again(book, decided), default=None))


def new_book(world: World, layout: Layout) -> LayoutBook:
    """Build a book with all GPUs that a layout selects."""
    book = LayoutBook(layout)
    for gpu, role in roles_of(world, layout):
        write_role(book, world, gpu, role)
    return book


def write_role(book: LayoutBook, world: World, gpu: Gpu, role: Role) -> None:
    """Record a GPU in the book of a layout that selects the GPU.

    ``role`` describes how the layout is related to the GPU.
    """
    match role.part:
        case Part.OWN:
            book.add_follower(world, gpu, role.rivals)
        case Part.UNPLACEABLE:
            book.add_unplaceable(gpu)
        case Part.TAKEN:
            book.add_taken(gpu, role.follows)
        case Part.CLAIMS:
            book.add_claims_only(gpu)


def _look_again(book: LayoutBook, decided: PassDecisions) -> Iterator[float]:
    """Yield the delays, in seconds, after which the layout must be reconciled without a change."""
    if decided.more:
        yield 0.0
    if decided.next_deadline_s is not None:
        yield decided.next_deadline_s + _PAST_DEADLINE_S
        if decisions.evicts_pods(book.layout):
            yield execution.SETTLE_S
