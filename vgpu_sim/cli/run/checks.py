"""Checks of the options of ``tessera run`` against the chosen board."""

import click

from mig.errors import MigError
from mig.geometry import Board, DeviceProfile


def find_device(chosen: Board, name: str) -> DeviceProfile:
    """Return a device profile of a board. Raises click.BadParameter."""
    try:
        return chosen.device_profile(name)
    except MigError as err:
        raise click.BadParameter(str(err), param_hint="--slice") from err


def check_capability(chosen: Board, capability: tuple[int, int] | None) -> None:
    """Check that a capability is not above the board's. Raises click.BadParameter."""
    own = chosen.compute_capability
    if capability is not None and capability > own:
        raise click.BadParameter(
            f"{chosen.key} has compute capability {own[0]}.{own[1]}; --cc can only lower it",
            param_hint="--cc",
        )
