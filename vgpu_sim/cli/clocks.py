"""The ``--clock`` option, and what a modelled clock asks of a board and a slice of it."""

import click

from mig.geometry import Board, DeviceProfile
from vgpu_sim.hal.observe.modelled import CLOCKS, MODELLED, WALL
from vgpu_sim.perf.errors import PerfError

clock_option = click.option(
    "--clock",
    type=click.Choice(CLOCKS),
    default=WALL,
    show_default=True,
    help="What events measure: this machine's time, or the board's as modelled, which samples each"
    " kernel and so starts more slowly.",
)


def check_modelled(board: Board, device: DeviceProfile, clock: str) -> None:
    """Refuse what cannot be modelled before anything is started. Raises click.BadParameter."""
    if clock != MODELLED:
        return
    from vgpu_sim.perf.kernels import chip_of

    whole = board.placement_units
    units = whole if device.profile.is_whole else device.profile.size
    try:
        chip_of(board.key, device.sm_count, (units, whole))
    except PerfError as err:
        raise click.BadParameter(f"modelled: {err}", param_hint="--clock") from err
