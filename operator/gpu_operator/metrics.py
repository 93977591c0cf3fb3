"""What the operator measures, for ``/metrics``.

Names are those of controller-runtime and client-go where they have the same thing, so that panels
and alerts for controllers fit; ``controller`` is the kind of object, and conflicts are the requests
with code 409.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder

REGISTRY: Final = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

RECONCILES: Final = Counter(
    "controller_runtime_reconcile",
    "Reconciliations, by kind and result (success, error).",
    ["controller", "result"],
    registry=REGISTRY,
)
RECONCILE_SECONDS: Final = Histogram(
    "controller_runtime_reconcile_time_seconds",
    "Length of a reconciliation.",
    ["controller"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
    registry=REGISTRY,
)
QUEUE_DEPTH: Final = Gauge(
    "workqueue_depth", "Keys that wait for a worker.", ["name"], registry=REGISTRY
)
LEADER: Final = Gauge(
    "leader_election_master_status",
    "Whether this process holds the lease.",
    ["name"],
    registry=REGISTRY,
)
REQUESTS: Final = Counter(
    "rest_client_requests",
    "Requests to the API server, by method and code (<error>: no answer).",
    ["method", "code"],
    registry=REGISTRY,
)
NO_ANSWER: Final = "<error>"


@contextmanager
def reconciling(controller: str) -> Iterator[Callable[[bool], None]]:
    """Measure a reconciliation; call what is yielded with whether all of it was done."""
    done = [False]
    with RECONCILE_SECONDS.labels(controller).time():
        try:
            yield lambda succeeded: done.__setitem__(0, succeeded)
        finally:
            RECONCILES.labels(controller, "success" if done[0] else "error").inc()


def exposition(accept: str) -> tuple[str, bytes]:
    """Return content type and metrics, in the format that an Accept header asks for."""
    try:
        encode, content_type = choose_encoder(accept)
    except ValueError:  # a version that is none
        encode, content_type = choose_encoder("")
    return content_type, encode(REGISTRY)
