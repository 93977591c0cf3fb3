"""``layout diff``: the consequences of a layout as text or a document."""

from collections.abc import Iterator
from typing import Any

from console.kubectl import output
from console.kubectl.access import Access, run_connected
from console.model.budgets import Budgets, read_budgets
from console.views.layout_diff import ChangeGroup, LayoutDiff
from drawing import terminal
from facts.wording import count_of, list_first

_SHOWN = 8  # names in a line


def is_change(difference: LayoutDiff) -> bool:
    """Return whether slices are created or destroyed, or GPUs are released."""
    return bool(difference.created or difference.destroyed or difference.released)


def read_limits(access: Access, difference: LayoutDiff) -> Budgets | None:
    """Read the budgets that limit the evictions; None if nothing is evicted.

    Raises:
        click.ClickException: the kubeconfig names no cluster.
    """
    if not (difference.evicts and difference.pods):
        return None
    return run_connected(access, lambda cluster: read_budgets(cluster, difference.pods))


def write_diff(difference: LayoutDiff, limits: Budgets | None, form: str) -> None:
    """Print a diff; ``wide`` has every name."""
    if form in ("json", "yaml"):
        output.write_document(_document(difference, limits), form)
    else:
        output.write_lines(_lines(difference, limits, None if form == "wide" else _SHOWN))


def _lines(
    difference: LayoutDiff, limits: Budgets | None, shown_limit: int | None
) -> Iterator[terminal.Line]:
    title = f"{'Edit of layout' if difference.exists else 'New layout'} {difference.layout.name}"
    yield (terminal.Span(title, bold=True),)
    if not difference.selected:
        yield "The selector matches no GPU."
    yield (
        f"  {count_of(difference.selected, 'GPU')} selected, {difference.unchanged} unchanged,"
        f" {difference.not_applied} not applied"
    )
    yield f"  {count_of(difference.created, 'slice')} created, {difference.destroyed} destroyed"
    yield f"  at most {difference.at_a_time} of the GPUs lose slices at the same time"
    if difference.retry:
        yield (terminal.Span(f"  rolled back. {difference.retry}", "red"),)
    if difference.sick:
        names = list_first([f"{name} ({health})" for name, health in difference.sick], shown_limit)
        yield (terminal.Span(f"  not healthy, so that changes may fail: {names}", "red"),)
    if difference.pods:
        rollout = difference.layout.spec.rollout
        how = (
            "evicted through the Eviction API"
            if difference.evicts
            else f"waited for, at most {rollout.deadline_seconds} s per GPU, then it is rolled back"
        )
        pods = "1 pod is" if len(difference.pods) == 1 else f"{len(difference.pods)} pods are"
        yield f"  {pods} {how}: {list_first(difference.pods, shown_limit)}"
    if limits is not None:
        yield from _limit_lines(limits, shown_limit)
    if difference.released:
        yield (
            "  no longer selected by this layout, and without its slices unless another layout"
            f" selects them: {len(difference.released)}:"
            f" {list_first(difference.released, shown_limit)}"
        )
        yield (
            "    a GPU that no layout selects becomes whole: each slice that a pod holds is removed"
            " when the pod ends, without a deadline, the others at once"
        )
    if difference.released_pods:
        pods = count_of(len(difference.released_pods), "pod")
        names = list_first(difference.released_pods, shown_limit)
        yield f"  {pods} there with slices to remove: {names}"
    for group in difference.groups:
        yield from _group_lines(group, shown_limit)
    if difference.groups:
        yield from terminal.legend(terminal.width())


def _limit_lines(limits: Budgets, shown_limit: int | None) -> Iterator[terminal.Line]:
    for budget in limits.found:
        text = f"  PodDisruptionBudget {budget.namespace}/{budget.name} {budget.text}"
        yield (
            terminal.Span(
                f"{text}: {list_first(budget.pods, shown_limit)}", "red" * bool(budget.refused)
            ),
        )
    if limits.several:
        names = list_first(limits.several, shown_limit)
        text = (
            f"  selected by several budgets, so that the API server refuses to evict them: {names}"
        )
        yield (terminal.Span(text, "red"),)
    if limits.problem:
        yield (terminal.Span(f"  PodDisruptionBudgets: {limits.problem}", "red"),)
    elif not limits.found:
        yield "  no PodDisruptionBudget limits these evictions"


def _group_lines(group: ChangeGroup, shown_limit: int | None) -> Iterator[terminal.Line]:
    change = group.first
    title = f"{len(group.names)} x {change.gpu.spec.board}: {list_first(group.names, shown_limit)}"
    if change.is_released:
        title += (
            f"; released, then follows layout {change.follows}, by whose rollout rules it changes"
            if change.follows
            else "; released, becomes whole"
        )
    yield title
    size = max(min(terminal.width() - 8, 10 * change.before.units), 1)
    for picture, when in ((change.before, "now"), (change.after, "then")):
        if picture is not None:
            for number, row in enumerate(terminal.draw_picture(picture, size)):
                yield (terminal.Span(f"  {when if number == 0 else '':<4}  "), *row)
    if change.problem:
        yield f"  not applied: {change.problem}"
    for word, places in (
        ("create", change.create),
        ("destroy", change.destroy),
        ("keep", change.keep),
    ):
        if places:
            yield f"  {word} {', '.join(places)}"
    for gpu, place, pods in group.blocked[:shown_limit]:
        yield f"  {place} of {gpu} is held by {', '.join(pods)}"
    if shown_limit is not None and len(group.blocked) > shown_limit:
        yield f"  and {len(group.blocked) - shown_limit} more held slices: -o wide has all"


def _document(difference: LayoutDiff, limits: Budgets | None) -> dict[str, Any]:
    return {
        "layout": difference.layout.name,
        "exists": difference.exists,
        "selected": difference.selected,
        "unchanged": difference.unchanged,
        "notApplied": difference.not_applied,
        "created": difference.created,
        "destroyed": difference.destroyed,
        "gpusAtATime": difference.at_a_time,
        "evicts": difference.evicts,
        "pods": list(difference.pods),
        **({"budgets": _limits(limits)} if limits is not None else {}),
        "released": list(difference.released),
        "podsOnReleased": list(difference.released_pods),
        "retry": difference.retry,
        "notHealthy": [{"gpu": name, "health": health} for name, health in difference.sick],
        "changes": [
            {
                "gpus": list(group.names),
                "create": list(group.first.create),
                "destroy": list(group.first.destroy),
                "keep": list(group.first.keep),
                "problem": group.first.problem,
                "released": group.first.is_released,
                "follows": group.first.follows,
                "held": [
                    {"gpu": gpu, "slice": place, "pods": list(pods)}
                    for gpu, place, pods in group.blocked
                ],
            }
            for group in difference.groups
        ],
    }


def _limits(limits: Budgets) -> dict[str, Any]:
    return {
        "limiting": [
            {
                "namespace": budget.namespace,
                "name": budget.name,
                "disruptionsAllowed": budget.allowed,
                "upToDate": not budget.stale,
                "pods": list(budget.pods),
                "refusedNow": budget.refused,
            }
            for budget in limits.found
        ],
        "podsOfSeveral": list(limits.several),
        "problem": limits.problem,
    }
