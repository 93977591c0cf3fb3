"""A client of a real hcad process, with its rings: like ``hca_rig``'s client, over hcad's
socket.
"""

import ctypes
import mmap
import os
from pathlib import Path
from typing import Any, TypeVar

from hca.binding.addresses import is_ipv4
from hca.contract import hca, hca_objects
from hca.contract.hca import HcaCreated, HcaHandle, HcaMessage
from support.processes import hcad_process
from support.processes.hcad_process import Connection
from support.rigs import hca_rig

_Made = TypeVar("_Made", bound=ctypes.Structure)


class _Objects:
    """The operations on a client's objects that ``hca_rig`` needs, sent to the process. Raises
    OSError.
    """

    def __init__(self, connection: Connection, doorbell_fd: int) -> None:
        self._connection = connection
        self.doorbell_fd = doorbell_fd

    def _ask(
        self, kind: int, wanted: ctypes.Structure | None, made: type[_Made]
    ) -> tuple[_Made, Any]:
        status, body, fds = self._connection.ask(kind, wanted)
        if status:
            raise OSError(status, os.strerror(status))
        return made.from_buffer_copy(body.ljust(ctypes.sizeof(made), b"\0")), (*fds, None)[0]

    def create_pd(self) -> HcaHandle:
        return self._ask(HcaMessage.PD_CREATE, None, HcaHandle)[0]

    def create_cq(self, wanted: hca.HcaCqCreate) -> tuple[HcaCreated, int]:
        return self._ask(HcaMessage.CQ_CREATE, wanted, HcaCreated)

    def create_qp(self, wanted: hca.HcaQpCreate) -> tuple[HcaCreated, int]:
        return self._ask(HcaMessage.QP_CREATE, wanted, HcaCreated)

    def modify_qp(self, wanted: hca.HcaQpModify) -> hca.HcaQpAttributes:
        return self._ask(HcaMessage.QP_MODIFY, wanted, hca.HcaQpAttributes)[0]

    def create_segment(self, wanted: hca.HcaSegmentCreate) -> tuple[HcaHandle, int]:
        return self._ask(HcaMessage.SEGMENT_CREATE, wanted, HcaHandle)

    def create_region(self, wanted: hca.HcaMrCreate) -> HcaHandle:
        return self._ask(HcaMessage.MR_CREATE, wanted, HcaHandle)[0]

    def create_ah(self, wanted: hca_objects.HcaAhCreate) -> HcaHandle:
        return self._ask(HcaMessage.AH_CREATE, wanted, HcaHandle)[0]

    def attach(self, wanted: hca_objects.HcaMcast) -> None:
        self._ask(HcaMessage.MCAST_ATTACH, wanted, HcaHandle)

    def detach(self, wanted: hca_objects.HcaMcast) -> None:
        self._ask(HcaMessage.MCAST_DETACH, wanted, HcaHandle)


class ProcessClient(hca_rig.Client):
    """A program of the fabric in ``directory``, and the member to which it belongs."""

    def __init__(self, directory: Path, token: bytes) -> None:
        self._member = hcad_process.member(directory, token)
        self._connection = Connection(directory)
        status, body, fds = self._connection.ask(HcaMessage.OPEN, hcad_process.hello(token))
        assert status == 0, os.strerror(status)
        self.device = hca.HcaDevice.from_buffer_copy(body)
        page, doorbell = fds
        self.objects: Any = _Objects(self._connection, doorbell)
        self.map = mmap.mmap(page, hca.HCA_PAGE_BYTES)
        os.close(page)
        self.page = hca.HcaClientPage.from_buffer(self.map)
        self.pd = self.objects.create_pd().handle

    def index_of(self, like: bytes) -> int:
        """Return the index of the GID of the same address family."""
        gids = [bytes(self.device.gids)[at : at + 16] for at in range(0, 16 * hca.HCA_GIDS, 16)]
        return next(place for place, gid in enumerate(gids) if is_ipv4(gid) == is_ipv4(like))

    def close(self) -> None:
        """Close the connections; the fabric may end with them."""
        os.close(self.objects.doorbell_fd)
        self._connection.close()
        self._member.close()


def membership(qpn: int, group: bytes) -> hca_objects.HcaMcast:
    """Return the request to join a group."""
    return hca_objects.HcaMcast(qpn, 0, (ctypes.c_uint8 * 16)(*group))
