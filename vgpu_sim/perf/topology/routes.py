"""The links of a node with a board's rates, and the route of a transfer over them.

Capacities are in bytes per microsecond for each direction, headers included. The rates of PCIe
and of all NVLinks of a board are from its data sheet. A description with fewer NVLinks uses the
architecture's rate per link (white papers: 25 GB/s in one direction for NVLink 3 and 4, 50 GB/s
for NVLink 5). NUMA nodes are connected by three links of 16 GT/s with 20 lanes each, as in
two-socket Xeon servers (UPI). Drives have four lanes of PCIe 4.0. A host bridge has a root port
for each switch below it, so its path to the memory has the sum of their rates.
"""

import re
from collections import defaultdict
from collections.abc import Hashable
from itertools import pairwise
from typing import Final

from vgpu_sim.perf.boards import Board
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.topology.places import Place, Topology

_SOCKETS_GB_PER_S: Final = 3 * 16 * 20 / 8
_HCA_GB_PER_S: Final = 50.0  # 400 Gbit/s
_NVME_GB_PER_S: Final = 4 * 16 * 128 / 130 / 8
_NVLINK_GB_PER_S: Final = {"Ampere": 25.0, "Hopper": 25.0, "Blackwell": 50.0}
_END: Final = re.compile(r"([a-z]+)(0|[1-9]\d?)", re.ASCII)

End = (
    str  # "gpu0", "hca1", "wire1" (the network behind hca1), "nvme0", "numa0" (its memory), "cxl0"
)
Link = tuple[str, str]  # in one direction


class Routes:
    """The links and routes of a topology whose GPUs are all the same board."""

    def __init__(self, topology: Topology, board: Board) -> None:
        self.topology = topology
        architecture = board.architecture.split()[0]
        self._linked = topology.links_between(architecture) > 0 and board.has_nvlink
        self.capacity: dict[Hashable, float] = {}
        self._join_nvlinks(board, architecture)
        self._join_pcie(board.pcie_gb_per_s.value * 1e3)
        for a in range(topology.numa_nodes):
            for b in range(a):
                self._join([f"numa{a}", f"numa{b}"], _SOCKETS_GB_PER_S * 1e3)

    @property
    def switched(self) -> bool:
        """True if GPUs reach each other over NVSwitches."""
        return self._linked and self.topology.switched

    def path(self, source: End, target: End) -> list[Link]:
        """Return the directed links from one device to another. Raises BadShape for an unknown
        device.
        """
        up, down = self._to_root(source), self._to_root(target)
        if source == target:
            return []
        if self._linked and source.startswith("gpu") and target.startswith("gpu"):
            middle = ["nvswitch"] if self.topology.switched else []
            return list(pairwise([source, *middle, target]))
        while len(up) > 1 and len(down) > 1 and up[-2] == down[-2]:
            up, down = up[:-1], down[:-1]  # they meet below the root, for example at a switch
        joined = up + (down[-2::-1] if up[-1] == down[-1] else down[::-1])
        return list(pairwise(joined))

    def _join_nvlinks(self, board: Board, architecture: str) -> None:
        if not self._linked:
            return
        count, gpus = self.topology.links_of(architecture), len(self.topology.gpus)
        a_link = _NVLINK_GB_PER_S.get(architecture, board.link_gb_per_s.value)
        rate = min(board.link_gb_per_s.value, count * a_link) * 1e3
        for i in range(gpus):
            if self.topology.switched:
                self._join([f"gpu{i}", "nvswitch"], rate)
            for j in () if self.topology.switched else range(i):
                self._join([f"gpu{i}", f"gpu{j}"], rate / (gpus - 1))

    def _join_pcie(self, rate: float) -> None:
        ports: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        for kind, places in self._devices().items():
            own = min(rate, _NVME_GB_PER_S * 1e3) if kind == "nvme" else rate
            for i, place in enumerate(places):
                end, switch, bridge, node = self._up(f"{kind}{i}", place)
                self._join([end, switch], own)
                self._join([switch, bridge], rate)
                ports[bridge, node][switch] = rate
                if kind == "hca":
                    self._join([end, f"wire{i}"], _HCA_GB_PER_S * 1e3)
        for i, expander in enumerate(self.topology.cxls):
            bridge = f"bridge{expander.bridge}"
            self._join([f"cxl{i}", bridge], expander.gb_per_s * 1e3)
            ports[bridge, f"numa{expander.numa}"][f"cxl{i}"] = expander.gb_per_s * 1e3
        for pair, rates in ports.items():
            self._join(list(pair), sum(rates.values()))

    def _devices(self) -> dict[str, tuple[Place, ...]]:
        its = self.topology
        return {"gpu": its.gpus, "hca": its.hcas, "nvme": its.nvmes}

    def _to_root(self, end: End) -> list[str]:
        match = _END.fullmatch(end)
        kind, number = (match[1], int(match[2])) if match else ("", 0)
        if kind == "numa" and number < self.topology.numa_nodes:
            return [end]
        if kind == "cxl" and number < len(self.topology.cxls):
            expander = self.topology.cxls[number]
            return [end, f"bridge{expander.bridge}", f"numa{expander.numa}"]
        places = self._devices().get("hca" if kind == "wire" else kind, ())
        if number >= len(places):
            raise BadShape(f"{self.topology.name[:32]} has no {end[:16]}")
        if kind == "wire":
            return [end, *self._up(f"hca{number}", places[number])]
        return self._up(end, places[number])

    @staticmethod
    def _up(end: End, place: Place) -> list[str]:
        return [end, f"switch{place.switch}", f"bridge{place.bridge}", f"numa{place.numa}"]

    def _join(self, chain: list[str], rate: float) -> None:
        for step in (*pairwise(chain), *pairwise(chain[::-1])):
            self.capacity[step] = rate
