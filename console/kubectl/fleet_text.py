"""``map`` and ``top``: nodes, GPUs and slices as a drawing, a table or a document."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import click

from console.kubectl import drawing, output
from console.model.cluster import ClusterModel
from console.views import faults, fleet, needs
from console.views.fleet import Filter, NodeView
from console.views.labels import SelectorError
from drawing import terminal
from drawing.slices import WORDS, Box, GpuPicture, Run

_MIB = 2**20
_LOST = "<lost>"  # of a GPU off the bus, from which nothing can be read


def choose(model: ClusterModel, chosen: Filter, names: Collection[str]) -> list[NodeView]:
    """Return the nodes that match a filter and, if there are names, have one of them.

    Raises ClickException if a name is no node with GPUs, or the labels cannot be evaluated.
    """
    world, knows_nodes = model.world(), not model.connection.missing(("Node",))
    knows_faults = not model.connection.missing(needs.FAULTS)
    if chosen.labels and not knows_nodes:
        raise click.ClickException("the labels of nodes are not known")
    try:
        chosen_nodes = fleet.choose_nodes(
            world, chosen, fleet.Namespaces(), knows_nodes, knows_faults
        )
    except SelectorError as err:
        raise click.ClickException(str(err)) from err
    missing = sorted(set(names) - {node.name for node in chosen_nodes})
    if missing:
        raise click.ClickException(
            f"node {missing[0]!r} has no GPU that matches, or does not exist"
        )
    nodes = [node for node in chosen_nodes if not names or node.name in names]
    return [fleet.view_node(world, node, "state") for node in nodes]


def write_map(views: Sequence[NodeView], form: str) -> None:
    """Print the map of some nodes."""
    if form in ("json", "yaml"):
        output.write_document({"nodes": [_node_document(view) for view in views]}, form)
    elif not views:
        click.echo("No GPUs found.", err=True)
    elif form == "wide":
        head = (
            "NODE",
            "GPU",
            "BOARD",
            "SLICE",
            "INSTANCE",
            "STATE",
            "MEMORY",
            "COMPUTE",
            "PODS",
            "UUID",
        )
        output.write_table(head, _rows(views))
    else:
        for view in views:
            output.write_lines(drawing.draw_node(view, terminal.width()))
        output.write_lines(terminal.legend(terminal.width()))


def write_top(views: Sequence[NodeView], form: str) -> None:
    """Print the memory that each slice uses, the fullest first."""
    usages = sorted(
        _usages(views), key=lambda usage: (-(usage["memoryUsedBytes"] or 0), usage["gpu"])
    )
    if form in ("json", "yaml"):
        output.write_document({"slices": usages}, form)
        return
    if not usages:
        click.echo("No slices found.", err=True)
        return
    rows = (
        (
            usage["node"],
            usage["gpu"],
            usage["slice"],
            _LOST if usage["lost"] else f"{usage['memoryUsedBytes'] // _MIB}Mi",
            f"{usage['memoryBytes'] // _MIB}Mi",
            _LOST if usage["lost"] else _percentage(usage["memoryUsedBytes"], usage["memoryBytes"]),
            usage["health"],
            ",".join(usage["pods"]) or "<none>",
            usage["board"],
            usage["uuid"] or "<none>",
        )
        for usage in usages
    )
    head = ("NODE", "GPU", "SLICE", "MEMORY", "OF", "MEMORY%", "HEALTH", "PODS", "BOARD", "UUID")
    column_count = len(head) if form == "wide" else len(head) - 2
    output.write_table(head[:column_count], (row[:column_count] for row in rows))


def _percentage(used: int, of: int) -> str:
    """Return a percentage; below 10 with a decimal, so that little use is not shown as none."""
    share = 100 * used / max(of, 1)
    return f"{share:.1f}%" if 0 < share < 10 else f"{int(share)}%"


def _usages(views: Iterable[NodeView]) -> Iterable[dict[str, Any]]:
    for view in views:
        for gpu_view in view.gpus:
            is_lost = faults.is_lost(gpu_view.gpu)
            for gpu_slice in gpu_view.gpu.status.slices:
                yield {
                    "node": view.name,
                    "gpu": gpu_view.gpu.name,
                    "board": gpu_view.gpu.spec.board,
                    "slice": str(gpu_slice.place),
                    "uuid": gpu_slice.uuid,
                    "memoryUsedBytes": None if is_lost else gpu_slice.memory_used_bytes,
                    "memoryBytes": gpu_slice.memory_bytes,
                    "health": gpu_slice.health,
                    "lost": is_lost,
                    "pods": [f"{h.namespace}/{h.name}" for h in gpu_slice.holders],
                }


def _rows(views: Iterable[NodeView]) -> Iterable[Sequence[str]]:
    for view in views:
        for gpu_view in view.gpus:
            gpu = (view.name, str(gpu_view.gpu.spec.index), gpu_view.gpu.spec.board)
            for box in _boxes(gpu_view.picture):
                where = (_range(box.memory), _range(box.compute))
                pods = ",".join(_holders(box)) or "<none>"
                number = box.instance.removeprefix("instance ") or "<none>"
                state = WORDS[box.state]
                yield (*gpu, box.name, number, state, *where, pods, box.uuid or "<none>")


def _boxes(picture: GpuPicture) -> Iterable[Box]:
    """Yield the slices of a picture, and the requested ones that it does not draw."""
    yield from picture.boxes
    yield from (waiting_slice.box for waiting_slice in picture.waiting)


def _range(run: Run) -> str:
    """Return the first and the last unit."""
    return f"{run.start}-{run.start + run.size - 1}"


def _holders(box: Box) -> list[str]:
    return [f"{holder.namespace}/{holder.name}" for holder in box.holders]


def _node_document(view: NodeView) -> dict[str, Any]:
    return {
        "name": view.name,
        "pool": view.pool,
        "problem": view.problem,
        "profiles": [
            {
                "profile": profile_count.profile,
                "free": profile_count.free,
                "total": profile_count.total,
                "allocatable": profile_count.allocatable,
            }
            for profile_count in view.profiles
        ],
        "gpus": [
            {
                "name": gpu_view.gpu.name,
                "index": gpu_view.gpu.spec.index,
                "board": gpu_view.gpu.spec.board,
                "health": gpu_view.gpu.status.health,
                "lost": faults.is_lost(gpu_view.gpu),
                "memorySlices": gpu_view.picture.units,
                "computeSlices": gpu_view.picture.compute_slices,
                "problem": gpu_view.picture.problem,
                "slices": [_slice_document(box) for box in _boxes(gpu_view.picture)],
                "requestedAfter": {w.box.name: list(w.behind) for w in gpu_view.picture.waiting},
            }
            for gpu_view in view.gpus
        ],
    }


def _slice_document(box: Box) -> dict[str, Any]:
    return {
        "name": box.name,
        "instance": box.instance,
        "uuid": box.uuid,
        "state": WORDS[box.state],
        "health": box.health,
        "memory": {"start": box.memory.start, "size": box.memory.size},
        "compute": {"start": box.compute.start, "size": box.compute.size},
        "pods": _holders(box),
    }
