"""What an engine leaves to its successor, and takes over from its predecessor."""

import ctypes
import errno

from hca.contract.hca_engine import HcaSavedCq, HcaSavedQp, HcaSavedSrq, HcaSavedWindow


class Saving:
    """Part of ``Engine``: objects are its handles."""

    _library: ctypes.CDLL
    _engine: int

    def hold(self) -> None:
        """Work on nothing until ``release``; requests stay where they are."""
        self._library.hca_hold(self._engine)

    def release(self) -> None:
        """Go on."""
        self._library.hca_release(self._engine)

    def save_cq(self, cq: int) -> HcaSavedCq:
        """Return how far a completion queue is; the engine is held."""
        saved = HcaSavedCq()
        self._library.hca_cq_save(self._engine, cq, ctypes.byref(saved))
        return saved

    def load_cq(self, cq: int, saved: HcaSavedCq) -> None:
        """Go on where a predecessor was; the engine is held."""
        self._library.hca_cq_load(self._engine, cq, ctypes.byref(saved))

    def save_qp(self, qp: int) -> HcaSavedQp:
        """Return how far a queue pair is; the engine is held."""
        saved = HcaSavedQp()
        self._library.hca_qp_save(self._engine, qp, ctypes.byref(saved))
        return saved

    def load_qp(self, qp: int, saved: HcaSavedQp) -> None:
        """Go on where a predecessor was; the engine is held, and its wires are there.

        Raises OSError.
        """
        if not self._library.hca_qp_load(self._engine, qp, ctypes.byref(saved)):
            raise OSError(errno.ENETUNREACH, "a queue pair's wire is not there, or no memory")

    def save_srq(self, srq: int) -> HcaSavedSrq:
        """Return how far a shared receive queue is; the engine is held."""
        saved = HcaSavedSrq()
        self._library.hca_srq_save(self._engine, srq, ctypes.byref(saved))
        return saved

    def load_srq(self, srq: int, saved: HcaSavedSrq) -> None:
        """Go on where a predecessor was; the engine is held."""
        self._library.hca_srq_load(self._engine, srq, ctypes.byref(saved))

    def save_window(self, window: int) -> HcaSavedWindow:
        """Return what a memory window opens; the engine is held."""
        saved = HcaSavedWindow()
        self._library.hca_window_save(self._engine, window, ctypes.byref(saved))
        return saved

    def load_window(self, window: int, saved: HcaSavedWindow) -> None:
        """Open what a predecessor's did, after the regions; the engine is held."""
        self._library.hca_window_load(self._engine, window, ctypes.byref(saved))
