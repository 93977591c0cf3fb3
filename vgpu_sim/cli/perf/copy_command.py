"""``tessera perf predict copy`` predicts copies on a board, or between devices of a node, also
several at once.
"""

import click

from vgpu_sim.cli import topologies
from vgpu_sim.cli.perf.answers import print_prediction, with_json
from vgpu_sim.cli.perf.group import board_option, bytes_option
from vgpu_sim.cli.perf.predict import add_to_compare
from vgpu_sim.perf.prediction import Prediction
from vgpu_sim.perf.topology import FLAT


def _pair(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> list[tuple[str, str]]:
    pairs = []
    for value in values:
        source, colon, target = value.partition(":")
        if not (source and colon and target):
            raise click.BadParameter(f"{value!r} is not of the form gpu1:gpu3")
        pairs.append((source, target))
    return pairs


@click.command(help="A copy on the board, from or to the host, or between devices of a node.")
@board_option
@click.option(
    "--direction",
    type=click.Choice(["d2d", "h2d", "d2h"]),
    help="On the board (default), or from or to pinned memory.",
)
@bytes_option("Size of each copy")
@click.option(
    "--from",
    "source",
    metavar="PLACE",
    help="Source: gpu0, numa1 (its memory), hca0, wire0 (the network behind hca0), nvme0 or cxl0"
    " of the"
    " topology.",
)
@click.option("--to", "target", metavar="PLACE", help="Destination, in the same form.")
@click.option(
    "--with",
    "concurrent_copies",
    multiple=True,
    callback=_pair,
    metavar="PLACE:PLACE",
    help="Another copy of the same size that begins at the same time; may be repeated.",
)
@topologies.between
@with_json
def copy(
    board: str,
    direction: str | None,
    size: int,
    source: str | None,
    target: str | None,
    concurrent_copies: list[tuple[str, str]],
    topology: str | None,
    as_json: bool,
) -> None:
    """Predict a copy."""
    if source is None and target is None:
        if concurrent_copies or topology is not None:
            raise click.UsageError("--with and --topology need --from and --to")
        copy_direction = direction or "d2d"
        print_prediction(
            board,
            lambda name: _on_board(name, copy_direction, size),
            f"copy of {size} bytes, {copy_direction}",
            as_json,
        )
        return
    if source is None or target is None or direction is not None:
        raise click.UsageError("give --from and --to together, without --direction")
    ends = [(source, target), *concurrent_copies]
    node = topology or FLAT
    beside = f" and {len(concurrent_copies)} more" if concurrent_copies else ""
    title = f"copy of {size} bytes, {source} to {target}{beside}, in {node}"
    print_prediction(board, lambda name: _between(name, node, ends, size), title, as_json)


def _on_board(board: str, direction: str, size: int) -> Prediction:
    from vgpu_sim.perf.stream.predict import copy as ask

    return ask(board, direction, size)


def _between(board: str, topology: str, ends: list[tuple[str, str]], size: int) -> Prediction:
    from vgpu_sim.perf.stream.between import predict as ask

    return ask(board, topology, ends, size)


add_to_compare(copy)
