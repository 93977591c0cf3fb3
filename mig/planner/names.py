"""Placed devices by names, as objects and protocols carry them."""

from mig.geometry import Instance
from mig.spec import Place


def place_of(instance: Instance) -> Place:
    """Return an instance by names; ``Board.instance`` takes them."""
    return Place(instance.device.name, instance.start, instance.compute_start)
