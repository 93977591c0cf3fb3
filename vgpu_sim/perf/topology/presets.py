"""The named topologies.

Bus numbers, NUMA nodes and switches of the DGX systems are those in their user guides and in
published ``nvidia-smi topo -m`` listings; a pool with fewer GPUs uses the first of them. No
listing or guide that was available states to which switches their drives are connected, so these
presets have no drives. ``pcie-2-socket`` is not a product. It has two GPUs and a drive below
each of four switches, and an adapter below one switch of each socket. On each socket, it has a
CXL memory expander below a host bridge of its own.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from boards.record.names import describe_unknown
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.topology import custom
from vgpu_sim.perf.topology.places import Expander, Place, Topology

FLAT: Final = "flat"
_MOST: Final = 8
_HOPPER_LINKS: Final = (("Hopper", 18), ("Blackwell", 18))
_H100_BUSES: Final = (0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF)
_H100_HCAS: Final = (0x18, 0x40, 0x4F, 0x5E, 0x9A, 0xC0, 0xCE, 0xDC)
_A100_BUSES: Final = (0x07, 0x0F, 0x47, 0x4E, 0x87, 0x90, 0xB7, 0xBD)
_A100_HCAS: Final = (0x0C, 0x12, 0x4B, 0x54, 0x8D, 0x94, 0xBA, 0xCC)
_A100_NUMA: Final = (3, 3, 1, 1, 7, 7, 5, 5)


def _own_switches(buses: Sequence[int], per_node: int, port: int) -> tuple[Place, ...]:
    """Return devices that each have their own switch below their own host bridge."""
    return tuple(Place(bus, i // per_node, i, i, port) for i, bus in enumerate(buses))


def _paired_devices(buses: Sequence[int], port: int) -> tuple[Place, ...]:
    """Return devices of which two share a switch, as in a DGX A100."""
    return tuple(
        Place(bus, _A100_NUMA[i], i // 2, i // 2, 2 * port + i % 2) for i, bus in enumerate(buses)
    )


_ROWS: Final = (
    Topology(FLAT, tuple(Place(i + 1, 0, 0, i) for i in range(_MOST))),
    Topology(
        "dgx-a100",
        _paired_devices(_A100_BUSES, 0),
        _paired_devices(_A100_HCAS, 1),
        numa_nodes=8,
        nvlinks=(("Ampere", 12),),
        switched=True,
    ),
    Topology(
        "dgx-h100",
        _own_switches(_H100_BUSES, 4, 0),
        _own_switches(_H100_HCAS, 4, 1),
        numa_nodes=2,
        nvlinks=_HOPPER_LINKS,
        switched=True,
    ),
    Topology(
        "dgx-b200",
        _own_switches(_H100_BUSES, 4, 0),
        _own_switches(_H100_HCAS, 4, 1),
        numa_nodes=2,
        nvlinks=_HOPPER_LINKS,
        switched=True,
    ),
    Topology(
        "hgx-4",
        _own_switches((0x17, 0x65, 0xCA, 0xE3), 2, 0),
        _own_switches((0x1A, 0x68, 0xCD, 0xE6), 2, 1),
        numa_nodes=2,
        nvlinks=(("Ampere", 12), *_HOPPER_LINKS),
    ),
    Topology(
        "pcie-2-socket",
        tuple(
            Place(bus, i // 4, i // 2, i // 2)
            for i, bus in enumerate((0x16, 0x17, 0x3A, 0x3B, 0x96, 0x97, 0xBA, 0xBB))
        ),
        tuple(Place(bus, i, 2 * i, 2 * i, 1) for i, bus in enumerate((0x18, 0x98))),
        numa_nodes=2,
        nvmes=tuple(Place(bus, i // 2, i, i, 2) for i, bus in enumerate((0x19, 0x3C, 0x99, 0xBC))),
        cxls=tuple(Expander(i, 4 + i, 256, 8, 2) for i in range(2)),
    ),
)

PRESETS: Final[Mapping[str, Topology]] = {row.name: row for row in _ROWS}


def topology_named(name: str, gpus: int = 0) -> Topology:
    """Return a topology by name or by description (``custom``).

    With ``gpus``, also check that the topology has that many places for GPUs.

    Raises:
        BadShape: the name is unknown, the description is invalid, or there are too few places.
    """
    described = name.startswith(custom.PREFIX)
    topology = custom.read(name) if described else PRESETS.get(name)
    if topology is None:
        raise BadShape(describe_unknown("topology", name, PRESETS))
    if gpus > len(topology.gpus):
        called = "the custom topology" if described else name
        raise BadShape(f"{called} has room for {len(topology.gpus)} GPUs, not {gpus}")
    return topology
