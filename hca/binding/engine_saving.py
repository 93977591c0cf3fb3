"""Save the state of an engine's objects for a successor, and load a predecessor's."""

import ctypes
import errno

from hca.contract.hca_engine import HcaSavedCq, HcaSavedQp, HcaSavedSrq, HcaSavedWindow


class Saving:
    """The methods of ``Engine`` that save and load the state of its objects for a handover.

    An object is passed to these methods as the handle that the engine returned for it.
    """

    _library: ctypes.CDLL
    _engine: int

    def suspend(self) -> None:
        """Suspend all work of the engine until ``resume``; requests stay in their queues."""
        self._library.hca_hold(self._engine)

    def resume(self) -> None:
        """Resume the engine's work after ``suspend``."""
        self._library.hca_release(self._engine)

    def save_cq(self, cq: int) -> HcaSavedCq:
        """Return a completion queue's handover state; the engine must be suspended
        (``suspend``).
        """
        saved = HcaSavedCq()
        self._library.hca_cq_save(self._engine, cq, ctypes.byref(saved))
        return saved

    def load_cq(self, cq: int, saved: HcaSavedCq) -> None:
        """Load a completion queue's handover state, which a predecessor has saved.

        The engine must be suspended (``suspend``).
        """
        self._library.hca_cq_load(self._engine, cq, ctypes.byref(saved))

    def save_qp(self, qp: int) -> HcaSavedQp:
        """Return a queue pair's handover state; the engine must be suspended (``suspend``)."""
        saved = HcaSavedQp()
        self._library.hca_qp_save(self._engine, qp, ctypes.byref(saved))
        return saved

    def load_qp(self, qp: int, saved: HcaSavedQp) -> None:
        """Load a queue pair's handover state, which a predecessor has saved.

        The engine must be suspended (``suspend``), and the queue pair's wires must be restored
        already. Raises OSError.
        """
        if not self._library.hca_qp_load(self._engine, qp, ctypes.byref(saved)):
            raise OSError(
                errno.ENETUNREACH, "the queue pair's wire is missing, or memory is exhausted"
            )

    def save_srq(self, srq: int) -> HcaSavedSrq:
        """Return a shared receive queue's handover state; the engine must be suspended
        (``suspend``).
        """
        saved = HcaSavedSrq()
        self._library.hca_srq_save(self._engine, srq, ctypes.byref(saved))
        return saved

    def load_srq(self, srq: int, saved: HcaSavedSrq) -> None:
        """Load a shared receive queue's handover state, which a predecessor has saved.

        The engine must be suspended (``suspend``).
        """
        self._library.hca_srq_load(self._engine, srq, ctypes.byref(saved))

    def save_window(self, window: int) -> HcaSavedWindow:
        """Return a memory window's binding; the engine must be suspended (``suspend``)."""
        saved = HcaSavedWindow()
        self._library.hca_window_save(self._engine, window, ctypes.byref(saved))
        return saved

    def load_window(self, window: int, saved: HcaSavedWindow) -> None:
        """Load a memory window's binding, which a predecessor has saved.

        The regions must be restored already, and the engine must be suspended (``suspend``).
        """
        self._library.hca_window_load(self._engine, window, ctypes.byref(saved))
