"""Memberships of a client's queue pairs in multicast groups."""

import errno
from contextlib import ExitStack
from typing import Final

from hca.binding.addresses import is_group
from hca.binding.engine import Engine, EngineMember
from hca.contract import hca, hca_objects
from hca.contract.verbs import VerbsQpType
from hca.daemon.common.handover_state import HandoverState, Row
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects.checks import check_room, get, os_error
from hca.daemon.objects.queue_pairs import QueuePairs
from hca.daemon.wires.groups import DESCRIPTORS, WireGroups

_OBJECT_BYTES: Final = 4096


class MulticastGroups(QueuePairs):
    """A client's multicast memberships."""

    wire_groups: WireGroups | None = None
    """The multicast groups of the wires, for traffic from other nodes; None: there are no wires."""

    def __init__(
        self, engine: Engine, numbers: Numbers, gids: tuple[bytes, ...], memory_bytes: int
    ) -> None:
        """Add the client to the engine. It has no multicast memberships yet. Raises OSError."""
        super().__init__(engine, numbers, gids, memory_bytes)
        self._members: dict[tuple[int, bytes], tuple[EngineMember, ExitStack]] = {}

    @property
    def gids(self) -> tuple[bytes, ...]:
        """Return the client's GIDs."""
        return self._gids

    def check_member(self, request: hca_objects.HcaMcast) -> bytes:
        """Return the GID of the multicast group that a request names.

        Raises OSError if the request's queue pair may not be attached to that group, for example
        because it is not a datagram queue pair.
        """
        check_room(self._members, hca.HCA_MAX_MCAST_ATTACH)
        gid = bytes(request.gid)
        if get(self._qps, request.qpn).type != VerbsQpType.UD or not is_group(gid):
            raise os_error(errno.EINVAL)
        return gid

    def attach(self, request: hca_objects.HcaMcast) -> None:
        """Attach a datagram queue pair to a multicast group; a second attachment does nothing.

        Traffic from other nodes arrives only if a wire has joined the group
        (``WireGroups.join``). Raises OSError.
        """
        gid = self.check_member(request)
        if (request.qpn, gid) not in self._members:
            self._enter(request.qpn, gid)

    def detach(self, request: hca_objects.HcaMcast) -> None:
        """End a queue pair's membership in a multicast group. Raises OSError."""
        key = (request.qpn, bytes(request.gid))
        if key not in self._members:
            raise os_error(errno.EINVAL)
        self._leave(key)

    def destroy_qp(self, number: int) -> None:
        """Remove a queue pair, and its memberships in multicast groups. Raises OSError."""
        get(self._qps, number)
        for key in [key for key in self._members if key[0] == number]:
            self._leave(key)
        super().destroy_qp(number)

    def _enter(self, qpn: int, gid: bytes) -> None:
        with ExitStack() as undo:
            if self.wire_groups is not None:
                joined = self.wire_groups.hold(self._gids, gid)
                if joined is not None:
                    undo.callback(self.wire_groups.release, joined)
                    self.share.charge(DESCRIPTORS)
                    undo.callback(self.share.refund, DESCRIPTORS)
            self.share.charge(0, 0, _OBJECT_BYTES)
            undo.callback(self.share.refund, 0, 0, _OBJECT_BYTES)
            undo.enter_context(self._guard.as_group_member(gid))
            receives_all = self._guard.receives_all
            membership = self._engine.add_member(
                self._qps[qpn].engine, gid, receives_all=receives_all
            )
            self._members[qpn, gid] = membership, undo.pop_all()

    def _leave(self, key: tuple[int, bytes]) -> None:
        membership, undo = self._members.pop(key)
        self._engine.remove_member(membership)
        undo.close()

    def save_member(self, place: int, handover_state: HandoverState) -> Row:
        """Return the record of the membership at a position, for a successor.

        Memberships have no numbers, so they are found by position.
        """
        del handover_state
        qpn, gid = list(self._members)[place]
        return {"queue_pair": qpn, "gid": gid.hex()}

    def load_member(self, row: Row, handover_state: HandoverState) -> None:
        """Restore a predecessor's multicast membership. Raises OSError, ValueError, KeyError."""
        del handover_state
        self._enter(int(row["queue_pair"]), bytes.fromhex(row["gid"]))
