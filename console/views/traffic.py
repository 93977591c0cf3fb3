"""Live traffic and denials of RDMA, and the traffic on a node's links, from exporters' readings."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from console.model import readings as of
from console.model.event_log import EventRecord, order_of
from console.model.fabric import Fabric
from console.model.readings import Labels, NodeReadings
from console.views import reach
from gpu_operator.api.v1alpha1.base import Reason

MOST_ROWS: Final = 200
_ALIKE_S: Final = 2.0  # between windows that are stated as one: nodes are read in turn
_UNITS: Final = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"))


@dataclass(frozen=True, slots=True)
class PortRow:
    """Rates in bytes per second of an HCA function; ``local`` is what stays on the node."""

    node: str
    hca: str
    pod: str
    received: float
    sent: float
    local_received: float
    local_sent: float


@dataclass(frozen=True, slots=True)
class PairRow:
    """Rates of one verb from one pod to another."""

    source: str
    destination: str
    verb: str
    requests: float
    bytes: float


@dataclass(frozen=True, slots=True)
class DenialRow:
    """Denials of one verb from one pod to another: in the last minutes, and since hcad's start.

    ``recent`` is None if it is not known yet, because it follows from two readings.
    """

    node: str
    source: str
    destination: str
    verb: str
    policies: tuple[str, ...]
    is_audited: bool
    recent: float | None
    total: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """The tables of the page; ``problems`` has the reason for each node without figures.

    ``window_s`` is the longest time over which rates are means and denials count as recent, and
    ``shorter`` has that of nodes that were not read for so long. ``more`` is the number of rows
    that are not shown, and ``unread`` that of nodes that are not read. ``waiting`` are nodes with
    one reading only.
    """

    ports: tuple[PortRow, ...]
    pairs: tuple[PairRow, ...]
    denials: tuple[DenialRow, ...]
    problems: Mapping[str, str]
    waiting: tuple[str, ...]
    window_s: float
    shorter: Mapping[str, float]
    more: int
    unread: int
    unlisted: float


def nodes_of(fabric: Fabric, namespace: str, first: int) -> list[str]:
    """Return the nodes of the pods that the matrix shows."""
    pods, _ = reach.select_pods(fabric, namespace, first)
    return list(dict.fromkeys(pod.node for pod in pods if pod.node))


def view(nodes: Sequence[NodeReadings], namespace: str, unread: int = 0) -> Traffic:
    """Return traffic and denials of some nodes, of pods of one namespace or of all."""
    known_nodes = [
        readings for readings in nodes if not readings.problem and readings.latest(of.HCAD_UP)
    ]
    up = [readings for readings in known_nodes if 1.0 in readings.latest(of.HCAD_UP).values()]
    problems = {readings.node: readings.problem for readings in nodes if readings.problem}
    problems |= {
        readings.node: "hcad does not answer the exporter"
        for readings in known_nodes
        if readings not in up
    }
    problems |= {
        readings.node: (
            "its exporter has no figures of RDMA: no hcad has served its telemetry socket"
        )
        for readings in nodes
        if not readings.problem and readings not in known_nodes
    }
    ports = sorted(_ports(up, namespace), key=lambda row: (row.node, row.hca, row.pod))
    pairs = sorted(_pairs(up, namespace), key=lambda row: (-row.bytes, -row.requests, row.source))
    denials = sorted(
        _denials(up, namespace), key=lambda row: (-(row.recent or 0), -row.total, row.source)
    )
    lists = (ports, pairs, denials)
    window_s = max((readings.window_s for readings in up), default=0.0)
    return Traffic(
        tuple(ports[:MOST_ROWS]),
        tuple(pairs[:MOST_ROWS]),
        tuple(denials[:MOST_ROWS]),
        problems,
        tuple(readings.node for readings in up if readings.seconds <= 0),
        window_s,
        {
            readings.node: readings.window_s
            for readings in up
            if 0 < readings.window_s < window_s - _ALIKE_S
        },
        sum(max(len(rows) - MOST_ROWS, 0) for rows in lists),
        unread,
        sum(
            value
            for readings in up
            for name in of.UNLISTED
            for value in readings.latest(name).values()
        ),
    )


@dataclass(frozen=True, slots=True)
class LinkTraffic:
    """Bytes per second to a device and from it, as the PCIe link above it carries them."""

    down: float
    up: float


def links_of(readings: NodeReadings) -> dict[str, LinkTraffic]:
    """Return the traffic of the links of a node's devices, by the device's name in the drawing.

    An HCA reads from memory what its port sends, and writes to memory what the port receives.
    """
    gpus = _by(readings.latest(of.PCIE_RECEIVED), "gpu"), _by(readings.latest(of.PCIE_SENT), "gpu")
    hcas = _by(readings.rates(of.PORT_SENT), "hca"), _by(readings.rates(of.PORT_RECEIVED), "hca")
    links = {}
    for kind, (down, up) in (("GPU", gpus), ("HCA", hcas)):
        for number in dict.fromkeys((*down, *up)):
            name = f"{kind} {number}"
            links[name] = LinkTraffic(down.get(number, 0.0), up.get(number, 0.0))
    return links


def denials_among(events: Iterable[EventRecord]) -> tuple[EventRecord, ...]:
    """Return the events about denials, which each row is compared with."""
    return tuple(event for event in events if event.reason == Reason.RDMA_DENIED)


def last_denied(events: Iterable[EventRecord], row: DenialRow) -> str:
    """Return when a node's agent reported a denial of a row last; empty if no event is stored.

    ``events`` are those about denials.
    """
    verb, ends = re.escape(row.verb), (row.source, row.destination)
    source, destination = (rf"{re.escape(end)} \(" if end else "" for end in ends)
    pattern = re.compile(rf"{verb} of {source}.* to {destination}")
    times = [
        event.last
        for event in events
        if f"{event.namespace}/{event.name}" in ends and pattern.match(event.message)
    ]
    return max(times, key=order_of, default="")


def format_rate(bytes_per_s: float) -> str:
    """Return a rate with a unit, in at most three digits."""
    for size, unit in _UNITS:
        if bytes_per_s >= 0.9995 * size:
            return f"{bytes_per_s / size:.3g} {unit}"
    return f"{bytes_per_s:.0f} B/s"


def _by(samples: Mapping[Labels, float], label: str) -> dict[str, float]:
    sums: dict[str, float] = {}
    for labels, value in samples.items():
        key = dict(labels).get(label, "")
        sums[key] = sums.get(key, 0.0) + max(value, 0.0)
    return sums


def _ports(nodes: Sequence[NodeReadings], namespace: str) -> Iterator[PortRow]:
    names = (of.PORT_RECEIVED, of.PORT_SENT, of.LOCAL_RECEIVED, of.LOCAL_SENT)
    for readings in nodes:
        rates = [readings.mean_rates(name) for name in names]
        for labels in rates[0]:
            its = dict(labels)
            if namespace in ("", its.get("namespace")):
                pod = f"{its.get('namespace', '')}/{its.get('pod', '')}"
                figures = [direction_rates.get(labels, 0.0) for direction_rates in rates]
                yield PortRow(readings.node, its.get("hca", ""), pod, *figures)


def _pairs(nodes: Sequence[NodeReadings], namespace: str) -> Iterator[PairRow]:
    for readings in nodes:
        size = readings.mean_rates(of.REQUEST_BYTES)
        for labels, requests in readings.mean_rates(of.REQUESTS).items():
            source, destination = _ends(labels)
            if requests > 0 and _is_in(namespace, labels):
                verb = dict(labels).get("verb", "")
                yield PairRow(source, destination, verb, requests, size.get(labels, 0.0))


def _denials(nodes: Sequence[NodeReadings], namespace: str) -> Iterator[DenialRow]:
    for readings in nodes:
        recent = readings.increases(of.DENIALS)
        for labels, total in readings.latest(of.DENIALS).items():
            its = dict(labels)
            if not _is_in(namespace, labels):
                continue
            policies = tuple(filter(None, its.get("policy", "").split(", ")))
            source, destination = _ends(labels)
            yield DenialRow(
                readings.node,
                source,
                destination,
                its.get("verb", ""),
                policies,
                is_audited=its.get("action") == "audited",
                recent=recent.get(labels, 0.0) if readings.measured_s > 0 else None,
                total=total,
            )


def _ends(labels: Labels) -> tuple[str, str]:
    its = dict(labels)
    source, destination = (
        f"{its[f'{end}_namespace']}/{its[f'{end}_pod']}" if its.get(f"{end}_pod") else ""
        for end in ("source", "destination")
    )
    return source, destination


def _is_in(namespace: str, labels: Labels) -> bool:
    its = dict(labels)
    return namespace in ("", its.get("source_namespace"), its.get("destination_namespace"))
