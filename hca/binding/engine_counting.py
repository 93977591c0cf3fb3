"""Read the engine's counters: those of iterations, of work per function, of flows and of wires."""

import ctypes
from collections.abc import Sequence

from hca.contract.hca_engine import HcaFlowCounts, HcaWireCounts, HcaWorkCounts


class Counting:
    """The methods of ``Engine`` that read counters.

    A flow or wire is passed to these methods as the handle that the engine returned for it.
    """

    _library: ctypes.CDLL
    _engine: int

    def counters(self) -> tuple[int, int]:
        """Return how often the engine has gone to sleep, and how many iterations it has done."""
        sleeps, turns = ctypes.c_uint64(), ctypes.c_uint64()
        self._library.hca_counters(self._engine, ctypes.byref(sleeps), ctypes.byref(turns))
        return sleeps.value, turns.value

    def work_of(self, gid: bytes) -> HcaWorkCounts:
        """Return the cost of the engine's work for one function since the last ``restart_work``.

        ``gid`` is a GID of the function.
        """
        counts = HcaWorkCounts()
        self._library.hca_work_read(self._engine, gid, ctypes.byref(counts))
        return counts

    def restart_work(self) -> None:
        """Reset the costs that ``work_of`` returns, for all functions."""
        self._library.hca_work_restart(self._engine)

    def read_flows(self, flows: Sequence[int]) -> list[HcaFlowCounts]:
        """Return the counts of some flows, all read at one moment."""
        counts = (HcaFlowCounts * len(flows))()
        listed = (ctypes.c_void_p * len(flows))(*flows)
        self._library.hca_flows_read(self._engine, listed, len(flows), counts)
        return list(counts)

    def wire_counts(self, wire: int) -> HcaWireCounts:
        """Return the packet counts of a wire."""
        counts = HcaWireCounts()
        self._library.hca_wire_counts(self._engine, wire, ctypes.byref(counts))
        return counts
