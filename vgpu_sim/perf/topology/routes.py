"""The links of a node with a board's rates, and the way that a transfer takes over them.

Capacities are bytes a microsecond and direction. Rates: the board's data sheet for NVLink and PCIe;
between NUMA nodes three links of 16 GT/s, 20 lanes each, as two-socket Xeon servers have (UPI).
"""

from collections.abc import Hashable
from itertools import pairwise
from typing import Final

from vgpu_sim.perf.boards import Board
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.topology.fairness import Path
from vgpu_sim.perf.topology.places import Place, Topology

_SOCKETS_GB_PER_S: Final = 3 * 16 * 20 / 8
_HCA_GB_PER_S: Final = 50.0  # 400 Gbit/s

End = str  # "gpu0", "hca1", "numa0"


class Routes:
    """A topology whose GPUs are all of one board."""

    def __init__(self, topology: Topology, board: Board) -> None:
        self._topology = topology
        self._architecture = board.architecture.split()[0]
        self._linked = topology.links_between(self._architecture) > 0 and board.has_nvlink
        self.capacity: dict[Hashable, float] = {}
        pcie, link = board.pcie_gb_per_s.value * 1e3, board.link_gb_per_s.value * 1e3
        for i, place in enumerate(topology.gpus):
            self._join(self._up(f"gpu{i}", place), pcie)
            for j in range(len(topology.gpus)) if self._linked else ():
                if topology.switched:
                    self._join([f"gpu{i}", "nvswitch"], link)
                elif i < j:
                    self._join([f"gpu{i}", f"gpu{j}"], link / (len(topology.gpus) - 1))
        for i, place in enumerate(topology.hcas):
            self._join(self._up(f"hca{i}", place), pcie)
            self._join([f"hca{i}", f"wire{i}"], _HCA_GB_PER_S * 1e3)
        for a in range(topology.numa_nodes):
            for b in range(a):
                self._join([f"numa{a}", f"numa{b}"], _SOCKETS_GB_PER_S * 1e3)

    def path(self, source: End, target: End) -> Path:
        """Return the directed links from one end to another. Raises BadShape for an unknown end."""
        if source == target:
            return []
        if self._linked and source.startswith("gpu") and target.startswith("gpu"):
            self._place(source), self._place(target)
            middle = ["nvswitch"] if self._topology.switched else []
            return _steps([source, *middle, target])
        up, down = self._to_root(source), self._to_root(target)
        while len(up) > 1 and len(down) > 1 and up[-2] == down[-2]:
            up, down = up[:-1], down[:-1]  # they meet below the root: at a switch, say
        joined = up + (down[-2::-1] if up[-1] == down[-1] else down[::-1])
        return _steps(joined)

    def _to_root(self, end: End) -> list[str]:
        if end.startswith("wire"):
            return [end, *self._to_root(f"hca{end.removeprefix('wire')}")]
        if end.startswith("numa"):
            if end not in {f"numa{i}" for i in range(self._topology.numa_nodes)}:
                raise BadShape(f"{self._topology.name} has no {end}")
            return [end]
        return self._up(end, self._place(end))

    def _place(self, end: End) -> Place:
        kind, number = end[:3], end[3:]
        places = {"gpu": self._topology.gpus, "hca": self._topology.hcas}.get(kind, ())
        if not number.isdecimal() or int(number) >= len(places):
            raise BadShape(f"{self._topology.name} has no {end}")
        return places[int(number)]

    @staticmethod
    def _up(end: End, place: Place) -> list[str]:
        return [end, f"switch{place.switch}", f"bridge{place.bridge}", f"numa{place.numa}"]

    def _join(self, chain: list[str], rate: float) -> None:
        for step in (*_steps(chain), *_steps(chain[::-1])):
            self.capacity[step] = rate


def _steps(chain: list[str]) -> list[tuple[str, str]]:
    return list(pairwise(chain))
