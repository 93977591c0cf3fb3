"""The objects of one client: what it asked for, checked, and given to the engine.

A client is hostile: every number is looked up or bounded before it is used, and whatever it has is
removed with it. A refusal is an ``OSError`` whose errno the client's verb answers. Each kind of
object has a module of its own.
"""

from vgpu_sim.hcad.groups import Groups
from vgpu_sim.hcad.paths import Paths
from vgpu_sim.hcad.regions import Regions
from vgpu_sim.hcad.windows import Windows


class Objects(Groups, Paths, Regions, Windows):
    """A client's objects in the engine, until ``close``."""

    def close(self) -> None:
        """Remove everything that the client has."""
        for number in list(self._qps):
            self.destroy_qp(number)
        for handle in list(self._srqs):
            self.destroy_srq(handle)
        for key in list(self._paths):
            self.destroy_ah(key)
        for key in list(self._windows):
            self.destroy_window(key)
        for key in list(self._regions):
            self.destroy_region(key)
        for handle in list(self._segments):
            self.destroy_segment(handle)
        for handle in list(self._cqs):
            self.destroy_cq(handle)
        for handle in list(self._channels):
            self.destroy_channel(handle)
        self.leave()
