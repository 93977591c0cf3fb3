"""Placed devices by name, for objects and protocols."""

from mig.geometry import Instance
from mig.spec import Place


def place_of(instance: Instance) -> Place:
    """Return an instance's place, which consists of the arguments of ``Board.instance``.

    These are the name of the device's profile and the starts of the device.
    """
    return Place(instance.device.name, instance.start, instance.compute_start)
