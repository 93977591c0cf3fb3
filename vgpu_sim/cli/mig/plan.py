"""``tessera mig plan``: places slices beside those in use, or changes one layout to another."""

from typing import Any

import click
from click.shell_completion import CompletionItem

from mig import planner, spec
from mig.errors import IllegalLayoutError, PlanError, SpecError
from mig.geometry import Board, Instance
from vgpu_sim.cli import boards, pictures as options
from vgpu_sim.cli.errors import FAILED, report
from vgpu_sim.cli.mig import pictures, relayout
from vgpu_sim.cli.mig.tables import echo_json, echo_table, json_option


def _complete_list(ctx: click.Context, incomplete: str, *, placed: bool) -> list[CompletionItem]:
    """Complete the last item of a comma-separated list, for the given board or for all boards."""
    prefix, comma, last = incomplete.rpartition(",")
    words: dict[str, None] = {}
    for profile in (profile for board in boards.select_boards(ctx) for profile in board.profiles):
        if placed:
            words.update((str(Instance(profile, start)), None) for start in profile.starts)
        else:
            words[profile.name] = None
    return [CompletionItem(prefix + comma + word) for word in words if word.startswith(last)]


def _complete_placed(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return _complete_list(ctx, incomplete, placed=True)


def _complete_requests(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return _complete_list(ctx, incomplete, placed=False)


@click.command()
@boards.option
@click.option(
    "--have",
    default="",
    metavar="INSTANCES",
    shell_complete=_complete_placed,
    help="Slices in use, which keep their places: 3g.40gb@4,1g.10gb@0.",
)
@click.option(
    "--want",
    default=None,
    metavar="REQUESTS",
    shell_complete=_complete_requests,
    help="Slices to place: 2x2g.20gb,1g.10gb.",
)
@click.option(
    "--from",
    "present_layout",
    default=None,
    metavar="INSTANCES",
    shell_complete=_complete_placed,
    help="All slices that the GPU has now.",
)
@click.option(
    "--to",
    "target_layout",
    default=None,
    metavar="SLICES",
    shell_complete=_complete_requests,
    help="All slices that the GPU should have, with or without places: 3g.40gb@4,2x1g.10gb.",
)
@click.option(
    "--pin",
    default="",
    metavar="INSTANCES",
    shell_complete=_complete_placed,
    help="Slices of --from that must keep their places.",
)
@json_option
@options.with_pictures
@click.pass_context
def plan(
    ctx: click.Context,
    board: Board,
    have: str,
    want: str | None,
    present_layout: str | None,
    target_layout: str | None,
    pin: str,
    as_json: bool,
) -> None:
    """Place slices next to those in use, or report why that is impossible.

    With --from and --to: print the fewest changes from one layout to the other, and why fewer
    changes are not enough.
    """
    if present_layout is not None or target_layout is not None:
        if present_layout is None or target_layout is None or have or want is not None:
            raise click.UsageError("give --from and --to together, without --have and --want", ctx)
        relayout.command(ctx, board, present_layout, target_layout, pin, as_json)
        return
    if pin:
        raise click.UsageError("--pin needs --from and --to", ctx)
    if want is None:
        raise click.UsageError("Missing option '--want'.", ctx)
    try:
        in_use = spec.parse_instances(board, have)
    except SpecError as err:
        raise click.BadParameter(str(err), ctx, param_hint="--have") from err
    try:
        requested_slices = spec.parse_requests(board, want)
    except SpecError as err:
        raise click.BadParameter(str(err), ctx, param_hint="--want") from err
    if not requested_slices:
        raise click.BadParameter("the list of slices is empty", ctx, param_hint="--want")
    try:
        placement = planner.plan(board, in_use, requested_slices)
    except IllegalLayoutError as err:
        raise click.BadParameter(str(err), ctx, param_hint="--have") from err
    except PlanError as err:
        if as_json:
            echo_json(_refusal_json(board, err))
        else:
            report(str(err))
        ctx.exit(FAILED)
    _answer(placement, f"{want} on {board.key}", as_json=as_json)


def _answer(placement: planner.Plan, title: str, *, as_json: bool) -> None:
    states = pictures.states_of(held=placement.have, coming=placement.placed)
    moments = (
        pictures.moment(placement.board, "before", pictures.states_of(held=placement.have)),
        pictures.moment(placement.board, "after", states),
    )
    options.write_files(title, lambda: pictures.figures_of(moments))
    if options.current().takes_stdout:
        return
    if as_json:
        echo_json(_plan_json(placement))
    else:
        _echo_plan(placement)
        pictures.print_moments(moments)


def _echo_plan(placement: planner.Plan) -> None:
    placed = set(placement.placed)
    rows = [
        (
            str(instance),
            "-" if instance.profile.is_whole else instance.profile.driver_id,
            instance.start,
            instance.profile.size,
            "new" if instance in placed else "in use",
        )
        for instance in placement.layout
    ]
    echo_table(("Instance", "ID", "Start", "Size", "State"), rows)
    largest = placement.headroom.largest
    if largest is None:
        click.echo("No profile fits beside these.")
    else:
        click.echo(f"Largest profile that still fits: {largest.name}")


def _plan_json(placement: planner.Plan) -> dict[str, Any]:
    largest = placement.headroom.largest
    return {
        "board": placement.board.key,
        "have": [str(instance) for instance in placement.have],
        "placed": [str(instance) for instance in placement.placed],
        "layout": [str(instance) for instance in placement.layout],
        "largest_free": largest.name if largest is not None else None,
        "states_left": placement.headroom.states,
    }


def _refusal_json(board: Board, err: PlanError) -> dict[str, Any]:
    return {
        "board": board.key,
        "error": err.summary,
        "obstacles": [{"kind": o.kind, "message": o.message} for o in err.obstacles],
        "moves": [{"from": move.source, "to": move.target} for move in err.moves],
        "evictions": err.evictions,
    }
