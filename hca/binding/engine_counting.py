"""What an engine has counted: its turns, the work for a function, rows of policies, wires."""

import ctypes
from collections.abc import Sequence

from hca.contract.hca_engine import HcaFlowCounts, HcaWireCounts, HcaWorkCounts


class Counting:
    """Part of ``Engine``: rows and wires are its handles."""

    _library: ctypes.CDLL
    _engine: int

    def counters(self) -> tuple[int, int]:
        """Return how often the engine went to sleep, and how many turns it took."""
        sleeps, turns = ctypes.c_uint64(), ctypes.c_uint64()
        self._library.hca_counters(self._engine, ctypes.byref(sleeps), ctypes.byref(turns))
        return sleeps.value, turns.value

    def work_of(self, gid: bytes) -> HcaWorkCounts:
        """Return the work for the function with an address since ``restart_work``."""
        counts = HcaWorkCounts()
        self._library.hca_work_read(self._engine, gid, ctypes.byref(counts))
        return counts

    def restart_work(self) -> None:
        """Count the work for all functions from zero on."""
        self._library.hca_work_restart(self._engine)

    def read_flows(self, flows: Sequence[int]) -> list[HcaFlowCounts]:
        """Return what rows have counted so far, all at one moment."""
        counts = (HcaFlowCounts * len(flows))()
        listed = (ctypes.c_void_p * len(flows))(*flows)
        self._library.hca_flows_read(self._engine, listed, len(flows), counts)
        return list(counts)

    def wire_counts(self, wire: int) -> HcaWireCounts:
        """Return the packets of a wire so far."""
        counts = HcaWireCounts()
        self._library.hca_wire_counts(self._engine, wire, ctypes.byref(counts))
        return counts
