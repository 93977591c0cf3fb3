"""The engine of the HCA, native code: what it can be asked for, by ctypes.

Everything returned is to be freed in the reverse order of its making.
"""

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NewType

from vgpu_sim.hal.hca import (
    HCA_GIDS,
    HcaCreated,
    HcaMrCreate,
    HcaQpAttributes,
    HcaQpCreate,
    HcaWire,
    HcaWireCounts,
)

LIBRARY_PATH = Path(__file__).parent.parent / "native" / "lib" / "libtessera_hca.so"

EngineClient = NewType("EngineClient", int)
EngineCq = NewType("EngineCq", int)
EngineSegment = NewType("EngineSegment", int)
EngineRegion = NewType("EngineRegion", int)
EngineQp = NewType("EngineQp", int)
EngineWire = NewType("EngineWire", int)

_P, _I, _U32, _U64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_uint64
_SIGNATURES = {
    "hca_new": (_P, []),
    "hca_free": (None, [_P]),
    "hca_client_new": (_P, [_P, _I, _I, _I, ctypes.c_char_p]),
    "hca_client_free": (None, [_P, _P]),
    "hca_cq_new": (_P, [_P, _P, _U32, _I, _U64, _U32, _I]),
    "hca_cq_free": (None, [_P, _P]),
    "hca_segment_new": (_P, [_P, _I, _U64]),
    "hca_segment_free": (None, [_P, _P]),
    "hca_region_new": (_P, [_P, _P, _U32, _P, _P]),
    "hca_region_free": (None, [_P, _P]),
    "hca_qp_new": (_P, [_P, _P, _P, _P, _I, _P, _P]),
    "hca_qp_set": (_I, [_P, _P, _U32, _P]),
    "hca_qp_state": (_U32, [_P, _P]),
    "hca_qp_free": (None, [_P, _P]),
    "hca_wire_new": (_P, [_P, _P]),
    "hca_wire_free": (None, [_P, _P]),
    "hca_wire_counts": (None, [_P, _P, _P]),
    "hca_counters": (None, [_P, _P, _P]),
}


class Engine:
    """The engine and its thread, until ``close``."""

    def __init__(self, library: Path = LIBRARY_PATH) -> None:
        """Start it. Raises OSError where the library or a resource is missing."""
        self._library = ctypes.CDLL(str(library), use_errno=True)
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments
        self._engine = self._made(self._library.hca_new(), "the HCA's engine")

    def close(self) -> None:
        """End the thread; nothing may be left in the engine."""
        self._library.hca_free(self._engine)

    def add_client(
        self, page_fd: int, doorbell_fd: int, async_fd: int, gids: Sequence[bytes]
    ) -> EngineClient:
        """Serve a client whose page, doorbell pipe and event pipe these are. Raises OSError."""
        joined = b"".join(gids)
        assert len(joined) == HCA_GIDS * 16
        made = self._library.hca_client_new(self._engine, page_fd, doorbell_fd, async_fd, joined)
        return EngineClient(self._made(made, "a client"))

    def remove_client(self, client: EngineClient) -> None:
        """Forget a client, after its objects."""
        self._library.hca_client_free(self._engine, client)

    def add_cq(
        self,
        client: EngineClient,
        handle: int,
        page_fd: int,
        page_bytes: int,
        count: int,
        notify_fd: int,
    ) -> EngineCq:
        """Add a completion queue of ``count`` entries; ``notify_fd`` -1: none. Raises OSError."""
        made = self._library.hca_cq_new(
            self._engine, client, handle, page_fd, page_bytes, count, notify_fd
        )
        return EngineCq(self._made(made, "a completion queue"))

    def remove_cq(self, cq: EngineCq) -> None:
        """Remove a completion queue that no queue pair has."""
        self._library.hca_cq_free(self._engine, cq)

    def add_segment(self, fd: int, size: int) -> EngineSegment:
        """Map memory that regions will lie in. Raises OSError."""
        made = self._library.hca_segment_new(self._engine, fd, size)
        return EngineSegment(self._made(made, "memory"))

    def remove_segment(self, segment: EngineSegment) -> None:
        """Unmap memory that no region lies in."""
        self._library.hca_segment_free(self._engine, segment)

    def add_region(
        self,
        client: EngineClient,
        key: int,
        wanted: HcaMrCreate,
        segments: Sequence[EngineSegment],
    ) -> EngineRegion:
        """Register checked pieces, each in the segment of its place. Raises OSError."""
        listed = (ctypes.c_void_p * len(segments))(*segments)
        made = self._library.hca_region_new(self._engine, client, key, ctypes.byref(wanted), listed)
        return EngineRegion(self._made(made, "a memory region"))

    def remove_region(self, region: EngineRegion) -> None:
        """Let nobody reach a region any more."""
        self._library.hca_region_free(self._engine, region)

    def add_qp(
        self,
        client: EngineClient,
        wanted: HcaQpCreate,
        made: HcaCreated,
        page_fd: int,
        send_cq: EngineCq,
        recv_cq: EngineCq,
    ) -> EngineQp:
        """Add a queue pair in RESET. Raises OSError."""
        added = self._library.hca_qp_new(
            *(self._engine, client, ctypes.byref(wanted), ctypes.byref(made), page_fd),
            *(send_cq, recv_cq),
        )
        return EngineQp(self._made(added, "a queue pair"))

    def set_qp(self, qp: EngineQp, before: int, attributes: HcaQpAttributes) -> bool:
        """Change attributes unless the state is not ``before`` any more; tell whether it was."""
        return bool(self._library.hca_qp_set(self._engine, qp, before, ctypes.byref(attributes)))

    def state_of(self, qp: EngineQp) -> int:
        """Return a queue pair's state: the engine may have put it into ERR."""
        state: int = self._library.hca_qp_state(self._engine, qp)
        return state

    def remove_qp(self, qp: EngineQp) -> None:
        """Remove a queue pair; requests that it has are forgotten."""
        self._library.hca_qp_free(self._engine, qp)

    def add_wire(self, wanted: HcaWire) -> EngineWire:
        """Let queue pairs with an address reach others elsewhere. Raises OSError."""
        made = self._library.hca_wire_new(self._engine, ctypes.byref(wanted))
        return EngineWire(self._made(made, "a wire"))

    def remove_wire(self, wire: EngineWire) -> None:
        """End what is connected over it."""
        self._library.hca_wire_free(self._engine, wire)

    def wire_counts(self, wire: EngineWire) -> HcaWireCounts:
        """Return the packets of a wire so far."""
        counts = HcaWireCounts()
        self._library.hca_wire_counts(self._engine, wire, ctypes.byref(counts))
        return counts

    def counters(self) -> tuple[int, int]:
        """Return how often the engine went to sleep, and how many turns it took."""
        sleeps, turns = ctypes.c_uint64(), ctypes.c_uint64()
        self._library.hca_counters(self._engine, ctypes.byref(sleeps), ctypes.byref(turns))
        return sleeps.value, turns.value

    @staticmethod
    def _made(pointer: int | None, what: str) -> int:
        if not pointer:
            number = ctypes.get_errno()
            raise OSError(number, f"{what}: {os.strerror(number)}")
        return pointer
