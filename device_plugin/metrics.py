"""What the node agent counts, for ``/metrics``.

Both of its processes count in memory that they share with the supervisor, which made it before it
forked them: what an agent has counted is still there when it is started again. Each counter is
written in one process only.
"""

import itertools
import mmap
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

Call = Literal[
    "Allocate",
    "GetPreferredAllocation",
    "ListAndWatch",
    "List",
    "GetAllocatableResources",
    "NodePrepareResources",
    "NodeUnprepareResources",
]
Result = Literal["ok", "failed"]
_RESULTS: Final[tuple[Result, ...]] = get_args(Result)


@dataclass(frozen=True, slots=True)
class Declared:
    """A counter: ``values`` are those of each label, of which each combination is a series.

    ``unit`` is for docs/metrics-reference.md, which is generated of ``COUNTERS``.
    """

    name: str
    help: str
    unit: str
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def series(self) -> Iterator[tuple["Declared", tuple[str, ...]]]:
        """Yield each combination of labels' values."""
        for labels in itertools.product(*self.values.values()):
            yield self, labels


COUNTERS: Final = (
    _KUBELET_CALLS := Declared(
        "tessera_agent_kubelet_calls",
        "Calls between the kubelet and the agent, in either direction.",
        "calls",
        {"call": get_args(Call), "result": _RESULTS},
    ),
    _REGISTRATIONS := Declared(
        "tessera_agent_registrations",
        "Answers of the kubelet to a resource that wants to be served.",
        "answers",
        {"result": _RESULTS},
    ),
    _DEVICES_ALLOCATED := Declared(
        "tessera_agent_devices_allocated", "Devices that the kubelet allocated.", "devices"
    ),
    _HEALTH_CHANGES := Declared(
        "tessera_agent_health_changes",
        "Devices whose health changed while the kubelet listened.",
        "devices",
        {"to": ("Healthy", "Unhealthy")},
    ),
    _PASSES := Declared(
        "tessera_agent_passes",
        "Passes of the agent's loop over the node.",
        "passes",
        {"result": _RESULTS},
    ),
    _PASS_SECONDS := Declared("tessera_agent_pass_seconds", "Time that these passes took.", "s"),
)
_VALUE: Final = struct.Struct("d")


class AgentMetrics(Collector):
    """All counters, from 0. Threads of a process take turns (``_lock``)."""

    def __init__(self) -> None:
        self._places = {
            (row.name, labels): index * _VALUE.size
            for index, (row, labels) in enumerate(_every_series())
        }
        self._values = mmap.mmap(-1, mmap.PAGESIZE)  # shared with whoever is forked
        self._lock = threading.Lock()

    @contextmanager
    def kubelet_call(self, call: Call) -> Iterator[None]:
        """Count a call by whether it raises."""
        with self._counted(_KUBELET_CALLS, call):
            yield

    def passed(self, seconds: float, *, succeeded: bool) -> None:
        """Count a pass of the loop."""
        self._add(_PASSES, "ok" if succeeded else "failed")
        self._add(_PASS_SECONDS, amount=seconds)

    def registered(self, *, accepted: bool) -> None:
        """Count what the kubelet said to a registration."""
        self._add(_REGISTRATIONS, "ok" if accepted else "failed")

    def allocated(self, devices: int) -> None:
        """Count devices that were allocated."""
        self._add(_DEVICES_ALLOCATED, amount=devices)

    def health_changed(self, *, healthy: bool) -> None:
        """Count a device whose health is another now."""
        self._add(_HEALTH_CHANGES, "Healthy" if healthy else "Unhealthy")

    def collect(self) -> Iterator[Metric]:
        """Yield all families."""
        for row in COUNTERS:
            family = CounterMetricFamily(row.name, row.help, labels=tuple(row.values))
            for _, labels in row.series:
                family.add_metric(labels, self._value(row, *labels))
            yield family

    @contextmanager
    def _counted(self, row: Declared, *labels: str) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._add(row, *labels, "failed")
            raise
        self._add(row, *labels, "ok")

    def _value(self, row: Declared, *labels: str) -> float:
        (value,) = _VALUE.unpack_from(self._values, self._places[row.name, labels])
        return float(value)

    def _add(self, row: Declared, *labels: str, amount: float = 1.0) -> None:
        with self._lock:
            place = self._places[row.name, labels]
            value = self._value(row, *labels) + amount
            _VALUE.pack_into(self._values, place, value)


def _every_series() -> Iterator[tuple[Declared, tuple[str, ...]]]:
    for row in COUNTERS:
        yield from row.series


METRICS: Final = AgentMetrics()
"""The process's own, made when the supervisor imports this."""
