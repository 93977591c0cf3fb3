"""``tessera mig plan --from --to``: the fewest changes between two layouts, with the proof."""

import json
from collections.abc import Iterator

import click

from mig import planner, spec
from mig.errors import IllegalLayoutError, InUseError, MigError, PlanError, SpecError
from mig.geometry import Board, DeviceProfile, Instance
from vgpu_sim.cli import pictures as options
from vgpu_sim.cli.errors import FAILED, report
from vgpu_sim.cli.mig import pictures

_MOST_CONFLICTS = 8  # most conflicts printed


def command(
    ctx: click.Context,
    board: Board,
    present_layout: str,
    target_layout: str,
    pin: str,
    as_json: bool,
) -> None:
    """Print the fewest changes from ``present_layout`` to ``target_layout``.

    If ``target_layout`` cannot be reached, print why and exit with status 1.
    """
    have = _parse_placed(ctx, board, present_layout, "--from")
    pinned = _parse_placed(ctx, board, pin, "--pin")
    try:
        requested_slices = read_slices(board, target_layout)
    except SpecError as err:
        raise click.BadParameter(str(err), ctx, param_hint="--to") from err
    try:
        changes = planner.relayout(board, have, requested_slices, pinned)
    except (PlanError, InUseError) as err:
        if as_json:
            click.echo(json.dumps({"board": board.key, "possible": False, "why": str(err)}))
        else:
            report(str(err))
        ctx.exit(FAILED)
    except IllegalLayoutError as err:
        raise click.UsageError(str(err), ctx) from err
    except MigError as err:
        raise click.BadParameter(str(err), ctx, param_hint="--pin") from err
    moments = (
        pictures.moment(
            board, "before", pictures.states_of(held=changes.keep, leaving=changes.destroy)
        ),
        pictures.moment(
            board, "after", pictures.states_of(held=changes.keep, coming=changes.create)
        ),
    )
    options.write_files(f"{board.key} to {target_layout}", lambda: pictures.figures_of(moments))
    if options.current().takes_stdout:
        return
    if as_json:
        click.echo(json.dumps(_document(board, changes)))
    else:
        click.echo("\n".join(_lines(board, have, changes, pinned)))
        pictures.print_moments(moments)


def read_slices(board: Board, text: str) -> tuple[Instance | DeviceProfile, ...]:
    """Parse a list of slices with or without placements, such as 3g.40gb@4,2x1c.2g.20gb. Raises
    SpecError.
    """
    slices: list[Instance | DeviceProfile] = []
    for part in filter(None, (word.strip() for word in text.split(","))):
        read = spec.parse_instances if "@" in part else spec.parse_requests
        slices += read(board, part)
    return tuple(slices)


def _parse_placed(ctx: click.Context, board: Board, text: str, hint: str) -> tuple[Instance, ...]:
    try:
        return tuple(spec.parse_instances(board, text))
    except SpecError as err:
        raise click.BadParameter(str(err), ctx, param_hint=hint) from err


def _lines(
    board: Board,
    have: tuple[Instance, ...],
    changes: planner.Relayout,
    pinned: tuple[Instance, ...],
) -> Iterator[str]:
    rows = [
        *(("keep", i, "pinned" if i in pinned else "") for i in changes.keep),
        *(("destroy", i, "") for i in changes.destroy),
        *(("create", i, "") for i in changes.create),
    ]
    yield "Step     Instance"
    yield from (f"{step:<8} {instance!s:<12} {note}".rstrip() for step, instance, note in rows)
    yield f"{len(changes.destroy)} to destroy, {len(changes.create)} to create."
    yield from _proof(board, have, changes)


def _proof(board: Board, have: tuple[Instance, ...], changes: planner.Relayout) -> Iterator[str]:
    proof = changes.proof
    if not proof.bound:
        yield "Nothing has to go: fewer is impossible."
        return
    yield f"Fewer than {proof.bound} is impossible:"
    for profile, surplus_count in proof.surplus:
        yield f"  {surplus_count} of {profile.name} are more than wanted: as many have to go"
    for conflict in proof.conflicts[:_MOST_CONFLICTS]:
        names = ", ".join(map(str, conflict))
        if len(conflict) == 1:
            yield f"  {names} cannot stay: beside it there is no room for the rest"
        else:
            yield f"  of {names} one has to go: beside all of them there is no room for the rest"
    unlisted_count = len(proof.conflicts) - _MOST_CONFLICTS
    if unlisted_count > 0:
        yield f"  and of {unlisted_count} more such sets one each"
    yield (
        f"  all {proof.ways} ways to place what is wanted on {board.key} were looked at: none has"
        f" more than {len(have) - proof.bound} of these {len(have)}"
    )


def _document(board: Board, changes: planner.Relayout) -> dict[str, object]:
    return {
        "board": board.key,
        "possible": True,
        "keep": list(map(str, changes.keep)),
        "destroy": list(map(str, changes.destroy)),
        "create": list(map(str, changes.create)),
        "lower_bound": changes.proof.bound,
        "surplus": {
            profile.name: surplus_count for profile, surplus_count in changes.proof.surplus
        },
        "conflicts": [list(map(str, conflict)) for conflict in changes.proof.conflicts],
        "ways": changes.proof.ways,
    }
