"""Counters of inference servers, in the names that the usual servers give them."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from console.model.exposition import Labels, Series, read_samples

_LARGEST: Final = 1e15  # a counter above is no count of requests or seconds
_MOST_BUCKETS: Final = 200
_MOST_MODELS: Final = 4
_PATH_LABELS: Final = ("handler", "path", "endpoint", "route", "uri")
_PROBES: Final = ("/metrics", "/health", "/healthz", "/livez", "/readyz", "/ready", "/live")


@dataclass(frozen=True, slots=True)
class Histogram:
    """Cumulative counts by upper bound in seconds, in ascending order; the last bound is ∞."""

    buckets: tuple[tuple[float, float], ...]
    count: float
    sum_s: float


@dataclass(frozen=True, slots=True)
class Totals:
    """What a server has counted since it started.

    ``quantiles`` are latencies in seconds that the server itself computes (a summary), and
    ``busy_s`` is the sum of latencies if it counts nothing but that.
    """

    server: str
    requests: float
    models: tuple[str, ...] = ()
    latency: Histogram | None = None
    first_token: Histogram | None = None
    quantiles: Mapping[float, float] = field(default_factory=dict)
    busy_s: float | None = None


@dataclass(frozen=True, slots=True)
class _Server:
    """The names of one server's series. ``scale`` converts their unit to seconds."""

    name: str
    requests: str
    latency: str = ""
    scale: float = 1.0
    first_token: str = ""
    first_token_scale: float = 1.0
    busy: str = ""
    has_probes: bool = False

    @property
    def histograms(self) -> Iterator[str]:
        return filter(None, (self.latency, self.first_token))


# A server that also has the common names of its HTTP library is recognized by its own.
_SERVERS: Final = (
    _Server(
        "vLLM",
        "vllm:request_success_total",
        "vllm:e2e_request_latency_seconds",
        first_token="vllm:time_to_first_token_seconds",
    ),
    _Server(
        "Triton",
        "nv_inference_request_success",
        "nv_inference_request_summary_us",
        scale=1e-6,
        first_token="nv_inference_first_response_histogram_ms",
        first_token_scale=1e-3,
        busy="nv_inference_request_duration_us",
    ),
    _Server(
        "TorchServe",
        "ts_inference_requests_total",
        scale=1e-6,
        busy="ts_inference_latency_microseconds",
    ),
    _Server("TGI", "tgi_request_count", "tgi_request_duration"),
    _Server("HTTP", "http_requests_total", "http_request_duration_seconds", has_probes=True),
)
NAMES: Final = tuple(server.requests for server in _SERVERS)
_WANTED: Final = frozenset(
    [name for server in _SERVERS for name in (server.requests, server.busy, *server.histograms)]
    + [
        f"{name}_{part}"
        for server in _SERVERS
        for name in server.histograms
        for part in ("bucket", "count", "sum")
    ]
) - {""}


def read_totals(text: str) -> Totals | None:
    """Return the counters of the first server whose names a text has, or None."""
    series = read_samples(text, _WANTED)
    for server in _SERVERS:
        totals = _totals(server, series)
        if totals is not None:
            return totals
    return None


def _totals(server: _Server, series: Series) -> Totals | None:
    is_counted = _is_no_probe if server.has_probes else _is_any
    latency = _histogram(series, server.latency, server.scale, is_counted)
    if server.requests in series:
        requests = _add(series, server.requests, is_counted)
    elif latency is not None:
        requests = latency.count
    else:
        return None
    counted = (server.requests, f"{server.latency}_count")
    return Totals(
        server.name,
        requests,
        _models(labels for name in counted for labels, _ in series.get(name, ())),
        latency if latency is not None and latency.buckets else None,
        _histogram(series, server.first_token, server.first_token_scale, is_counted),
        _quantiles(series, server.latency, server.scale, is_counted),
        _add(series, server.busy, is_counted) * server.scale if server.busy in series else None,
    )


def _is_any(labels: Labels) -> bool:
    del labels
    return True


def _is_no_probe(labels: Labels) -> bool:
    """Return whether a series counts other requests than scrapes and probes."""
    return not any(labels.get(label) in _PROBES for label in _PATH_LABELS)


def _values(
    series: Series, name: str, is_counted: Callable[[Labels], bool]
) -> Iterator[tuple[Labels, float]]:
    for labels, value in series.get(name, ()):
        if 0 <= value <= _LARGEST and is_counted(labels):
            yield labels, value


def _add(series: Series, name: str, is_counted: Callable[[Labels], bool]) -> float:
    return sum(value for _, value in _values(series, name, is_counted))


def _histogram(
    series: Series, name: str, scale: float, is_counted: Callable[[Labels], bool]
) -> Histogram | None:
    """Return the sum of a histogram's series; without buckets that of its counts."""
    if not name or f"{name}_count" not in series:
        return None
    sums: dict[float, float] = {}
    for labels, value in _values(series, f"{name}_bucket", is_counted):
        bound = _parse(labels.get("le", ""))
        if bound is not None and (bound in sums or math.isinf(bound) or len(sums) < _MOST_BUCKETS):
            sums[bound] = sums.get(bound, 0.0) + value
    if math.inf not in sums:  # the total is not known, as for PromQL
        sums.clear()
    buckets = tuple((bound * scale, number) for bound, number in sorted(sums.items()))
    count = _add(series, f"{name}_count", is_counted)
    return Histogram(buckets, count, _add(series, f"{name}_sum", is_counted) * scale)


def _quantiles(
    series: Series, name: str, scale: float, is_counted: Callable[[Labels], bool]
) -> Mapping[float, float]:
    """Return the quantiles of a summary, of several models the largest."""
    quantiles: dict[float, float] = {}
    for labels, value in _values(series, name, is_counted):
        quantile = _parse(labels.get("quantile", ""))
        if quantile is not None:
            quantiles[quantile] = max(quantiles.get(quantile, 0.0), value * scale)
    return quantiles


def _parse(text: str) -> float | None:
    try:
        number = float(text[:40])
    except ValueError:
        return None
    return number if number >= 0 else None  # NaN is not


def _models(every: Iterable[Labels]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for labels in every:
        name = labels.get("model_name") or labels.get("model")
        if name and len(names) < _MOST_MODELS:
            names[name[:253]] = None
    return tuple(sorted(names))
