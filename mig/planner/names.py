"""Placed devices by name, for objects and protocols."""

from mig.geometry import Instance
from mig.spec import Place


def place_of(instance: Instance) -> Place:
    """Return an instance's place: its device name and starts, which ``Board.instance`` takes."""
    return Place(instance.device.name, instance.start, instance.compute_start)
