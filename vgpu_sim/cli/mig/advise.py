"""``tessera mig advise``: how fragmented a pool's slices are, and which moves would make room.

The command reads GPU objects as ``kubectl get gpus -o json`` prints them, so it needs no access
rights of its own.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from drawing.slices import BoxState
from facts.wording import count_of
from mig import planner, pools
from mig.errors import MigError, SpecError
from mig.geometry import Instance
from mig.pools import GpuState
from vgpu_sim.cli import inputs, pictures as options
from vgpu_sim.cli.errors import InvalidInput
from vgpu_sim.cli.mig import pictures
from vgpu_sim.cli.mig.pictures import Moment
from vgpu_sim.cli.mig.relayout import read_slices

_MOST_DRAWN = 32
_MOST_PODS = 5
_EXPECTED = "`tessera mig advise` expects the output of `kubectl get gpus -o json`"


@click.command()
@click.option(
    "-f",
    "--filename",
    "file",
    type=inputs.FILE,
    default="-",
    show_default=True,
    help="Output of `kubectl get gpus -o json`; - is standard input.",
)
@click.option("--pool", default=None, metavar="NAME", help="Consider only GPUs of this GPUPool.")
@click.option(
    "--want", default="", metavar="REQUESTS", help="Slices to make room for: 2x3g.40gb,1g.10gb."
)
@click.option(
    "--layout",
    default=None,
    metavar="SLICES",
    help="Slices for every GPU, to compute what changing to them costs: 3g.40gb,4x1g.10gb.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@options.with_pictures
@click.pass_context
def advise(
    ctx: click.Context,
    file: str,
    pool: str | None,
    want: str,
    layout: str | None,
    as_json: bool,
) -> None:
    """Report the free room on a pool's GPUs, the pods to move for more room, and a layout's cost.

    Fragmentation is the part of the room that cannot be used because of the placement of slices
    in use; it is 0 if moving slices would not help. Slices that no pod holds are counted as
    room.
    """
    gpus = [gpu for gpu in _read(file) if pool in (None, gpu.pool)]
    divided = [gpu for gpu in gpus if not gpu.is_whole]
    document: dict[str, Any] = {
        "gpus": len(gpus),
        "divided": len(divided),
        **_room(divided),
        "advice": [_advice(ctx, divided, name) for name in want.split(",") if name],
    }
    if layout is not None:
        document["layout"] = _layout(ctx, gpus, layout)
    moments = [moment for name in want.split(",") if name for moment in _moments(divided, name)]
    if layout is not None:
        moments += _layout_moments(gpus, layout)
    moments = moments or _now(divided)
    title = f"room for {want}" if want else "GPUs"
    options.write_files(title, lambda: pictures.figures_of(moments))
    if options.current().takes_stdout:
        return
    click.echo(json.dumps(document) if as_json else "\n".join(_lines(document)))
    if not as_json:
        pictures.print_moments(moments)


def _read(file: str) -> list[GpuState]:
    """Return the GPUs in kubectl's JSON. Raises InvalidInput."""
    text = inputs.read_text(file)
    name = "standard input" if file == "-" else file
    try:
        if not text.strip():
            raise InvalidInput(f"{name} is empty; {_EXPECTED}")
        return pools.read(json.loads(text))
    except MigError as err:
        raise InvalidInput(f"{name}: {err}") from err
    except (ValueError, RecursionError) as err:
        raise InvalidInput(f"{name} is not JSON: {err}; {_EXPECTED}") from err


def _room(gpus: Sequence[GpuState]) -> dict[str, Any]:
    rooms = pools.room(gpus)
    return {
        "fragmentation": round(planner.fragmentation(rooms), 3),
        "room": {
            p.name: {"now": profile_room.now, "packed": profile_room.packed}
            for p, profile_room in rooms.items()
        },
    }


def _read_wanted(text: str) -> tuple[int, str]:
    """Return the count and the profile of ``2x3g.40gb``; a profile's name can have an x as well."""
    count, separator, name = text.partition("x")
    return (int(count), name) if separator and count.isdecimal() else (1, text)


def _advice(ctx: click.Context, gpus: Sequence[GpuState], text: str) -> dict[str, Any]:
    needed, name = _read_wanted(text)
    try:
        advice = pools.advise(gpus, name, needed)
    except MigError as err:
        raise click.BadParameter(str(err), ctx, param_hint="--want") from err
    return {
        "profile": name,
        "wanted": needed,
        "now": advice.now,
        "possible": advice.possible >= needed,
        "moves": [
            {
                "gpu": gpu.name,
                "slices": [
                    {"slice": str(instance), "pods": list(gpu.holders_in(instance))}
                    for instance in making.disturbed
                ],
                "to": [str(target) for _, target in making.moves],
                "units": making.units,
            }
            for gpu, making in advice.makings
        ],
    }


def _now(gpus: Sequence[GpuState]) -> list[Moment]:
    """Return the divided GPUs as they are, at most as many as a page shows."""
    return [pictures.moment(gpu.board, gpu.name, _states(gpu, ())) for gpu in gpus[:_MOST_DRAWN]]


def _moments(gpus: Sequence[GpuState], text: str) -> Iterator[Moment]:
    """Yield the GPUs that change to make room for a profile, before and after."""
    needed, name = _read_wanted(text)
    advice = pools.advise(gpus, name, needed)
    for gpu, making in advice.makings[:_MOST_DRAWN]:
        gone = making.disturbed
        stay = [instance for instance in gpu.held if instance.gpu_instance not in gone]
        moved = [to for _, to in making.moves]
        coming = [*moved, *_made_room(gpu, [*stay, *moved], name)]
        states = pictures.states_of(held=stay, coming=coming)
        title = f"{gpu.name} before ({text})"
        yield pictures.moment(gpu.board, title, _states(gpu, gone))
        yield pictures.moment(gpu.board, f"{gpu.name} after ({text})", states)


def _made_room(gpu: GpuState, held_slices: Sequence[Instance], name: str) -> tuple[Instance, ...]:
    """Return the slices of a profile for which there is room beside ``held_slices``, one more than
    now.
    """
    profile = gpu.board.device_profile(name).profile
    count = planner.room(gpu.board, gpu.held)[profile].now + 1
    return tuple(planner.plan(gpu.board, held_slices, [profile] * count).placed)


def _layout_moments(gpus: Sequence[GpuState], text: str) -> list[Moment]:
    """Return the GPUs that a layout changes, before and after, at most as many as a page shows."""
    moments: list[Moment] = []
    for gpu in gpus:
        if len(moments) >= 2 * _MOST_DRAWN:
            break
        try:
            requested_slices = read_slices(gpu.board, text)
            plan = planner.relayout(
                gpu.board, gpu.slices, requested_slices, held=frozenset(gpu.held)
            )
        except MigError:  # the text names the boards that cannot have the layout
            continue
        if plan.destroy or plan.create:
            present_states = pictures.states_of(held=plan.keep, leaving=plan.destroy)
            target_states = pictures.states_of(held=plan.keep, coming=plan.create)
            moments.append(pictures.moment(gpu.board, f"{gpu.name} before", present_states))
            moments.append(pictures.moment(gpu.board, f"{gpu.name} after", target_states))
    return moments


def _states(gpu: GpuState, gone: Sequence[Instance]) -> dict[Instance, BoxState]:
    held_slices = [
        instance
        for instance in gpu.slices
        if instance in gpu.held and instance.gpu_instance not in gone
    ]
    leaving = [instance for instance in gpu.slices if instance.gpu_instance in gone]
    free_slices = [instance for instance in gpu.slices if instance not in (*held_slices, *leaving)]
    return pictures.states_of(held=held_slices, leaving=leaving, free=free_slices)


def _layout(ctx: click.Context, gpus: Sequence[GpuState], text: str) -> dict[str, Any]:
    try:
        boards = {gpu.board.key: read_slices(gpu.board, text) for gpu in gpus}
    except SpecError as err:
        raise click.BadParameter(str(err), ctx, param_hint="--layout") from err
    cost = pools.cost(gpus, boards)
    return {
        "slices": text,
        "as_it_is": cost.unchanged,
        "destroy": cost.destroyed,
        "create": cost.created,
        "pods": sorted(cost.pods),
        "impossible": dict(cost.impossible),
    }


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield f"{count_of(document['gpus'], 'GPU')}, {document['divided']} divided"
    yield f"Fragmentation: {document['fragmentation']:.3f}"
    if document["room"]:
        yield f"{'Profile':<14}{'Room now':>10}{'If packed':>11}"
        for name, profile_room in document["room"].items():
            yield f"{name:<14}{profile_room['now']:>10}{profile_room['packed']:>11}"
    for advice in document["advice"]:
        yield from _advice_lines(advice)
    if "layout" in document:
        yield from _cost(document["layout"])


def _advice_lines(advice: Mapping[str, Any]) -> Iterator[str]:
    requested_slices = f"{advice['wanted']}x{advice['profile']}"
    if advice["now"] >= advice["wanted"]:
        yield f"{requested_slices}: there is room for {advice['now']}, nothing has to move"
        return
    short = "" if advice["possible"] else "; that is not enough, and nothing more helps"
    yield f"{requested_slices}: room for {advice['now']} now; what makes more{short}:"
    for move in advice["moves"]:
        verb = "move" if move["to"] else "end"
        for number, slice_move in enumerate(move["slices"]):
            pods = ", ".join(slice_move["pods"])
            to = f" to {move['to'][number]}" if move["to"] else ""
            yield f"  {verb} {pods} ({slice_move['slice']} of {move['gpu']}){to}"


def _cost(layout: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"{layout['slices']} on every GPU: {count_of(layout['as_it_is'], 'is', 'are')} so already;"
        f" {count_of(layout['destroy'], 'slice')} to destroy, {layout['create']} to create,"
        f" {count_of(len(layout['pods']), 'pod')} in the way"
    )
    pods = layout["pods"]
    if pods:
        suffix = f" and {len(pods) - _MOST_PODS} more" if len(pods) > _MOST_PODS else ""
        yield f"  {', '.join(pods[:_MOST_PODS])}{suffix}"
    for board, why in layout["impossible"].items():
        yield f"  not on {board}: {' '.join(why.split())}"
