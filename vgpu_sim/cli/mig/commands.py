"""``tessera mig``: boards, profiles, placements, the state space and plans, as tables or JSON.

The exit status is 0 on success, 1 if the plan is impossible (the reason is printed), and 2 if
the input is invalid.
"""

from typing import Any

import click

from mig import geometry, planner
from mig.geometry import Board, Profile
from mig.planner.census import classic_profiles
from vgpu_sim.cli import boards
from vgpu_sim.cli.groups import VerbGroup
from vgpu_sim.cli.mig import advise, plan
from vgpu_sim.cli.mig.tables import echo_json, echo_table, json_option


@click.group(cls=VerbGroup)
def command() -> None:
    """Show MIG geometry and plan slices; needs no GPU and no cluster."""


command.add_command(advise.advise)
command.add_command(plan.plan)


@command.command(name="boards")
@json_option
def list_boards(as_json: bool) -> None:
    """List the boards."""
    all_boards = geometry.BOARDS.values()
    if as_json:
        echo_json([_board_json(board) for board in all_boards])
        return
    echo_table(
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
            for board in all_boards
        ],
    )


@command.command()
@boards.option
@json_option
def profiles(board: Board, as_json: bool) -> None:
    """List a board's GPU instance profiles, as `nvidia-smi mig -lgip` does."""
    if as_json:
        echo_json([_profile_json(profile) for profile in board.profiles])
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
    echo_table(heads, rows)
    for profile in board.profiles:
        if profile.note:
            click.echo(f"{profile.name}: {profile.note}")


@command.command()
@boards.option
@json_option
def placements(board: Board, as_json: bool) -> None:
    """List where each profile can be placed, as `nvidia-smi mig -lgipp` does."""
    if as_json:
        echo_json(
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
    echo_table(("Profile", "ID", "Placements", "Source"), rows)


@command.command()
@boards.option
@click.option(
    "--maximal", is_flag=True, help="List only the states to which no instance can be added."
)
@json_option
def states(board: Board, maximal: bool, as_json: bool) -> None:
    """Count the legal states of a board's plain profiles.

    The row "classic" counts the states without the profile that has one slice and double memory.
    """
    if maximal:
        layouts = [[str(instance) for instance in s] for s in planner.maximal_states(board)]
        if as_json:
            echo_json(layouts)
        else:
            click.echo("\n".join(",".join(layout) for layout in layouts))
        return
    plain = planner.census(board)
    classic = planner.census(board, classic_profiles(board))
    if as_json:
        echo_json({**_census_json(plain), "classic": _census_json(classic)})
        return
    echo_table(
        ("Profiles", "States", "Maximal", "Multisets"),
        [
            ("plain", plain.states, plain.maximal, plain.multisets),
            ("classic", classic.states, classic.maximal, classic.multisets),
        ],
    )


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


def _source(profile: Profile) -> str:
    if not profile.derived_fields:
        return str(profile.provenance)
    return f"{profile.provenance}; derived: {', '.join(profile.derived_fields)}"


def _gib(count_bytes: int) -> str:
    return f"{count_bytes / geometry.GIB:.2f}"
