"""MIGLayout, in one pass: judge each GPU that follows it, decide, act, report.

Each phase is a module: ``layout_judge``, ``layout_decide``, ``layout_act``, ``layout_report``. None
looks back at an earlier one, and what has to be remembered between two passes is in the GPU's
annotations (``change``), never in the layout's status.
"""

import datetime
from collections.abc import Iterator, Sequence

from gpu_operator.api.v1alpha1.resource import Layout
from gpu_operator.controllers import layout_act, layout_decide, layout_judge, layout_report
from gpu_operator.controllers.layout_decide import Decision, Wait
from gpu_operator.controllers.selection import scope
from gpu_operator.controllers.world import Outcome, World
from gpu_operator.kube.actions import Action

_PAST_DEADLINE_S = 0.5


def reconcile(world: World, name: str, now: datetime.datetime) -> Outcome:
    """Decide about one layout. One that is gone needs nothing here: see ``orphans``."""
    layout = world.layouts.get(name)
    if layout is None or layout.meta.deleting:
        return Outcome()
    selected = scope(world, layout)
    judged = [layout_judge.judge(world, gpu, layout) for gpu in selected.own]
    decided = layout_decide.decide(layout, judged, now)
    actions: list[Action] = []
    for decision in decided:
        actions += layout_act.act(world, layout, decision, now)
    said = [decision.judgement for decision in decided]
    actions += layout_report.report_on(world, layout, selected, said, now)
    return Outcome(tuple(actions), min(_look_again(layout, decided), default=None))


def _look_again(layout: Layout, decided: Sequence[Decision]) -> Iterator[float]:
    """Yield after how many seconds something is due although nothing changes."""
    for decision in decided:
        if isinstance(decision.step, Wait):
            yield decision.step.left_s + _PAST_DEADLINE_S
            if layout_act.evicts(layout):
                yield layout_act.SETTLE_S
