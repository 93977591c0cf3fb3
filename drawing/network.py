"""How a node's devices are connected: NUMA nodes, PCIe switches, GPUs, HCAs and NVLinks."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from drawing.elements import Element, element, shorten
from drawing.terminal import Line, Span

_DEVICE: Final = 92
_HIGH: Final = 42
_GAP: Final = 10
_PAD: Final = 12
_LABEL: Final = 14  # what a label of the last link needs beside the device
_ROWS: Final = {"numa": 8, "bridge": 52, "device": 108, "nvlink": 214}
MOST_DEVICES: Final = 64
_LOADS: Final = (1.0, 1e6, 1e8, 1e9)  # bytes per second from which a line is wider


@dataclass(frozen=True, slots=True)
class Device:
    """A device below a PCIe switch. ``kind`` is gpu, hca, nvme or cxl; ``more`` is a second line.

    ``numa`` and ``switch`` are the numbers of the NUMA node and of the switch above it.
    """

    name: str
    kind: str
    numa: int
    switch: int
    more: str = ""
    href: str = ""
    is_sick: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """The traffic of the link above a device, to it and from it; ``bytes_per_s`` of the larger."""

    down: str
    up: str
    bytes_per_s: float

    @property
    def width_class(self) -> str:
        """Return the class of the style sheet that widens the line."""
        step = sum(self.bytes_per_s >= limit for limit in _LOADS)
        return f" load{step}" if step else ""


@dataclass(frozen=True, slots=True)
class Network:
    """A node's devices; ``links`` are the NVLinks of each GPU (or, unswitched, of each pair).

    ``loads`` has the traffic of the devices' links, by the devices' names; a link that is not in it
    has no figures. ``unplaced`` are devices of which no NUMA node and no switch is stated.
    """

    name: str
    devices: tuple[Device, ...]
    links: int = 0
    switched: bool = False
    interconnect: str = ""
    loads: Mapping[str, Load] = field(default_factory=dict)
    unplaced: tuple[Device, ...] = ()

    @property
    def label(self) -> str:
        """Return the network in words."""
        devices = [
            f"{one.name} below switch {one.switch} of NUMA node {one.numa}" for one in self.devices
        ]
        devices += [f"{one.name} at a place that is not stated" for one in self.unplaced]
        return f"{self.name}: {self.nvlinks}; {'; '.join(devices)}"

    @property
    def nvlinks(self) -> str:
        """Return the NVLinks in words."""
        if not self.links:
            return "no NVLink"
        if self.switched:
            return f"NVSwitches, {self.links} NVLinks from each GPU"
        return f"{self.links} NVLinks between each pair of GPUs"


def draw_network(network: Network) -> Element:
    """Return the drawing: NUMA nodes above, then switches, devices, and NVLinks below them."""
    devices = network.devices[:MOST_DEVICES]
    order = sorted(devices, key=lambda one: (one.numa, one.switch, one.kind != "gpu", one.name))
    columns: dict[Device, float] = {}
    at = float(_PAD)
    previous: Device | None = None
    for one in order:
        if previous is not None and previous.switch != one.switch:
            at += _GAP
        if previous is not None and previous.numa != one.numa:
            at += 3 * _GAP
        columns[one] = at
        at += _DEVICE + _GAP
        previous = one
    loose: dict[Device, float] = {}
    for place, one in enumerate(network.unplaced[: MOST_DEVICES - len(devices)]):
        loose[one] = at + 3 * _GAP * bool(columns) + place * (_DEVICE + _GAP)
    if loose:
        at = max(loose.values()) + _DEVICE + _GAP
    width = max(at + _PAD - _GAP + (_LABEL if network.loads else 0), 420)
    parts = [
        *_upper(columns, network.interconnect),
        *_devices(columns, network.loads),
        *_devices(loose, network.loads, is_placed=False),
        *_links(columns, network),
    ]
    high = _ROWS["device"] + _HIGH + 4
    if network.links:
        high = _ROWS["nvlink"] + (34 if network.switched else 16)
    return element(
        "svg",
        *parts,
        class_="drawing network",
        viewBox=f"0 0 {width:g} {high}",
        width=width,
        height=high,
        role="group",
        aria_label=shorten(network.label, 1500),
    )


def network_lines(network: Network, columns: int) -> Iterator[Line]:
    """Yield the devices as a tree of text: NUMA nodes, switches, devices."""
    yield from ((Span(line, bold=True),) for line in textwrap.wrap(network.name, columns))
    yield from textwrap.wrap(network.nvlinks, columns)
    order = sorted(network.devices, key=lambda one: (one.numa, one.switch))
    numa, switch = -1, -1
    for one in order:
        if one.numa != numa:
            numa, switch = one.numa, -1
            yield f"NUMA {numa}"
        if one.switch != switch:
            switch = one.switch
            yield f"└─ PCIe switch {switch}"
        colour = "red" if one.is_sick else "green" if one.kind == "gpu" else "yellow"
        yield (Span("   └─ "), Span(one.name, colour), Span(f"  {one.more}"))
    for one in network.unplaced:
        yield (Span(one.name, "yellow"), Span("  at a place that is not stated"))


def _spans(columns: dict[Device, float], key: str) -> dict[tuple[int, int], tuple[float, float]]:
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for one, left in columns.items():
        group = (one.numa, one.switch if key == "switch" else -1)
        start, end = found.get(group, (left, left))
        found[group] = (min(start, left), max(end, left + _DEVICE))
    return found


def _box(kind: str, left: float, top: float, width: float, height: float, text: str) -> Element:
    return element(
        "g",
        element("rect", class_=f"box {kind}", x=left, y=top, width=width, height=height, rx=4),
        element("text", text, class_="mid", x=left + width / 2, y=top + height / 2 + 4),
    )


def _upper(columns: dict[Device, float], interconnect: str) -> Iterator[Element]:
    numas = list(_spans(columns, "numa").items())
    for place, ((number, _), (left, right)) in enumerate(numas):
        yield _box("cpu", left, _ROWS["numa"], right - left, 26, f"NUMA {number}")
        if place + 1 < len(numas):
            following = numas[place + 1][1][0]
            words = element("title", interconnect or "link between NUMA nodes")
            line = f"M{right:.1f} {_ROWS['numa'] + 13}H{following:.1f}"
            yield element("path", words, class_="wire smp", d=line)
    for (_, number), (left, right) in _spans(columns, "switch").items():
        middle = (left + right) / 2
        line = f"M{middle:.1f} {_ROWS['numa'] + 26}V{_ROWS['bridge']}"
        yield element("path", class_="wire", d=line)
        name = f"switch {number}" if right - left < 130 else f"PCIe switch {number}"
        yield _box("switch", left, _ROWS["bridge"], right - left, 24, name)


def _devices(
    columns: dict[Device, float], loads: Mapping[str, Load], *, is_placed: bool = True
) -> Iterator[Element]:
    top = _ROWS["device"]
    for one, left in columns.items():
        middle = left + _DEVICE / 2
        line = f"M{middle:.1f} {_ROWS['bridge'] + 24}V{top}"
        load = loads.get(one.name)
        if is_placed:
            yield element("path", class_=f"wire{load.width_class if load else ''}", d=line)
        more = one.more
        if load is not None:
            yield from _labels(load, middle, top)
            more += f": {load.down} to it, {load.up} from it"
        kind = f"box {one.kind}" + (" ill" if one.is_sick else "")
        children = (
            element("title", f"{one.name} {more}".strip()),
            element("rect", class_=kind, x=left, y=top, width=_DEVICE, height=_HIGH, rx=4),
            element("text", shorten(one.name, 13), class_="mid", x=middle, y=top + 18),
            element("text", shorten(one.more, 15), class_="axis mid", x=middle, y=top + 33),
        )
        if one.href:
            yield element("a", *children, href=one.href)
        else:
            yield element("g", *children)


def _labels(load: Load, middle: float, top: float) -> Iterator[Element]:
    for text, y in ((f"↓{load.down}", top - 20), (f"↑{load.up}", top - 7)):
        yield element("text", text, class_="axis", x=middle + 5, y=y)


def _links(columns: dict[Device, float], network: Network) -> Iterator[Element]:
    gpus = [(one, left + _DEVICE / 2) for one, left in columns.items() if one.kind == "gpu"]
    if not network.links or not gpus:
        return
    low, base = _ROWS["nvlink"], _ROWS["device"] + _HIGH
    if network.switched:
        for one, middle in gpus:
            words = element("title", f"{one.name}: {network.links} NVLinks")
            yield element("path", words, class_="nvlink", d=f"M{middle:.1f} {base}V{low}")
        left, right = gpus[0][1] - _DEVICE / 2, gpus[-1][1] + _DEVICE / 2
        yield _box("nvswitch", left, low, right - left, 28, network.nvlinks)
        return
    for place, (one, start) in enumerate(gpus):
        for other, end in gpus[place + 1 :]:
            depth = min(14 + (end - start) / 10, low - base)
            words = element("title", f"{one.name} to {other.name}: {network.links} NVLinks")
            low_at = f"{base + depth:.1f}"
            ends = f"{start:.1f} {low_at} {end:.1f} {low_at} {end:.1f}"
            curve = f"M{start:.1f} {base}C{ends} {base}"
            yield element("path", words, class_="nvlink", d=curve)
    yield element("text", network.nvlinks, class_="mid", x=_mean(gpus), y=low + 8)


def _mean(gpus: Sequence[tuple[Device, float]]) -> float:
    return (gpus[0][1] + gpus[-1][1]) / 2
