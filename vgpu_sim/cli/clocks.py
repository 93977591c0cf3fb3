"""The ``--clock`` option, and which boards and slices support the modelled clock."""

import click

from mig.geometry import Board, DeviceProfile
from vgpu_sim.hal.observe.modelled_report import CLOCKS, MODELLED, WALL
from vgpu_sim.perf.errors import PerfError

clock_option = click.option(
    "--clock",
    type=click.Choice(CLOCKS),
    default=WALL,
    show_default=True,
    help="What CUDA events measure: this machine's time, or the board's time as modelled. The model"
    " samples each kernel, which makes launches start more slowly.",
)


def check_modelled(board: Board, device: DeviceProfile, clock: str) -> None:
    """Check before a daemon starts that ``clock`` can be modelled on this board and slice. Raises
    click.BadParameter.
    """
    if clock != MODELLED:
        return
    from vgpu_sim.perf.kernels import chip_of

    whole = board.placement_units
    units = whole if device.profile.is_whole else device.profile.size
    try:
        chip_of(board.key, device.sm_count, (units, whole))
    except PerfError as err:
        raise click.BadParameter(f"modelled: {err}", param_hint="--clock") from err
