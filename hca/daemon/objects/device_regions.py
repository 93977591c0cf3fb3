"""Regions in a device's memory: GPUDirect RDMA. It is borrowed, and may be taken back at any time.

Whoever lends it ends the connection that came with it. Then nobody reaches the regions in it any
more, at once: who uses their keys finds what it would find had they been deregistered. Their owner
still has their handles, and removes them as others.
"""

import asyncio
import logging
import socket

from hca.contract import hca
from hca.contract.hca_objects import HcaDeviceSegment
from hca.daemon.common.handover_state import Luggage, Row
from hca.daemon.objects.checks import limit
from hca.daemon.objects.providers import Lent, Providers
from hca.daemon.objects.regions import Regions, Segment

logger = logging.getLogger("tessera.hcad")

_DESCRIPTORS = 2  # the memory's, which is mapped, and the connection


class DeviceRegions(Regions):
    """A client's memory, some of it a device's."""

    providers: Providers | None = None
    """Who device memory is borrowed from, and given back to; None: it has none."""

    def check_device_room(self) -> None:
        """Raise OSError (ENOMEM) where no segment more could be added."""
        limit(self._segments, hca.HCA_MAX_SEGMENTS)

    def add_device(self, lent: Lent) -> HcaDeviceSegment:
        """Make a segment of what was borrowed, which is then its own. Raises OSError.

        It is not counted as host memory of the client: its slice has been charged for it.
        """
        self.check_device_room()
        handle = self._handle()
        self._add_device(handle, lent)
        return HcaDeviceSegment(handle, 0, lent.offset)

    def _add_device(self, handle: int, lent: Lent) -> None:
        self.share.take(_DESCRIPTORS)
        try:
            made = self._engine.add_segment(lent.descriptor, lent.size)
        except OSError:
            self.share.give(_DESCRIPTORS)
            raise
        segment = self._segments[handle] = Segment(made, lent.descriptor, lent.size, lent=lent)
        # Whatever comes over it, the end or a word that nobody should say: it is over.
        loop = asyncio.get_running_loop()
        loop.add_reader(lent.connection.fileno(), self._revoke, handle, segment)

    def _revoke(self, handle: int, segment: Segment) -> None:
        """Let nobody reach the memory any more, and tell who lent it by letting go."""
        revoked = 0
        for region in self._regions.values():
            if handle in region.segments and region.engine is not None:
                self._engine.remove_region(region.engine)
                region.engine = None
                revoked += 1
        self._end_segment(segment)
        logger.info("device_memory_revoked regions=%d", revoked)

    def _end_segment(self, segment: Segment) -> None:
        if segment.lent is not None:
            assert segment.engine is not None
            assert self.providers is not None
            asyncio.get_running_loop().remove_reader(segment.lent.connection.fileno())
            self._engine.remove_segment(segment.engine)
            self.providers.give_back(segment.lent)
            self.share.give(_DESCRIPTORS)
            segment.engine = segment.lent = None
        elif segment.engine is not None:
            super()._end_segment(segment)

    def save_segment(self, handle: int, luggage: Luggage) -> Row:
        """Write one for a successor, with the connection that it lives by."""
        segment = self._segments[handle]
        if segment.engine is None:
            return {"handle": handle, "size": segment.size, "revoked": True}
        row = super().save_segment(handle, luggage)
        if segment.lent is not None:
            row["connection"] = luggage.pack(segment.lent.connection.fileno())
        return row

    def load_segment(self, row: Row, luggage: Luggage) -> None:
        """Take over one of a predecessor's. Raises OSError, ValueError, KeyError."""
        handle = int(row["handle"])
        if row.get("revoked"):
            self._segments[handle] = Segment(None, -1, int(row["size"]))
        elif "connection" in row:
            descriptor = luggage.take(row["file"])
            connection = socket.socket(fileno=luggage.take(row["connection"]))
            connection.setblocking(False)
            self._add_device(handle, Lent(descriptor, 0, int(row["size"]), connection))
        else:
            super().load_segment(row, luggage)
