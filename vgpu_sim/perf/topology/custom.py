"""A topology described by one line of text, which is used in place of a preset's name.

``custom:numa=2;nvlinks=18;switched;gpus=1b.0.0.0,43.1.1.1;hcas=18.0.0.0;nvmes=20.0.0.0;
cxls=0.1.128.8.2`` (one line): a device is its PCI bus (hexadecimal), NUMA node, host bridge and
PCIe switch; a CXL memory expander is its NUMA node, host bridge, gigabytes, lanes and generation of
CXL. The operator checks whether the description is a possible machine
(``GPUPool.spec.customTopology``); this module checks only what every reader relies on.
"""

import re
from functools import lru_cache
from typing import Final

from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.topology.places import NVSWITCH_BUS, Expander, Place, Topology

PREFIX: Final = "custom:"
MOST_DEVICES: Final = 8  # most GPUs of a node, HCAs, and drives
MOST_EXPANDERS: Final = 4
_MOST_CHARACTERS: Final = 1024
_MOST_NUMA_NODES: Final = 16
_MOST_LINKS: Final = 18  # NVML_NVLINK_MAX_LINKS
_ARCHITECTURES: Final = ("Ampere", "Ada", "Hopper", "Blackwell")
_DEVICE: Final = r"[0-9a-f]{2}\.\d{1,2}\.\d{1,3}\.\d{1,3}"
_DEVICES: Final = rf"{_DEVICE}(?:,{_DEVICE})*"
_EXPANDER: Final = r"\d{1,2}\.\d{1,3}\.\d{1,5}\.\d{1,2}\.\d"
_EXPANDERS: Final = rf"{_EXPANDER}(?:,{_EXPANDER})*"
_TEXT: Final = re.compile(
    rf"custom:numa=(\d{{1,2}});nvlinks=(\d{{1,2}})(;switched)?;gpus=({_DEVICES})"
    rf"(?:;hcas=({_DEVICES}))?(?:;nvmes=({_DEVICES}))?(?:;cxls=({_EXPANDERS}))?",
    re.ASCII,
)
_LANES: Final = (8, 16)
_GENERATIONS: Final = (2, 3)


@lru_cache(maxsize=16)  # called for every query of a GPU's place
def read(text: str) -> Topology:
    """Parse a description of a topology. The topology's name is the description itself. Raises
    BadShape.
    """
    found = _TEXT.fullmatch(text) if len(text) <= _MOST_CHARACTERS else None
    if found is None:
        raise BadShape(f"{text[:64]!r} is not a valid description of a topology")
    numa, links, switched, gpus, hcas, nvmes, cxls = found.groups()
    made = Topology(
        text,
        _places(gpus),
        _places(hcas or ""),
        numa_nodes=int(numa),
        nvlinks=tuple((name, int(links)) for name in _ARCHITECTURES) if int(links) else (),
        switched=switched is not None,
        nvmes=_places(nvmes or ""),
        cxls=tuple(Expander(*map(int, one.split("."))) for one in (cxls or "").split(",") if one),
    )
    _check(made, int(links))
    return made


def _places(devices: str) -> tuple[Place, ...]:
    rows = (one.split(".") for one in devices.split(",") if one)
    return tuple(Place(int(bus, 16), *map(int, rest)) for bus, *rest in rows)


def _check(made: Topology, links: int) -> None:
    """Refuse a topology with more devices than NVML's records have room for, or with devices that
    conflict.
    """
    devices = (*made.gpus, *made.hcas, *made.nvmes)
    buses = [one.bus for one in devices]
    taken = {0} | ({NVSWITCH_BUS} if made.switched else set())
    for kind, there in (("GPUs", made.gpus), ("HCAs", made.hcas), ("drives", made.nvmes)):
        if len(there) > MOST_DEVICES:
            raise BadShape(f"a topology can have at most {MOST_DEVICES} {kind}, not {len(there)}")
    if len(set(buses)) < len(buses) or taken & set(buses):
        raise BadShape("each device of a topology needs a PCI bus of its own")
    if not 1 <= made.numa_nodes <= _MOST_NUMA_NODES:
        raise BadShape(f"a topology must have 1 to {_MOST_NUMA_NODES} NUMA nodes")
    if any(one.numa >= made.numa_nodes or max(one.bridge, one.switch) > 255 for one in devices):
        raise BadShape(f"a device of the topology is outside its {made.numa_nodes} NUMA nodes")
    if links > _MOST_LINKS:
        raise BadShape(f"a GPU can have at most {_MOST_LINKS} NVLinks, not {links}")
    _check_expanders(made)
    if links and not made.switched:
        peers = len(made.gpus) - 1
        if not peers:
            raise BadShape("NVLinks without NVSwitches join 2 to 8 GPUs, not 1")
        if links % peers:
            raise BadShape(
                f"NVLinks without NVSwitches join each GPU to all others alike: {links} cannot be"
                f" divided among {peers}"
            )


def _check_expanders(made: Topology) -> None:
    if len(made.cxls) > MOST_EXPANDERS:
        raise BadShape(f"a topology can have at most {MOST_EXPANDERS} CXL memory expanders")
    for i, one in enumerate(made.cxls):
        if one.numa >= made.numa_nodes or one.bridge > 255:
            raise BadShape(f"cxl{i} is outside the {made.numa_nodes} NUMA nodes")
        if not one.gigabytes or one.lanes not in _LANES or one.generation not in _GENERATIONS:
            raise BadShape(
                f"cxl{i} has {one.gigabytes} GB, {one.lanes} lanes of CXL {one.generation}: an"
                " expander must have memory, 8 or 16 lanes, and CXL 2 or 3"
            )
