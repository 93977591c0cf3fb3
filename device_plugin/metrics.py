"""What the node agent counts, for ``/metrics``.

Both of its processes count in memory that they share with the supervisor, which made it before it
forked them: what an agent has counted is still there when it is started again. Each counter is
written in one process only.
"""

import mmap
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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
_NAMES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "tessera_agent_kubelet_calls": (
        "Calls between the kubelet and the agent, in either direction.",
        ("call", "result"),
    ),
    "tessera_agent_registrations": (
        "Answers of the kubelet to a resource that wants to be served.",
        ("result",),
    ),
    "tessera_agent_devices_allocated": ("Devices that the kubelet allocated.", ()),
    "tessera_agent_health_changes": (
        "Devices whose health changed while the kubelet listened.",
        ("to",),
    ),
    "tessera_agent_passes": ("Passes of the agent's loop over the node.", ("result",)),
    "tessera_agent_pass_seconds": ("Time that these passes took.", ()),
}
_CALLS: Final[tuple[Call, ...]] = get_args(Call)
_RESULTS: Final[tuple[Result, ...]] = ("ok", "failed")
_ROWS: Final = (
    *(("tessera_agent_kubelet_calls", (call, result)) for call in _CALLS for result in _RESULTS),
    *(("tessera_agent_registrations", (result,)) for result in _RESULTS),
    ("tessera_agent_devices_allocated", ()),
    *(("tessera_agent_health_changes", (to,)) for to in ("Healthy", "Unhealthy")),
    *(("tessera_agent_passes", (result,)) for result in _RESULTS),
    ("tessera_agent_pass_seconds", ()),
)
_VALUE: Final = struct.Struct("d")


class AgentMetrics(Collector):
    """All counters, from 0. Threads of a process take turns (``_lock``)."""

    def __init__(self) -> None:
        self._places = {row: index * _VALUE.size for index, row in enumerate(_ROWS)}
        self._values = mmap.mmap(-1, mmap.PAGESIZE)  # shared with whoever is forked
        self._lock = threading.Lock()

    @contextmanager
    def kubelet_call(self, call: Call) -> Iterator[None]:
        """Count a call by whether it raises."""
        with self._counted("tessera_agent_kubelet_calls", call):
            yield

    def passed(self, seconds: float, *, succeeded: bool) -> None:
        """Count a pass of the loop."""
        self._add("tessera_agent_passes", "ok" if succeeded else "failed")
        self._add("tessera_agent_pass_seconds", amount=seconds)

    def registered(self, *, accepted: bool) -> None:
        """Count what the kubelet said to a registration."""
        self._add("tessera_agent_registrations", "ok" if accepted else "failed")

    def allocated(self, devices: int) -> None:
        """Count devices that were allocated."""
        self._add("tessera_agent_devices_allocated", amount=devices)

    def health_changed(self, *, healthy: bool) -> None:
        """Count a device whose health is another now."""
        self._add("tessera_agent_health_changes", "Healthy" if healthy else "Unhealthy")

    def collect(self) -> Iterator[Metric]:
        """Yield all families."""
        families = {
            name: CounterMetricFamily(name, text, labels=labels)
            for name, (text, labels) in _NAMES.items()
        }
        for name, labels in _ROWS:
            families[name].add_metric(labels, self._value(name, *labels))
        yield from families.values()

    @contextmanager
    def _counted(self, name: str, *labels: str) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._add(name, *labels, "failed")
            raise
        self._add(name, *labels, "ok")

    def _value(self, name: str, *labels: str) -> float:
        (value,) = _VALUE.unpack_from(self._values, self._places[name, labels])
        return float(value)

    def _add(self, name: str, *labels: str, amount: float = 1.0) -> None:
        with self._lock:
            place = self._places[name, labels]
            value = self._value(name, *labels) + amount
            _VALUE.pack_into(self._values, place, value)


METRICS: Final = AgentMetrics()
"""The process's own, made when the supervisor imports this."""
