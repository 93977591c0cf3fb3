"""A topology that somebody described, as one line of text: where others carry a preset's name.

``custom:numa=2;nvlinks=18;switched;gpus=1b.0.0.0,43.1.1.1;hcas=18.0.0.0``: a device is its PCI bus
(hexadecimal), NUMA node, host bridge and PCIe switch. Whether that makes a machine is judged
where people write it (``GPUPool.spec.customTopology``); here is read what must hold for any reader.
"""

import re
from functools import lru_cache
from typing import Final

from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.topology.places import NVSWITCH_BUS, Place, Topology

PREFIX: Final = "custom:"
MOST_DEVICES: Final = 8  # GPUs of a node, and HCAs
_MOST_CHARACTERS: Final = 1024
_MOST_NUMA_NODES: Final = 16
_MOST_LINKS: Final = 18  # NVML_NVLINK_MAX_LINKS
_MESH: Final = 4  # GPUs of a board whose NVLinks lead to each other, as HGX boards have them
_ARCHITECTURES: Final = ("Ampere", "Ada", "Hopper", "Blackwell")
_DEVICE: Final = r"[0-9a-f]{2}\.\d{1,2}\.\d{1,3}\.\d{1,3}"
_DEVICES: Final = rf"{_DEVICE}(?:,{_DEVICE})*"
_TEXT: Final = re.compile(
    rf"custom:numa=(\d{{1,2}});nvlinks=(\d{{1,2}})(;switched)?;gpus=({_DEVICES})(?:;hcas=({_DEVICES}))?",
    re.ASCII,
)


@lru_cache(maxsize=16)  # every look at a GPU's place asks again
def read(text: str) -> Topology:
    """Return what a text describes; its name is the text. Raises BadShape."""
    found = _TEXT.fullmatch(text) if len(text) <= _MOST_CHARACTERS else None
    if found is None:
        raise BadShape(f"{text[:64]!r} describes no topology")
    numa, links, switched, gpus, hcas = found.groups()
    made = Topology(
        text,
        _places(gpus),
        _places(hcas or ""),
        numa_nodes=int(numa),
        nvlinks=tuple((name, int(links)) for name in _ARCHITECTURES) if int(links) else (),
        switched=switched is not None,
    )
    _check(made, int(links))
    return made


def _places(devices: str) -> tuple[Place, ...]:
    rows = (one.split(".") for one in devices.split(",") if one)
    return tuple(Place(int(bus, 16), *map(int, rest)) for bus, *rest in rows)


def _check(made: Topology, links: int) -> None:
    """Refuse what NVML's records have no room for, and what two devices cannot both be."""
    devices = (*made.gpus, *made.hcas)
    buses = [one.bus for one in devices]
    taken = {0} | ({NVSWITCH_BUS} if made.switched else set())
    if len(made.gpus) > MOST_DEVICES or len(made.hcas) > MOST_DEVICES:
        raise BadShape(f"a topology has at most {MOST_DEVICES} GPUs and {MOST_DEVICES} HCAs")
    if len(set(buses)) < len(buses) or taken & set(buses):
        raise BadShape("each device of a topology needs a PCI bus of its own")
    if not 1 <= made.numa_nodes <= _MOST_NUMA_NODES:
        raise BadShape(f"a topology has 1 to {_MOST_NUMA_NODES} NUMA nodes")
    if any(one.numa >= made.numa_nodes or max(one.bridge, one.switch) > 255 for one in devices):
        raise BadShape(f"a device of the topology lies outside of its {made.numa_nodes} NUMA nodes")
    if links > _MOST_LINKS:
        raise BadShape(f"a GPU has at most {_MOST_LINKS} NVLinks, not {links}")
    if links and not made.switched and (len(made.gpus) != _MESH or links % (_MESH - 1)):
        raise BadShape(f"NVLinks without NVSwitches join {_MESH} GPUs, each to all others alike")
