"""``tessera mig``: boards, profiles, placements, the state space and plans, as tables or JSON.

The exit status is 0 on success, 1 if the plan is impossible (the reason is printed), and 2 if
the input is invalid.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from mig import geometry, planner, spec
from mig.errors import IllegalLayoutError, PlanError, SpecError
from mig.geometry import Board, Instance, Profile
from mig.planner.census import classic_profiles
from vgpu_sim.cli import boards
from vgpu_sim.cli.mig import advise, relayout

_CANNOT = 1


def _complete_list(ctx: click.Context, incomplete: str, *, placed: bool) -> list[CompletionItem]:
    """Complete the last item of a comma-separated list, for the given board or for all boards."""
    before, comma, last = incomplete.rpartition(",")
    words: dict[str, None] = {}
    for profile in (profile for board in boards.select_boards(ctx) for profile in board.profiles):
        if placed:
            words.update((str(Instance(profile, start)), None) for start in profile.starts)
        else:
            words[profile.name] = None
    return [CompletionItem(before + comma + word) for word in words if word.startswith(last)]


def _complete_placed(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return _complete_list(ctx, incomplete, placed=True)


def _complete_requests(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return _complete_list(ctx, incomplete, placed=False)


_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def command() -> None:
    """Show MIG geometry and plan slices; needs no GPU and no cluster."""


command.add_command(advise.advise)


@command.command(name="boards")
@_json_option
def list_boards(as_json: bool) -> None:
    """List the boards."""
    known = geometry.BOARDS.values()
    if as_json:
        _echo_json([_board_json(board) for board in known])
        return
    _echo_table(
        ("Board", "Product", "Arch", "CC", "PCI ID", "Memory GiB", "SMs", "Units", "Slices"),
        [
            (
                board.key,
                board.product_name,
                board.architecture,
                ".".join(map(str, board.compute_capability)),
                f"{board.pci_device_id:04X}",
                _gib(board.memory_bytes),
                board.sm_count,
                board.placement_units,
                board.compute_slices,
            )
            for board in known
        ],
    )


@command.command()
@boards.option
@_json_option
def profiles(board: Board, as_json: bool) -> None:
    """List a board's GPU instance profiles, as `nvidia-smi mig -lgip` does."""
    if as_json:
        _echo_json([_profile_json(profile) for profile in board.profiles])
        return
    heads = (
        "Profile",
        "ID",
        "Max",
        "Memory GiB",
        "SMs",
        "CE",
        "DEC",
        "ENC",
        "JPG",
        "OFA",
        "Source",
    )
    rows = [
        (
            profile.name,
            profile.driver_id,
            profile.max_count,
            _gib(profile.memory_bytes),
            profile.sm_count,
            *profile.engines.counts(),
            _source(profile),
        )
        for profile in board.profiles
    ]
    _echo_table(heads, rows)
    for profile in board.profiles:
        if profile.note:
            click.echo(f"{profile.name}: {profile.note}")


@command.command()
@boards.option
@_json_option
def placements(board: Board, as_json: bool) -> None:
    """List where each profile can be placed, as `nvidia-smi mig -lgipp` does."""
    if as_json:
        _echo_json(
            [
                {"name": p.name, "id": p.driver_id, "starts": p.starts, "size": p.size}
                for p in board.profiles
            ]
        )
        return
    rows = [
        (p.name, p.driver_id, f"{{{','.join(map(str, p.starts))}}}:{p.size}", _source(p))
        for p in board.profiles
    ]
    _echo_table(("Profile", "ID", "Placements", "Source"), rows)


@command.command()
@boards.option
@click.option(
    "--maximal", is_flag=True, help="List only the states to which no instance can be added."
)
@_json_option
def states(board: Board, maximal: bool, as_json: bool) -> None:
    """Count the legal states of a board's plain profiles.

    The row "classic" counts the states without the profile that has one slice and double memory.
    """
    if maximal:
        layouts = [[str(instance) for instance in s] for s in planner.maximal_states(board)]
        if as_json:
            _echo_json(layouts)
        else:
            click.echo("\n".join(",".join(layout) for layout in layouts))
        return
    plain = planner.census(board)
    classic = planner.census(board, classic_profiles(board))
    if as_json:
        _echo_json({**_census_json(plain), "classic": _census_json(classic)})
        return
    _echo_table(
        ("Profiles", "States", "Maximal", "Multisets"),
        [
            ("plain", plain.states, plain.maximal, plain.multisets),
            ("classic", classic.states, classic.maximal, classic.multisets),
        ],
    )


@command.command()
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
    "before",
    default=None,
    metavar="INSTANCES",
    shell_complete=_complete_placed,
    help="All slices that the GPU has now.",
)
@click.option(
    "--to",
    "after",
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
@_json_option
@click.pass_context
def plan(
    ctx: click.Context,
    board: Board,
    have: str,
    want: str | None,
    before: str | None,
    after: str | None,
    pin: str,
    as_json: bool,
) -> None:
    """Place slices next to those in use, or report why that is impossible.

    With --from and --to: print the fewest changes from one layout to the other, and why fewer
    changes are not enough.
    """
    if before is not None or after is not None:
        if before is None or after is None or have or want is not None:
            raise click.UsageError("give --from and --to together, without --have and --want", ctx)
        relayout.command(ctx, board, before, after, pin, as_json)
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
        wanted = spec.parse_requests(board, want)
    except SpecError as err:
        raise click.BadParameter(str(err), ctx, param_hint="--want") from err
    if not wanted:
        raise click.BadParameter("the list of slices is empty", ctx, param_hint="--want")
    try:
        made = planner.plan(board, in_use, wanted)
    except IllegalLayoutError as err:
        raise click.BadParameter(str(err), ctx, param_hint="--have") from err
    except PlanError as err:
        if as_json:
            _echo_json(_refusal_json(board, err))
        else:
            click.echo(err, err=True)
        ctx.exit(_CANNOT)
    if as_json:
        _echo_json(_plan_json(made))
    else:
        _echo_plan(made)


def _echo_plan(made: planner.Plan) -> None:
    placed = set(made.placed)
    rows = [
        (
            str(instance),
            "-" if instance.profile.is_whole else instance.profile.driver_id,
            instance.start,
            instance.profile.size,
            "new" if instance in placed else "in use",
        )
        for instance in made.layout
    ]
    _echo_table(("Instance", "ID", "Start", "Size", "State"), rows)
    largest = made.headroom.largest
    if largest is None:
        click.echo("No profile fits beside these.")
    else:
        click.echo(f"Largest profile that still fits: {largest.name}")


def _board_json(board: Board) -> dict[str, Any]:
    return {
        "key": board.key,
        "product": board.product_name,
        "architecture": board.architecture,
        "compute_capability": ".".join(map(str, board.compute_capability)),
        "pci_device_id": f"0x{board.pci_device_id:04X}",
        "memory_bytes": board.memory_bytes,
        "memory_source": board.memory_provenance,
        "sms": board.sm_count,
        "placement_units": board.placement_units,
        "compute_slices": board.compute_slices,
        "profiles": [profile.name for profile in board.profiles],
    }


def _profile_json(profile: Profile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "aliases": profile.aliases,
        "resource": profile.resource_name,
        "id": profile.driver_id,
        "nvml": profile.nvml_gi_enum,
        "max": profile.max_count,
        "compute_slices": profile.compute_slices,
        "size": profile.size,
        "starts": profile.starts,
        "memory_bytes": profile.memory_bytes,
        "other_memory_bytes": profile.other_memory_bytes,
        "sms": profile.sm_count,
        "engines": dict(
            zip(
                ("copy", "decoder", "encoder", "jpeg", "ofa"), profile.engines.counts(), strict=True
            )
        ),
        "source": profile.provenance,
        "derived": profile.derived_fields,
        "note": profile.note,
        "compute_instances": [
            {
                "name": ci.name,
                "id": ci.driver_id,
                "max": ci.max_count,
                "starts": ci.starts,
                "sms": ci.sm_count,
                "source": ci.provenance,
            }
            for ci in profile.ci_profiles
        ],
    }


def _census_json(census: planner.Census) -> dict[str, int]:
    return {
        "states": census.states,
        "maximal": census.maximal,
        "multisets": census.multisets,
    }


def _plan_json(made: planner.Plan) -> dict[str, Any]:
    largest = made.headroom.largest
    return {
        "board": made.board.key,
        "have": [str(instance) for instance in made.have],
        "placed": [str(instance) for instance in made.placed],
        "layout": [str(instance) for instance in made.layout],
        "largest_free": largest.name if largest is not None else None,
        "states_left": made.headroom.states,
    }


def _refusal_json(board: Board, err: PlanError) -> dict[str, Any]:
    return {
        "board": board.key,
        "error": err.summary,
        "obstacles": [{"kind": o.kind, "message": o.message} for o in err.obstacles],
        "moves": [{"from": move.source, "to": move.target} for move in err.moves],
        "evictions": err.evictions,
    }


def _source(profile: Profile) -> str:
    if not profile.derived_fields:
        return str(profile.provenance)
    return f"{profile.provenance}; derived: {', '.join(profile.derived_fields)}"


def _gib(count_bytes: int) -> str:
    return f"{count_bytes / geometry.GIB:.2f}"


def _echo_json(value: object) -> None:
    click.echo(json.dumps(value))


def _echo_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table whose columns are separated by two spaces; numbers are right-aligned, text is
    left-aligned.
    """
    cells = [tuple(map(str, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    numeric = [
        all(cell.replace(".", "", 1).isdigit() for cell in column)
        for column in zip(*cells, strict=True)
    ]
    for row in (tuple(heads), *cells):
        line = "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        click.echo(line.rstrip())
