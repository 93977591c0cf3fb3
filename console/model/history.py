"""The last minutes of the utilisation and the memory of GPUs and slices, as exporters stated them.

Each answer of an exporter is one reading, whichever page has requested it, so that all viewers
share the readings. The memory is bounded: some nodes, of each the latest readings, and of each
reading the figures of as many devices as a node can have.
"""

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import isnan, nan
from typing import Final

from console.model.exposition import read_samples

SPAN_S: Final = 900.0
MOST_READINGS: Final = 180  # five seconds apart, as exporters are read at most
MOST_NODES: Final = 32
MOST_SERIES: Final = 288  # two figures of eight GPUs and of the slices that each can have
_UTILISATION: Final = "DCGM_FI_DEV_GPU_UTIL"
_ACTIVE: Final = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
_USED: Final = "DCGM_FI_DEV_FB_USED"
_WANTED: Final = frozenset((_UTILISATION, _ACTIVE, _USED))
_LONGEST: Final = 32  # characters of a label
_MOST: Final = 1e9  # of a figure: the largest board has 3e5 MiB


class Figure(StrEnum):
    """What a series has: a percentage, or MiB."""

    GPU_BUSY = "utilisation of a GPU"
    GPU_MEMORY = "memory of a GPU"
    SLICE_BUSY = "activity of a slice's engines"
    SLICE_MEMORY = "memory of a slice"


@dataclass(frozen=True, slots=True)
class Key:
    """A series of a node. ``instance`` is "instance 3" or "instance 3, compute instance 0"; empty
    for a GPU and for a slice that is a whole GPU.
    """

    figure: Figure
    gpu: str
    profile: str = ""
    instance: str = ""


@dataclass(frozen=True, slots=True)
class Track:
    """A series: pairs of how many seconds ago a reading was, and its value; the oldest first."""

    points: tuple[tuple[float, float], ...] = ()


@dataclass(slots=True)
class _Node:
    times: "array[float]" = field(default_factory=lambda: array("d"))
    series: dict[Key, "array[float]"] = field(default_factory=dict)

    def add(self, at: float, values: Mapping[Key, float]) -> None:
        for key in values.keys() - self.series.keys():
            if len(self.series) < MOST_SERIES:
                self.series[key] = array("f", [nan]) * len(self.times)
        self.times.append(at)
        for key, samples in self.series.items():
            samples.append(values.get(key, nan))
        old = max(len(self.times) - MOST_READINGS, 0)
        while old < len(self.times) and self.times[old] < at - SPAN_S:
            old += 1
        if old:
            del self.times[:old]
            for samples in self.series.values():
                del samples[:old]
            self.series = {k: v for k, v in self.series.items() if not all(map(isnan, v))}


@dataclass(slots=True)
class DeviceHistory:
    """The readings of the nodes that were read last. Used by one event loop."""

    _nodes: dict[str, _Node] = field(default_factory=dict)

    def add(self, node: str, at: float, values: Mapping[Key, float]) -> None:
        """Add a reading at the time ``at`` of the console's clock, unless it is not later."""
        node_history = self._nodes.pop(node, None) or _Node()
        self._nodes[node] = node_history
        if not node_history.times or at > node_history.times[-1]:
            node_history.add(at, values)
        while len(self._nodes) > MOST_NODES:
            del self._nodes[next(iter(self._nodes))]

    def track(self, node: str, key: Key, now_s: float, within_s: float = SPAN_S) -> Track:
        """Return a series of the last seconds, of at most 15 minutes; without points if it is not
        known.
        """
        most_s = min(within_s, SPAN_S)
        node_history = self._nodes.get(node)
        samples = node_history.series.get(key) if node_history is not None else None
        if node_history is None or samples is None:
            return Track()
        pairs = zip(node_history.times, samples, strict=True)
        recent = ((now_s - at, value) for at, value in pairs if now_s - at <= most_s)
        return Track(tuple((age, value) for age, value in recent if not isnan(value)))


def read_values(text: str) -> dict[Key, float]:
    """Return the figures of an exporter's answer; those that no device can have are left out."""
    values: dict[Key, float] = {}
    for name, samples in read_samples(text, _WANTED).items():
        for labels, value in samples:
            for key, number in _figures(name, labels, value):
                if all(len(label) <= _LONGEST for label in (key.gpu, key.profile, key.instance)):
                    earlier_sum = values.get(key, 0.0) if key.figure is Figure.GPU_MEMORY else 0.0
                    values[key] = earlier_sum + number
    return values


def _figures(name: str, labels: Mapping[str, str], value: float) -> Iterator[tuple[Key, float]]:
    gpu, profile = labels.get("gpu", ""), labels.get("GPU_I_PROFILE", "")
    instance = f"instance {labels['GPU_I_ID']}" if labels.get("GPU_I_ID") else ""
    instance += f", compute instance {labels['GPU_CI_ID']}" if labels.get("GPU_CI_ID") else ""
    if name == _UTILISATION and 0 <= value <= 100:
        yield Key(Figure.GPU_BUSY, gpu), value
    elif name == _ACTIVE and 0 <= value <= 1:
        yield Key(Figure.SLICE_BUSY, gpu, profile, instance), 100 * value
    elif name == _USED and 0 <= value <= _MOST:
        yield Key(Figure.SLICE_MEMORY, gpu, profile, instance), value
        yield Key(Figure.GPU_MEMORY, gpu), value
