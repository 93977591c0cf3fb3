"""Memory regions in GPU memory (GPUDirect RDMA), which the exporter may revoke at any time.

The exporter revokes memory by closing the connection that it passed with the memory. From then
on no request reaches the regions in that memory: a request with one of their keys fails as after
a deregistration. The client keeps the regions' handles and destroys them as usual.
"""

import socket
from functools import partial

from hca.contract import hca
from hca.contract.hca_objects import HcaDeviceSegment
from hca.daemon.common.handover_state import HandoverState, Row
from hca.daemon.common.steps import Steps
from hca.daemon.objects.checks import check_room
from hca.daemon.objects.providers import ImportedMemory, Providers
from hca.daemon.objects.regions import Regions, Segment

_DESCRIPTORS = 2  # the descriptor, its mapping and the connection


class DeviceRegions(Regions):
    """A client's memory, some of which may be imported from GPUs."""

    providers: Providers | None = None
    """The importer of GPU memory; None: this hcad imports none."""

    def check_device_room(self) -> None:
        """Raise OSError (ENOMEM) if the client may not have another segment."""
        check_room(self._segments, hca.HCA_MAX_SEGMENTS)

    def add_imported_segment(self, imported: ImportedMemory) -> HcaDeviceSegment:
        """Make a segment of imported memory, which the segment then owns. Raises OSError.

        The memory is not charged as host memory of the client, because gpud has already charged
        the client's slice for it.
        """
        self.check_device_room()
        handle = self._handle()
        self._add_device(handle, imported)
        return HcaDeviceSegment(handle, 0, imported.offset)

    def _add_device(self, handle: int, imported: ImportedMemory) -> None:
        self.share.charge(_DESCRIPTORS)
        try:
            engine_segment = self._engine.add_segment(imported.descriptor, imported.size)
        except OSError:
            self.share.refund(_DESCRIPTORS)
            raise
        segment = self._segments[handle] = Segment(
            engine_segment, imported.descriptor, imported.size, imported=imported
        )
        assert self.providers is not None
        self.providers.revocations.watch(imported.connection, partial(self._revoke, segment))

    def _revoke(self, segment: Segment) -> None:
        """End all access to the segment's memory in constant time, and begin to remove it."""
        assert segment.engine is not None
        assert segment.imported is not None
        assert self.providers is not None
        self._engine.end_segment(segment.engine)
        segment.is_revoked = True
        revocations = self.providers.revocations
        revocations.unwatch(segment.imported.connection)
        revocations.removal.begin(self._remove_revoked(segment))

    def _remove_revoked(self, segment: Segment) -> Steps[None]:
        """Remove the segment's regions from the engine, then release the memory to its exporter.

        The client may destroy the regions and the segment between two steps, and may end.
        """
        count = 0
        for key in tuple(segment.keys):
            region = self._regions[key] if key in segment.keys else None
            if region is not None and region.engine is not None:
                self._engine.remove_region(region.engine)
                region.engine = None
                count += 1
            yield
        if segment.imported is None:
            return
        assert self.providers is not None
        self._end_segment(segment)
        self.providers.revocations.report(count)

    def _end_segment(self, segment: Segment) -> None:
        if segment.imported is not None:
            assert segment.engine is not None
            assert self.providers is not None
            self.providers.revocations.unwatch(segment.imported.connection)
            self._engine.remove_segment(segment.engine)
            self.providers.release(segment.imported)
            self.share.refund(_DESCRIPTORS)
            segment.engine = segment.imported = None
        elif segment.engine is not None:
            super()._end_segment(segment)

    def save_segment(self, handle: int, handover_state: HandoverState) -> Row:
        """Return the segment's record for a successor, with the descriptor of the segment's
        connection to the exporter.
        """
        segment = self._segments[handle]
        if segment.is_revoked:
            return {"handle": handle, "size": segment.size, "revoked": True}
        row = super().save_segment(handle, handover_state)
        if segment.imported is not None:
            row["connection"] = handover_state.add_descriptor(segment.imported.connection.fileno())
        return row

    def load_segment(self, row: Row, handover_state: HandoverState) -> None:
        """Restore a predecessor's segment. Raises OSError, ValueError, KeyError."""
        handle = int(row["handle"])
        if row.get("revoked"):
            self._segments[handle] = Segment(None, -1, int(row["size"]), is_revoked=True)
        elif "connection" in row:
            descriptor = handover_state.take_descriptor(row["file"])
            connection = socket.socket(fileno=handover_state.take_descriptor(row["connection"]))
            connection.setblocking(False)
            self._add_device(handle, ImportedMemory(descriptor, 0, int(row["size"]), connection))
        else:
            super().load_segment(row, handover_state)
