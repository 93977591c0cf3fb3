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


def is_change(found: LayoutDiff) -> bool:
    """Return whether slices are created or destroyed, or GPUs are released."""
    return bool(found.created or found.destroyed or found.released)


def read_limits(access: Access, found: LayoutDiff) -> Budgets | None:
    """Read the budgets that limit the evictions; None if nothing is evicted.

    Raises:
        click.ClickException: the kubeconfig names no cluster.
    """
    if not (found.evicts and found.pods):
        return None
    return run_connected(access, lambda cluster: read_budgets(cluster, found.pods))


def write_diff(found: LayoutDiff, limits: Budgets | None, form: str) -> None:
    """Print a diff; ``wide`` has every name."""
    if form in ("json", "yaml"):
        output.write_document(_document(found, limits), form)
    else:
        output.write_lines(_lines(found, limits, None if form == "wide" else _SHOWN))


def _lines(found: LayoutDiff, limits: Budgets | None, most: int | None) -> Iterator[terminal.Line]:
    title = f"{'Edit of layout' if found.exists else 'New layout'} {found.layout.name}"
    yield (terminal.Span(title, bold=True),)
    if not found.selected:
        yield "The selector matches no GPU."
    yield (
        f"  {count_of(found.selected, 'GPU')} selected, {found.unchanged} unchanged,"
        f" {found.not_applied} not applied"
    )
    yield f"  {count_of(found.created, 'slice')} created, {found.destroyed} destroyed"
    yield f"  at most {found.at_a_time} of the GPUs lose slices at the same time"
    if found.retry:
        yield (terminal.Span(f"  rolled back. {found.retry}", "red"),)
    if found.sick:
        names = list_first([f"{name} ({health})" for name, health in found.sick], most)
        yield (terminal.Span(f"  not healthy, so that changes may fail: {names}", "red"),)
    if found.pods:
        rollout = found.layout.spec.rollout
        how = (
            "evicted through the Eviction API"
            if found.evicts
            else f"waited for, at most {rollout.deadline_seconds} s per GPU, then it is rolled back"
        )
        pods = "1 pod is" if len(found.pods) == 1 else f"{len(found.pods)} pods are"
        yield f"  {pods} {how}: {list_first(found.pods, most)}"
    if limits is not None:
        yield from _limit_lines(limits, most)
    if found.released:
        yield (
            "  no longer selected by this layout, and without its slices unless another layout"
            f" selects them: {len(found.released)}: {list_first(found.released, most)}"
        )
        yield (
            "    a GPU that no layout selects becomes whole: each slice that a pod holds is removed"
            " when the pod ends, without a deadline, the others at once"
        )
    if found.released_pods:
        pods = count_of(len(found.released_pods), "pod")
        yield f"  {pods} there with slices to remove: {list_first(found.released_pods, most)}"
    for group in found.groups:
        yield from _group_lines(group, most)
    if found.groups:
        yield from terminal.legend(terminal.width())


def _limit_lines(limits: Budgets, most: int | None) -> Iterator[terminal.Line]:
    for one in limits.found:
        text = f"  PodDisruptionBudget {one.namespace}/{one.name} {one.text}"
        yield (terminal.Span(f"{text}: {list_first(one.pods, most)}", "red" * bool(one.refused)),)
    if limits.several:
        names = list_first(limits.several, most)
        text = (
            f"  selected by several budgets, so that the API server refuses to evict them: {names}"
        )
        yield (terminal.Span(text, "red"),)
    if limits.problem:
        yield (terminal.Span(f"  PodDisruptionBudgets: {limits.problem}", "red"),)
    elif not limits.found:
        yield "  no PodDisruptionBudget limits these evictions"


def _group_lines(group: ChangeGroup, most: int | None) -> Iterator[terminal.Line]:
    change = group.first
    title = f"{len(group.names)} x {change.gpu.spec.board}: {list_first(group.names, most)}"
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
    for gpu, place, pods in group.blocked[:most]:
        yield f"  {place} of {gpu} is held by {', '.join(pods)}"
    if most is not None and len(group.blocked) > most:
        yield f"  and {len(group.blocked) - most} more held slices: -o wide has all"


def _document(found: LayoutDiff, limits: Budgets | None) -> dict[str, Any]:
    return {
        "layout": found.layout.name,
        "exists": found.exists,
        "selected": found.selected,
        "unchanged": found.unchanged,
        "notApplied": found.not_applied,
        "created": found.created,
        "destroyed": found.destroyed,
        "gpusAtATime": found.at_a_time,
        "evicts": found.evicts,
        "pods": list(found.pods),
        **({"budgets": _limits(limits)} if limits is not None else {}),
        "released": list(found.released),
        "podsOnReleased": list(found.released_pods),
        "retry": found.retry,
        "notHealthy": [{"gpu": name, "health": health} for name, health in found.sick],
        "changes": [
            {
                "gpus": list(one.names),
                "create": list(one.first.create),
                "destroy": list(one.first.destroy),
                "keep": list(one.first.keep),
                "problem": one.first.problem,
                "released": one.first.is_released,
                "follows": one.first.follows,
                "held": [
                    {"gpu": gpu, "slice": place, "pods": list(pods)}
                    for gpu, place, pods in one.blocked
                ],
            }
            for one in found.groups
        ],
    }


def _limits(limits: Budgets) -> dict[str, Any]:
    return {
        "limiting": [
            {
                "namespace": one.namespace,
                "name": one.name,
                "disruptionsAllowed": one.allowed,
                "upToDate": not one.stale,
                "pods": list(one.pods),
                "refusedNow": one.refused,
            }
            for one in limits.found
        ],
        "podsOfSeveral": list(limits.several),
        "problem": limits.problem,
    }
