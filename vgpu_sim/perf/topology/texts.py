"""Prints a topology in the formats of ``nvidia-smi topo -m`` and of NCCL's XML (NCCL_TOPO_FILE)."""

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from vgpu_sim.perf.boards import Board
from vgpu_sim.perf.topology.places import NVSWITCH_BUS, Place, Topology

_LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a \
NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks"""


def connection(topology: Topology, board: Board, first: Place, second: Place) -> str:
    """Return how two devices are connected, in the words of ``nvidia-smi topo -m``: "NV18", "PXB",
    "X".
    """
    if first == second:
        return " X "
    links = topology.links_between(board.architecture.split()[0]) if board.has_nvlink else 0
    if links and first in topology.gpus and second in topology.gpus:
        return f"NV{links}"
    return topology.level(first, second).name


def matrix(topology: Topology, board: Board, gpus: Sequence[int], hcas: int = 0) -> Iterator[str]:
    """Yield the lines of a matrix that shows how devices are connected, as ``nvidia-smi topo -m``
    does. The devices are the GPUs with the indices ``gpus``, and the first ``hcas`` HCAs.
    """
    named = [(f"GPU{i}", topology.gpus[i]) for i in gpus]
    named += [(f"NIC{i}", place) for i, place in enumerate(topology.hcas[:hcas])]
    yield "\t" + "\t".join(name for name, _ in named) + "\tNUMA Affinity"
    for name, place in named:
        cells = (connection(topology, board, place, column_place) for _, column_place in named)
        yield f"{name}\t" + "\t".join(cells) + f"\t{place.numa}"
    yield _LEGEND


def nccl_xml(topology: Topology, board: Board, gpus: Sequence[int], hcas: int = 0) -> str:
    """Return the XML document that NCCL reads (``ncclTopoGetSystemFromXml``)."""
    system = ElementTree.Element("system", version="1")
    major, minor = board.compute_capability
    architecture = board.architecture.split()[0]
    nodes: dict[str, ElementTree.Element] = {}

    def below(
        parent: ElementTree.Element, key: str, tag: str, **fields: str
    ) -> ElementTree.Element:
        if key not in nodes:
            nodes[key] = ElementTree.SubElement(parent, tag, fields)
        return nodes[key]

    def slot(place: Place, kind: str) -> ElementTree.Element:
        cpu = below(
            system,
            f"numa{place.numa}",
            "cpu",
            numaid=str(place.numa),
            arch="x86_64",
            vendor="GenuineIntel",
        )
        rate = {"link_speed": "32.0 GT/s PCIe", "link_width": "16"}
        bridge = f"0000:{0xE0 + place.switch:02x}:1f.0"
        switch = below(
            cpu, f"switch{place.switch}", "pci", busid=bridge, **{"class": "0x060400"}, **rate
        )
        return ElementTree.SubElement(switch, "pci", {"busid": place.bus_id, "class": kind, **rate})

    places = [topology.gpus[i] for i in gpus]
    for number, place in enumerate(places):
        fields = {"dev": str(number), "sm": f"{major}{minor}", "rank": str(number), "gdr": "1"}
        gpu = ElementTree.SubElement(slot(place, "0x030200"), "gpu", fields)
        links = topology.links_of(architecture) if board.has_nvlink else 0
        if topology.switched and links:
            switched = {
                "target": f"0000:{NVSWITCH_BUS:02x}:00.0",
                "count": str(links),
                "tclass": "0x068000",
            }
            ElementTree.SubElement(gpu, "nvlink", switched)
        elif links:
            for peer in places:
                if peer != place:
                    direct = str(topology.links_between(architecture))
                    target = {"target": peer.bus_id, "count": direct, "tclass": "0x030200"}
                    ElementTree.SubElement(gpu, "nvlink", target)
    for number, place in enumerate(topology.hcas[:hcas]):
        nic = ElementTree.SubElement(slot(place, "0x020700"), "nic")
        ElementTree.SubElement(
            nic,
            "net",
            {
                "name": f"mlx5_{number}",
                "dev": str(number),
                "speed": "400000",
                "port": "1",
                "guid": f"0x{number + 1:x}",
                "maxconn": "131072",
                "gdr": "1",
            },
        )
    ElementTree.indent(system)
    return ElementTree.tostring(system, encoding="unicode") + "\n"
