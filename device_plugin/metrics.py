"""The node agent's counters for ``/metrics``.

The agent and the processes that serve the kubelet count in memory that they share: the supervisors
of the pod's two containers map the same file before they fork them (ADR 222). Counts survive the
restart of each. Each counter is written by one process at a time.
"""

import itertools
import mmap
import os
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Final, Literal, get_args

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from vgpu_sim.records import dataclass

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
class CounterDeclaration:
    """The declaration of a counter.

    ``values`` are the values of each label; each combination of them is a series. ``unit`` is
    for docs/metrics-reference.md, which is generated from ``COUNTERS``.
    """

    name: str
    help: str
    unit: str
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def series(self) -> Iterator[tuple["CounterDeclaration", tuple[str, ...]]]:
        """Yield a series for each combination of the labels' values."""
        for labels in itertools.product(*self.values.values()):
            yield self, labels


COUNTERS: Final = (
    _KUBELET_CALLS := CounterDeclaration(
        "tessera_agent_kubelet_calls",
        "Calls between the kubelet and the agent, in either direction.",
        "calls",
        {"call": get_args(Call), "result": _RESULTS},
    ),
    _REGISTRATIONS := CounterDeclaration(
        "tessera_agent_registrations",
        "Answers of the kubelet to a resource that wants to be served.",
        "answers",
        {"result": _RESULTS},
    ),
    _DEVICES_ALLOCATED := CounterDeclaration(
        "tessera_agent_devices_allocated", "Devices that the kubelet allocated.", "devices"
    ),
    _HEALTH_CHANGES := CounterDeclaration(
        "tessera_agent_health_changes",
        "Devices whose health changed while the kubelet listened.",
        "devices",
        {"to": ("Healthy", "Unhealthy")},
    ),
    _PASSES := CounterDeclaration(
        "tessera_agent_passes",
        "Passes of the agent's loop over the node.",
        "passes",
        {"result": _RESULTS},
    ),
    _PASS_SECONDS := CounterDeclaration(
        "tessera_agent_pass_seconds", "Time that these passes took.", "s"
    ),
)
_VALUE: Final = struct.Struct("d")


class AgentMetrics(Collector):
    """The values of all counters, which begin at 0.

    Forked processes share the values, and so do processes that share a directory (``share``).
    ``_lock`` serializes the threads of one process. No two processes count the same event.
    """

    def __init__(self) -> None:
        self._places = {
            (row.name, labels): index * _VALUE.size
            for index, (row, labels) in enumerate(_every_series())
        }
        self._values = mmap.mmap(-1, mmap.PAGESIZE)  # shared with forked processes
        self._lock = threading.Lock()

    def share(self, directory: Path) -> None:
        """Keep the values in a file in ``directory`` from now on.

        The pod's containers share the directory: the agent exports what the process in the other
        container counts while that one serves the kubelet. Raises OSError.
        """
        descriptor = os.open(directory / "counters", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, mmap.PAGESIZE)
            self._values = mmap.mmap(descriptor, mmap.PAGESIZE)
        finally:
            os.close(descriptor)

    @contextmanager
    def counting_kubelet_call(self, call: Call) -> Iterator[None]:
        """Count a call to or from the kubelet, which the body of the ``with`` statement makes or
        serves.

        The call counts as failed if the body raises.
        """
        with self._count_result(_KUBELET_CALLS, call):
            yield

    def count_pass(self, seconds: float, *, succeeded: bool) -> None:
        """Count a pass of the reconcile loop, and its duration."""
        self._add(_PASSES, "ok" if succeeded else "failed")
        self._add(_PASS_SECONDS, amount=seconds)

    def count_registration(self, *, accepted: bool) -> None:
        """Count the kubelet's answer to a registration."""
        self._add(_REGISTRATIONS, "ok" if accepted else "failed")

    def count_allocation(self, devices: int) -> None:
        """Count devices that the kubelet has allocated."""
        self._add(_DEVICES_ALLOCATED, amount=devices)

    def count_health_change(self, *, healthy: bool) -> None:
        """Count a change of a device's health, to healthy or to unhealthy."""
        self._add(_HEALTH_CHANGES, "Healthy" if healthy else "Unhealthy")

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families of all counters."""
        for row in COUNTERS:
            family = CounterMetricFamily(row.name, row.help, labels=tuple(row.values))
            for _, labels in row.series:
                family.add_metric(labels, self._value(row, *labels))
            yield family

    @contextmanager
    def _count_result(self, row: CounterDeclaration, *labels: str) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._add(row, *labels, "failed")
            raise
        self._add(row, *labels, "ok")

    def _value(self, row: CounterDeclaration, *labels: str) -> float:
        (value,) = _VALUE.unpack_from(self._values, self._places[row.name, labels])
        return float(value)

    def _add(self, row: CounterDeclaration, *labels: str, amount: float = 1.0) -> None:
        with self._lock:
            place = self._places[row.name, labels]
            value = self._value(row, *labels) + amount
            _VALUE.pack_into(self._values, place, value)


def _every_series() -> Iterator[tuple[CounterDeclaration, tuple[str, ...]]]:
    for row in COUNTERS:
        yield from row.series


METRICS: Final = AgentMetrics()
"""The process's counters, created when the supervisor imports this module."""
