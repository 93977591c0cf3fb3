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
    match = _TEXT.fullmatch(text) if len(text) <= _MOST_CHARACTERS else None
    if match is None:
        raise BadShape(f"{text[:64]!r} is not a valid description of a topology")
    numa, links, switched, gpus, hcas, nvmes, cxls = match.groups()
    topology = Topology(
        text,
        _places(gpus),
        _places(hcas or ""),
        numa_nodes=int(numa),
        nvlinks=tuple((name, int(links)) for name in _ARCHITECTURES) if int(links) else (),
        switched=switched is not None,
        nvmes=_places(nvmes or ""),
        cxls=tuple(
            Expander(*map(int, expander_text.split(".")))
            for expander_text in (cxls or "").split(",")
            if expander_text
        ),
    )
    _check(topology, int(links))
    return topology


def _places(devices: str) -> tuple[Place, ...]:
    rows = (device.split(".") for device in devices.split(",") if device)
    return tuple(Place(int(bus, 16), *map(int, numbers)) for bus, *numbers in rows)


def _check(topology: Topology, links: int) -> None:
    """Refuse a topology with more devices than NVML's records have room for, or with devices that
    conflict.
    """
    devices = (*topology.gpus, *topology.hcas, *topology.nvmes)
    buses = [device.bus for device in devices]
    reserved_buses = {0} | ({NVSWITCH_BUS} if topology.switched else set())
    for kind, members in (
        ("GPUs", topology.gpus),
        ("HCAs", topology.hcas),
        ("drives", topology.nvmes),
    ):
        if len(members) > MOST_DEVICES:
            raise BadShape(f"a topology can have at most {MOST_DEVICES} {kind}, not {len(members)}")
    if len(set(buses)) < len(buses) or reserved_buses & set(buses):
        raise BadShape("each device of a topology needs a PCI bus of its own")
    if not 1 <= topology.numa_nodes <= _MOST_NUMA_NODES:
        raise BadShape(f"a topology must have 1 to {_MOST_NUMA_NODES} NUMA nodes")
    if any(
        device.numa >= topology.numa_nodes or max(device.bridge, device.switch) > 255
        for device in devices
    ):
        raise BadShape(f"a device of the topology is outside its {topology.numa_nodes} NUMA nodes")
    if links > _MOST_LINKS:
        raise BadShape(f"a GPU can have at most {_MOST_LINKS} NVLinks, not {links}")
    _check_expanders(topology)
    if links and not topology.switched:
        peers = len(topology.gpus) - 1
        if not peers:
            raise BadShape("NVLinks without NVSwitches join 2 to 8 GPUs, not 1")
        if links % peers:
            raise BadShape(
                f"NVLinks without NVSwitches join each GPU to all others alike: {links} cannot be"
                f" divided among {peers}"
            )


def _check_expanders(topology: Topology) -> None:
    if len(topology.cxls) > MOST_EXPANDERS:
        raise BadShape(f"a topology can have at most {MOST_EXPANDERS} CXL memory expanders")
    for i, expander in enumerate(topology.cxls):
        if expander.numa >= topology.numa_nodes or expander.bridge > 255:
            raise BadShape(f"cxl{i} is outside the {topology.numa_nodes} NUMA nodes")
        if (
            not expander.gigabytes
            or expander.lanes not in _LANES
            or expander.generation not in _GENERATIONS
        ):
            raise BadShape(
                f"cxl{i} has {expander.gigabytes} GB, {expander.lanes} lanes of CXL"
                f" {expander.generation}: an expander must have memory, 8 or 16 lanes, and CXL 2 or"
                " 3"
            )
