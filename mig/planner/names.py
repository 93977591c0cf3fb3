"""Placed devices by name, for objects and protocols."""

from mig.geometry import Instance
from mig.spec import Place


def place_of(instance: Instance) -> Place:
    """Return the place of an instance by names, which are the arguments of ``Board.instance``."""
    return Place(instance.device.name, instance.start, instance.compute_start)
