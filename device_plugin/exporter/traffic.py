"""hcad's counters of RDMA traffic and denials, read from its telemetry socket.

The classes are the schema of the document of ``hca.daemon.serving.traffic``.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from device_plugin.backends.administration import Administration
from device_plugin.errors import AgentError, HcadError, HcadUnreachable
from device_plugin.exporter.source import FRESH_S
from vgpu_sim.hal.management.documents import DocumentError, read
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class PortTraffic:
    """The counters of one HCA function that a pod holds; a function has one port.

    ``local_*`` count data that was copied within the node and did not pass the port.
    """

    function: str
    pod: str
    received_bytes: int
    sent_bytes: int
    received_packets: int
    sent_packets: int
    local_received_bytes: int
    local_sent_bytes: int
    queue_pairs: int
    region_bytes: int


@dataclass(frozen=True, slots=True)
class PairTraffic:
    """The completed requests of one verb from one pod to another."""

    source: str
    destination: str
    verb: str
    operations: int
    bytes: int


@dataclass(frozen=True, slots=True)
class PairDenials:
    """The denied requests of one verb from one pod to another, by the policies that deny it."""

    source: str
    destination: str
    verb: str
    policies: tuple[str, ...]
    audited: bool
    operations: int


@dataclass(frozen=True, slots=True)
class RdmaTraffic:
    """All counters of one hcad; ``unlisted_*`` are the sums of those that it does not list."""

    functions: tuple[PortTraffic, ...]
    flows: tuple[PairTraffic, ...]
    denials: tuple[PairDenials, ...]
    unlisted_operations: int
    unlisted_bytes: int
    unlisted_denials: int
    revoked: int


class _Hcad(Administration):
    daemon = "hcad"
    refused = HcadError
    unreachable = HcadUnreachable


class TrafficSource:
    """Queries hcad at most once in each period, however many scrapes there are.

    Thread-safe (``_lock``).
    """

    def __init__(
        self, socket: Path, timeout_s: float = 2.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = socket
        self._hcad = _Hcad(socket, timeout_s)
        self._clock = clock
        self._lock = threading.Lock()
        self._queried_at = float("-inf")
        self._last: RdmaTraffic | AgentError | None = None

    def traffic(self) -> RdmaTraffic | None:
        """Return hcad's counters, at most one period old; None if the node has no hcad.

        Raises:
            HcadUnreachable: hcad does not answer.
            HcadError: hcad refuses the query, or has another version.
        """
        with self._lock:
            if self._clock() - self._queried_at >= FRESH_S:
                self._last = self._query()
                self._queried_at = self._clock()
            if isinstance(self._last, AgentError):
                raise self._last
            return self._last

    def close(self) -> None:
        """Close the connection to hcad; the next query connects again."""
        self._hcad.close()

    def _query(self) -> RdmaTraffic | AgentError | None:
        if not self._path.exists():
            return None
        try:
            return read(RdmaTraffic, self._hcad.call("traffic"), "traffic")
        except DocumentError as err:
            return HcadError("mismatch", f"traffic of another version: {err}")
        except AgentError as err:
            return err
