"""MIGLayout, in one pass: judge each GPU that follows it, decide, act, report.

Each phase is a module: ``assessment``, ``decisions``, ``execution``, ``report``. None looks back at
an earlier one, and what has to be remembered between two passes is in the GPU's
annotations (``change``), never in the layout's status. What was judged is kept in a ``LayoutBook``
and judged again only where something changed; where nobody keeps one it is made from the world.
"""

import datetime
from collections.abc import Iterator

from gpu_operator.api.v1alpha1.resource import Gpu, Layout
from gpu_operator.controllers.common.world import Outcome, World
from gpu_operator.controllers.layouts import decisions, execution, report
from gpu_operator.controllers.layouts.book import LayoutBook
from gpu_operator.controllers.layouts.decisions import Decided
from gpu_operator.controllers.layouts.selection import Part, Role, roles_of
from gpu_operator.kube.actions import Action

_PAST_DEADLINE_S = 0.5


def reconcile(
    world: World, name: str, now: datetime.datetime, book: LayoutBook | None = None
) -> Outcome:
    """Decide about one layout. One that is gone needs nothing here: see ``orphans``."""
    layout = world.layouts.get(name)
    if layout is None or layout.meta.deleting:
        return Outcome()
    if book is None:
        book = new_book(world, layout)
    decided = decisions.decide(book, now)
    actions: list[Action] = []
    for decision in decided.decisions:
        actions += execution.act(world, layout, decision, now)
    actions += report.report_on(world, layout, book, decided.why_not, now)
    return Outcome(tuple(actions), min(_look_again(book, decided), default=None))


def new_book(world: World, layout: Layout) -> LayoutBook:
    """Judge all GPUs that a layout selects."""
    book = LayoutBook(layout)
    for gpu, role in roles_of(world, layout):
        write_role(book, world, gpu, role)
    return book


def write_role(book: LayoutBook, world: World, gpu: Gpu, role: Role) -> None:
    """Write a GPU that the book's layout selects into it."""
    match role.part:
        case Part.OWN:
            book.follow(world, gpu, role.rivals)
        case Part.UNPLACEABLE:
            book.cannot_hold(gpu)
        case Part.TAKEN:
            book.lose_to(gpu, role.follows)
        case Part.CLAIMS:
            book.leave_to_claims(gpu)


def _look_again(book: LayoutBook, decided: Decided) -> Iterator[float]:
    """Yield after how many seconds something is due although nothing changes."""
    if decided.more:
        yield 0.0
    if decided.next_deadline_s is not None:
        yield decided.next_deadline_s + _PAST_DEADLINE_S
        if decisions.evicts(book.layout):
            yield execution.SETTLE_S
