"""The operator's metrics, served at ``/metrics``.

Metrics that controller-runtime and client-go also have are named as there, so that existing
panels and alerts for controllers work. The label ``controller`` is the kind of object; conflicts
are the requests with code 409.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder

REGISTRY: Final = CollectorRegistry()
ProcessCollector(registry=REGISTRY)


@dataclass(frozen=True, slots=True)
class Declared:
    """Declaration of a metric. ``unit`` and ``note`` appear in docs/metrics-reference.md."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...]
    unit: str
    note: str = ""

    def family(self) -> GaugeMetricFamily:
        """Return an empty metric family for a gauge that a collector fills."""
        return GaugeMetricFamily(self.name, self.help, labels=self.labels)


_DECLARED: Final[list[Declared]] = []


def declarations() -> tuple[Declared, ...]:
    """Return the metrics that all loaded modules have declared."""
    return tuple(_DECLARED)


def declare_collected_gauge(
    name: str, text: str, labels: tuple[str, ...], unit: str, note: str = ""
) -> Declared:
    """Declare a gauge whose value a collector computes at each scrape."""
    return _declare(Declared(name, "gauge", text, labels, unit, note))


def _declare(metric: Declared) -> Declared:
    _DECLARED.append(metric)
    return metric


def _counter(name: str, text: str, labels: tuple[str, ...], unit: str, note: str = "") -> Counter:
    _declare(Declared(name, "counter", text, labels, unit, note))
    return Counter(name, text, labels, registry=REGISTRY)


def _gauge(name: str, text: str, labels: tuple[str, ...], unit: str) -> Gauge:
    _declare(Declared(name, "gauge", text, labels, unit))
    return Gauge(name, text, labels, registry=REGISTRY)


def _histogram(
    name: str, text: str, labels: tuple[str, ...], unit: str, buckets: tuple[float, ...]
) -> Histogram:
    _declare(Declared(name, "histogram", text, labels, unit))
    return Histogram(name, text, labels, registry=REGISTRY, buckets=buckets)


RECONCILES: Final = _counter(
    "controller_runtime_reconcile",
    "Reconciliations, by kind and result (success, error).",
    ("controller", "result"),
    "reconciliations",
)
RECONCILE_SECONDS: Final = _histogram(
    "controller_runtime_reconcile_time_seconds",
    "Duration of a reconciliation.",
    ("controller",),
    "s",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
QUEUE_DEPTH: Final = _gauge("workqueue_depth", "Keys that wait for a worker.", ("name",), "keys")
LEADER: Final = _gauge(
    "leader_election_master_status",
    "Whether this process holds the lease.",
    ("name",),
    "0 or 1",
)
REQUESTS: Final = _counter(
    "rest_client_requests",
    "Requests to the API server, by method and code (<error>: no response).",
    ("method", "code"),
    "requests",
    'excluding watches; conflicts are those with `code="409"`',
)
NO_ANSWER: Final = "<error>"


@contextmanager
def measure_reconciliation(controller: str) -> Iterator[Callable[[bool], None]]:
    """Measure a reconciliation for the duration of the context.

    The context yields a function. The caller passes it True if the reconciliation succeeded.
    """
    success_flag = [False]
    with RECONCILE_SECONDS.labels(controller).time():
        try:
            yield lambda succeeded: success_flag.__setitem__(0, succeeded)
        finally:
            RECONCILES.labels(controller, "success" if success_flag[0] else "error").inc()


def exposition(accept: str) -> tuple[str, bytes]:
    """Return the content type and text of all metrics, in the format that ``accept`` requests."""
    try:
        encode, content_type = choose_encoder(accept)
    except ValueError:  # the header names an invalid version
        encode, content_type = choose_encoder("")
    return content_type, encode(REGISTRY)
