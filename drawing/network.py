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
            f"{device.name} below switch {device.switch} of NUMA node {device.numa}"
            for device in self.devices
        ]
        devices += [f"{device.name} at a place that is not stated" for device in self.unplaced]
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
    order = sorted(
        devices, key=lambda device: (device.numa, device.switch, device.kind != "gpu", device.name)
    )
    columns: dict[Device, float] = {}
    at = float(_PAD)
    previous: Device | None = None
    for device in order:
        if previous is not None and previous.switch != device.switch:
            at += _GAP
        if previous is not None and previous.numa != device.numa:
            at += 3 * _GAP
        columns[device] = at
        at += _DEVICE + _GAP
        previous = device
    loose: dict[Device, float] = {}
    for place, device in enumerate(network.unplaced[: MOST_DEVICES - len(devices)]):
        loose[device] = at + 3 * _GAP * bool(columns) + place * (_DEVICE + _GAP)
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
    order = sorted(network.devices, key=lambda device: (device.numa, device.switch))
    numa, switch = -1, -1
    for device in order:
        if device.numa != numa:
            numa, switch = device.numa, -1
            yield f"NUMA {numa}"
        if device.switch != switch:
            switch = device.switch
            yield f"└─ PCIe switch {switch}"
        colour = "red" if device.is_sick else "green" if device.kind == "gpu" else "yellow"
        yield (Span("   └─ "), Span(device.name, colour), Span(f"  {device.more}"))
    for device in network.unplaced:
        yield (Span(device.name, "yellow"), Span("  at a place that is not stated"))


def _spans(columns: dict[Device, float], key: str) -> dict[tuple[int, int], tuple[float, float]]:
    spans: dict[tuple[int, int], tuple[float, float]] = {}
    for device, x in columns.items():
        group = (device.numa, device.switch if key == "switch" else -1)
        start, end = spans.get(group, (x, x))
        spans[group] = (min(start, x), max(end, x + _DEVICE))
    return spans


def _box(kind: str, x: float, top: float, width: float, height: float, text: str) -> Element:
    return element(
        "g",
        element("rect", class_=f"box {kind}", x=x, y=top, width=width, height=height, rx=4),
        element("text", text, class_="mid", x=x + width / 2, y=top + height / 2 + 4),
    )


def _upper(columns: dict[Device, float], interconnect: str) -> Iterator[Element]:
    numas = list(_spans(columns, "numa").items())
    for place, ((number, _), (start_x, end_x)) in enumerate(numas):
        yield _box("cpu", start_x, _ROWS["numa"], end_x - start_x, 26, f"NUMA {number}")
        if place + 1 < len(numas):
            following = numas[place + 1][1][0]
            words = element("title", interconnect or "link between NUMA nodes")
            line = f"M{end_x:.1f} {_ROWS['numa'] + 13}H{following:.1f}"
            yield element("path", words, class_="wire smp", d=line)
    for (_, number), (start_x, end_x) in _spans(columns, "switch").items():
        middle = (start_x + end_x) / 2
        line = f"M{middle:.1f} {_ROWS['numa'] + 26}V{_ROWS['bridge']}"
        yield element("path", class_="wire", d=line)
        name = f"switch {number}" if end_x - start_x < 130 else f"PCIe switch {number}"
        yield _box("switch", start_x, _ROWS["bridge"], end_x - start_x, 24, name)


def _devices(
    columns: dict[Device, float], loads: Mapping[str, Load], *, is_placed: bool = True
) -> Iterator[Element]:
    top = _ROWS["device"]
    for device, x in columns.items():
        middle = x + _DEVICE / 2
        line = f"M{middle:.1f} {_ROWS['bridge'] + 24}V{top}"
        load = loads.get(device.name)
        if is_placed:
            yield element("path", class_=f"wire{load.width_class if load else ''}", d=line)
        details = device.more
        if load is not None:
            yield from _labels(load, middle, top)
            details += f": {load.down} to it, {load.up} from it"
        kind = f"box {device.kind}" + (" ill" if device.is_sick else "")
        children = [
            element("title", f"{device.name} {details}".strip()),
            element("rect", class_=kind, x=x, y=top, width=_DEVICE, height=_HIGH, rx=4),
            element("text", shorten(device.name, 13), class_="mid", x=middle, y=top + 18),
            element("text", shorten(device.more, 15), class_="axis mid", x=middle, y=top + 33),
        ]
        if device.href:
            yield element("a", *children, href=device.href)
        else:
            yield element("g", *children)


def _labels(load: Load, middle: float, top: float) -> Iterator[Element]:
    for text, y in ((f"↓{load.down}", top - 20), (f"↑{load.up}", top - 7)):
        yield element("text", text, class_="axis", x=middle + 5, y=y)


def _links(columns: dict[Device, float], network: Network) -> Iterator[Element]:
    gpus = [(device, x + _DEVICE / 2) for device, x in columns.items() if device.kind == "gpu"]
    if not network.links or not gpus:
        return
    low, base = _ROWS["nvlink"], _ROWS["device"] + _HIGH
    if network.switched:
        for gpu, middle in gpus:
            words = element("title", f"{gpu.name}: {network.links} NVLinks")
            yield element("path", words, class_="nvlink", d=f"M{middle:.1f} {base}V{low}")
        start_x, end_x = gpus[0][1] - _DEVICE / 2, gpus[-1][1] + _DEVICE / 2
        yield _box("nvswitch", start_x, low, end_x - start_x, 28, network.nvlinks)
        return
    for place, (gpu, start) in enumerate(gpus):
        for peer, end in gpus[place + 1 :]:
            depth = min(14 + (end - start) / 10, low - base)
            words = element("title", f"{gpu.name} to {peer.name}: {network.links} NVLinks")
            low_at = f"{base + depth:.1f}"
            ends = f"{start:.1f} {low_at} {end:.1f} {low_at} {end:.1f}"
            curve = f"M{start:.1f} {base}C{ends} {base}"
            yield element("path", words, class_="nvlink", d=curve)
    yield element("text", network.nvlinks, class_="mid", x=_mean(gpus), y=low + 8)


def _mean(gpus: Sequence[tuple[Device, float]]) -> float:
    return (gpus[0][1] + gpus[-1][1]) / 2
