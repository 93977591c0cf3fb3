"""A slice for tests of gpud to which it does not matter which slice it is."""

from mig.geometry import board
from vgpu_sim.gpud.model import Gpu, MigInstance, new_gpu_uuid, new_instance_uuid


def make() -> MigInstance:
    """Return a 1g.6gb of an A30, with new UUIDs."""
    gpu = Gpu(new_gpu_uuid(), 0, "a30")
    return MigInstance(new_instance_uuid(), gpu, board("a30").profile("1g.6gb"), 0, 0)
