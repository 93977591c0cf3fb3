"""Inference pods: requests per second and latencies between two readings, beside their slices."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from console.model.inference import History, Target
from console.model.pods import PodRecord
from console.model.serving_metrics import Histogram, Totals
from console.views.details import FoundSlice, every_slice
from gpu_operator.controllers.common.world import World

SHOWN: Final = 64  # pods
QUANTILES: Final = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Latency:
    """A latency in seconds; ``is_above`` if it is only known to be larger than this."""

    seconds: float
    is_above: bool = False

    def __str__(self) -> str:
        return f"{'> ' * self.is_above}{format_latency(self.seconds)}"


@dataclass(frozen=True, slots=True)
class Figures:
    """What a pod's readings state. None is a figure that they do not have.

    ``window_s`` is the time between the readings that are compared; None if there is one only.
    ``source`` names the origin of the latencies.
    """

    server: str = ""
    models: tuple[str, ...] = ()
    window_s: float | None = None
    rate: float | None = None
    latencies: tuple[Latency | None, ...] = (None,) * len(QUANTILES)
    mean: Latency | None = None
    first_token: Latency | None = None
    source: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that exposes metrics, and the slices that it holds."""

    target: Target
    slices: tuple[FoundSlice, ...]

    @property
    def key(self) -> str:
        """Return "namespace/name"."""
        return f"{self.target.namespace}/{self.target.name}"

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes of the slices."""
        return tuple(sorted({found_slice.gpu.spec.node_name for found_slice in self.slices}))


@dataclass(frozen=True, slots=True)
class Row:
    """One pod's figures. ``busy`` is the activity of each slice's engine, from 0 to 1."""

    pod: Pod
    figures: Figures
    busy: tuple[float, ...] = ()

    @property
    def utilisation(self) -> str:
        """Return the activity in percent; of several slices the least and the largest."""
        percentages = sorted({round(100 * share) for share in self.busy})
        return (
            " to ".join(
                f"{percent} %" for percent in dict.fromkeys((percentages[0], percentages[-1]))
            )
            if percentages
            else ""
        )


def find_pods(
    world: World, records: Iterable[PodRecord], is_chosen: Callable[[PodRecord], bool]
) -> list[Pod]:
    """Return the pods that expose metrics and hold slices, by namespace and name."""
    chosen = {
        record.key: record for record in records if record.metrics is not None and is_chosen(record)
    }
    if not chosen:
        return []
    slices_by_pod: dict[str, list[FoundSlice]] = defaultdict(list)
    for found_slice in every_slice(world):
        for key in {f"{holder.namespace}/{holder.name}" for holder in found_slice.holders}:
            if key in chosen:
                slices_by_pod[key].append(found_slice)
    return [
        Pod(_target(chosen[key]), tuple(slices)) for key, slices in sorted(slices_by_pod.items())
    ]


def make_rows(
    pods: Iterable[Pod],
    history: Callable[[Target], History],
    busy: Mapping[str, Sequence[float]],
) -> list[Row]:
    """Return the rows of a table, the pods with most requests first."""
    rows = [Row(pod, figures(history(pod.target)), tuple(busy.get(pod.key, ()))) for pod in pods]
    return sorted(
        rows,
        key=lambda row: -math.inf if row.figures.rate is None else row.figures.rate,
        reverse=True,
    )


def figures(history: History) -> Figures:
    """Return the figures of a pod's readings: between the first and the last, if there are two."""
    if not history.readings:
        return Figures(problem=history.problem)
    (began, first), (ended, last) = history.readings[0], history.readings[-1]
    window_s = ended - began if len(history.readings) > 1 else None
    if not window_s:  # what the server has counted since it started
        first, window_s = Totals(last.server, 0.0), None
    requests = last.requests - first.requests
    latency = _subtract(last.latency, first.latency)
    latencies: tuple[Latency | None, ...] = tuple(quantile(latency, q) for q in QUANTILES)
    source = "" if latency is None else "histogram"
    if latency is None and last.quantiles:
        latencies = tuple(
            Latency(last.quantiles[q]) if q in last.quantiles else None for q in QUANTILES
        )
        source = "summary"
    return Figures(
        server=last.server,
        models=last.models,
        window_s=window_s,
        rate=requests / window_s if window_s else None,
        latencies=latencies,
        mean=_mean(last, first, latency, requests),
        first_token=quantile(_subtract(last.first_token, first.first_token), 0.95),
        source=source,
        problem=history.problem,
    )


def quantile(histogram: Histogram | None, q: float) -> Latency | None:
    """Return a quantile as PromQL's ``histogram_quantile`` does; None without observations."""
    if histogram is None or len(histogram.buckets) < 2 or histogram.buckets[-1][1] <= 0:
        return None
    rank = q * histogram.buckets[-1][1]
    lower, below = 0.0, 0.0
    for bound, number in histogram.buckets:
        if number >= rank and number > below:
            if math.isinf(bound):
                return Latency(lower, is_above=True)
            return Latency(lower + (bound - lower) * (rank - below) / (number - below))
        lower, below = bound, number
    return None


def format_latency(seconds: float) -> str:
    """Return a latency with three digits, in the unit that suits."""
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= 0.9995 * size:
            return f"{_three(seconds / size)} {unit}"
    return f"{_three(seconds * 1e6)} µs"


def format_rate(rate: float) -> str:
    """Return requests per second with three digits."""
    return _three(rate)


def _three(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    if 0 < value < 0.001:
        return "< 0.001"
    if 0 < value < 0.995:
        return f"{value:.3g}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def _target(record: PodRecord) -> Target:
    assert record.metrics is not None
    return Target(record.namespace, record.name, record.uid, record.metrics)


def _subtract(last: Histogram | None, first: Histogram | None) -> Histogram | None:
    """Return what a histogram has observed since an earlier reading.

    A hostile server's counts need not grow; the result's do.
    """
    if last is None or first is None:
        return last
    earlier_counts = dict(first.buckets)
    buckets, highest = [], 0.0
    for bound, number in last.buckets:
        highest = max(highest, number - earlier_counts.get(bound, 0.0))
        buckets.append((bound, highest))
    return Histogram(
        tuple(buckets), max(last.count - first.count, 0.0), max(last.sum_s - first.sum_s, 0.0)
    )


def _mean(
    last: Totals, first: Totals, latency: Histogram | None, requests: float
) -> Latency | None:
    if latency is not None:
        return Latency(latency.sum_s / latency.count) if latency.count > 0 else None
    if last.busy_s is None or requests <= 0:
        return None
    return Latency(max(last.busy_s - (first.busy_s or 0.0), 0.0) / requests)
