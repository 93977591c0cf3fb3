"""The last minute of what exporters have answered about traffic, from which rates follow.

Nothing is read while no page shows it. The memory is bounded: few nodes, few readings of each, and
few samples of each reading.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Final

from console.model.exporters import Scrape
from console.model.exposition import growth, read_samples

Labels = tuple[tuple[str, str], ...]
Series = Mapping[str, Mapping[Labels, float]]

WINDOW_S: Final = 60.0
MOST_NODES: Final = 8  # of one page
MOST_KEPT: Final = 32  # of all pages: with fewer than viewers show, no node has two readings
MOST_SAMPLES: Final = 4096
_SPACING_S: Final = 10.0  # between readings that are kept, except for the last two
PCIE_RECEIVED: Final = "DCGM_FI_PROF_PCIE_RX_BYTES"
PCIE_SENT: Final = "DCGM_FI_PROF_PCIE_TX_BYTES"
PORT_RECEIVED: Final = "node_infiniband_port_data_received_bytes_total"
PORT_SENT: Final = "node_infiniband_port_data_transmitted_bytes_total"
LOCAL_RECEIVED: Final = "tessera_rdma_local_received_bytes_total"
LOCAL_SENT: Final = "tessera_rdma_local_transmitted_bytes_total"
REQUESTS: Final = "tessera_rdma_requests_total"
REQUEST_BYTES: Final = "tessera_rdma_request_bytes_total"
DENIALS: Final = "tessera_rdma_denials_total"
HCAD_UP: Final = "tessera_hcad_up"
UNLISTED: Final = (
    "tessera_rdma_unlisted_requests_total",
    "tessera_rdma_unlisted_denials_total",
)
WANTED: Final = frozenset(
    (
        PCIE_RECEIVED,
        PCIE_SENT,
        PORT_RECEIVED,
        PORT_SENT,
        LOCAL_RECEIVED,
        LOCAL_SENT,
        REQUESTS,
        REQUEST_BYTES,
        DENIALS,
        HCAD_UP,
        *UNLISTED,
    )
)


@dataclass(frozen=True, slots=True)
class Reading:
    """The samples of one scrape; ``at`` is the console's clock in seconds."""

    at: float
    series: Series


@dataclass(frozen=True, slots=True)
class NodeReadings:
    """The readings of one node, the oldest first, or why there is none now."""

    node: str
    readings: tuple[Reading, ...] = ()
    problem: str = ""

    @property
    def seconds(self) -> float:
        """Return the time between the last two readings; 0 if there is only one."""
        return self.readings[-1].at - self.readings[-2].at if len(self.readings) > 1 else 0.0

    @property
    def window_s(self) -> float:
        """Return the time that the readings cover."""
        return self.readings[-1].at - self.readings[0].at if self.readings else 0.0

    @property
    def measured_s(self) -> float:
        """Return the time over which increases are known; 0 before there is a second reading."""
        return sum(
            later_reading.at - earlier_reading.at
            for earlier_reading, later_reading in self._steps(0)
        )

    def latest(self, name: str) -> dict[Labels, float]:
        """Return the last samples of a series; those that are no number are left out."""
        samples = self.readings[-1].series.get(name, {}) if self.readings else {}
        return {labels: value for labels, value in samples.items() if math.isfinite(value)}

    def rates(self, name: str) -> dict[Labels, float]:
        """Return the increase of a counter per second between the last two readings."""
        if self.seconds <= 0:
            return {}
        return {labels: grown / self.seconds for labels, grown in self._increases(name, -2).items()}

    def mean_rates(self, name: str) -> dict[Labels, float]:
        """Return the mean increase of a counter per second over all readings."""
        if self.measured_s <= 0:
            return {}
        return {
            labels: grown / self.measured_s for labels, grown in self._increases(name, 0).items()
        }

    def increases(self, name: str) -> dict[Labels, float]:
        """Return the increase of a counter over all readings."""
        return self._increases(name, 0) if self.window_s > 0 else {}

    def _steps(self, first: int) -> Iterator[tuple[Reading, Reading]]:
        """Yield successive readings with hcad; what happened beside one without it is not known."""
        for earlier_reading, later_reading in pairwise(self.readings[first:]):
            if all(
                1.0 in reading.series.get(HCAD_UP, {}).values()
                for reading in (earlier_reading, later_reading)
            ):
                yield earlier_reading, later_reading

    def _increases(self, name: str, first: int) -> dict[Labels, float]:
        """Return by how much each counter has grown."""
        grown: dict[Labels, float] = {}
        for earlier_reading, later_reading in self._steps(first):
            earlier_samples = earlier_reading.series.get(name, {})
            for labels, value in later_reading.series.get(name, {}).items():
                step = growth(earlier_samples.get(labels, 0.0), value)
                if math.isfinite(step):
                    grown[labels] = grown.get(labels, 0.0) + step
        last = self.latest(name)
        return {labels: value for labels, value in grown.items() if labels in last}


@dataclass(slots=True)
class History:
    """The readings of the nodes that pages have shown last."""

    _nodes: dict[str, list[Reading]] = field(default_factory=dict)

    def add(self, node: str, scrape: Scrape) -> NodeReadings:
        """Add what an exporter has answered, unless it was added before; return all readings."""
        readings = self._nodes.pop(node, [])
        if scrape.problem:
            return NodeReadings(node, problem=scrape.problem)
        if not readings or scrape.at > readings[-1].at:
            readings.append(Reading(scrape.at, _bound(_index(scrape.text))))
            readings = _thin(
                [reading for reading in readings if reading.at >= scrape.at - WINDOW_S]
            )
        self._nodes[node] = readings
        while len(self._nodes) > MOST_KEPT:
            del self._nodes[next(iter(self._nodes))]
        return NodeReadings(node, tuple(readings))


def _thin(readings: list[Reading]) -> list[Reading]:
    """Return the last two readings, and of the others those that are far enough apart."""
    spaced_readings: list[Reading] = []
    for reading in readings[:-2]:
        if not spaced_readings or reading.at - spaced_readings[-1].at >= _SPACING_S:
            spaced_readings.append(reading)
    return spaced_readings + readings[-2:]


def _index(text: str) -> Series:
    """Return the wanted samples of an answer by their labels."""
    return {
        name: {tuple(sorted(labels.items())): value for labels, value in samples}
        for name, samples in read_samples(text, WANTED).items()
    }


def _bound(series: Series) -> Series:
    def first(remaining_count: int) -> Iterator[tuple[str, dict[Labels, float]]]:
        for name, samples in series.items():
            yield name, dict(islice(samples.items(), remaining_count))
            remaining_count = max(remaining_count - len(samples), 0)

    return dict(first(MOST_SAMPLES))
