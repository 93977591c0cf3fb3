"""Memberships of a client's queue pairs in multicast groups."""

import errno
from contextlib import ExitStack
from typing import Final

from hca.binding.addresses import is_group
from hca.binding.engine import Engine, EngineMember
from hca.contract import hca, hca_objects
from hca.contract.verbs import VerbsQpType
from hca.daemon.common.handover_state import Luggage, Row
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects.checks import get, limit, refused
from hca.daemon.objects.queue_pairs import Pairs
from hca.daemon.wires.groups import DESCRIPTORS, WireGroups

_OBJECT_BYTES: Final = 4096


class Groups(Pairs):
    """A client's multicast memberships."""

    wire_groups: WireGroups | None = None
    """Which groups the wires are in, so that what is sent elsewhere comes; None: there are none."""

    def __init__(
        self, engine: Engine, numbers: Numbers, gids: tuple[bytes, ...], memory_bytes: int
    ) -> None:
        """Begin with none. Raises OSError."""
        super().__init__(engine, numbers, gids, memory_bytes)
        self._members: dict[tuple[int, bytes], tuple[EngineMember, ExitStack]] = {}

    @property
    def gids(self) -> tuple[bytes, ...]:
        """Return the client's own."""
        return self._gids

    def check_member(self, wanted: hca_objects.HcaMcast) -> bytes:
        """Return the group that a datagram queue pair may enter. Raises OSError."""
        limit(self._members, hca.HCA_MAX_MCAST_ATTACH)
        gid = bytes(wanted.gid)
        if get(self._qps, wanted.qpn).type != VerbsQpType.UD or not is_group(gid):
            raise refused(errno.EINVAL)
        return gid

    def attach(self, wanted: hca_objects.HcaMcast) -> None:
        """Let a datagram queue pair have what is sent to a group; again is once. Raises OSError.

        From elsewhere it comes where a wire has ``entered`` the group.
        """
        gid = self.check_member(wanted)
        if (wanted.qpn, gid) not in self._members:
            self._enter(wanted.qpn, gid)

    def detach(self, wanted: hca_objects.HcaMcast) -> None:
        """End a membership. Raises OSError."""
        key = (wanted.qpn, bytes(wanted.gid))
        if key not in self._members:
            raise refused(errno.EINVAL)
        self._leave(key)

    def destroy_qp(self, number: int) -> None:
        """Remove a queue pair, and its memberships. Raises OSError."""
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
                    self.share.take(DESCRIPTORS)
                    undo.callback(self.share.give, DESCRIPTORS)
            self.share.take(0, 0, _OBJECT_BYTES)
            undo.callback(self.share.give, 0, 0, _OBJECT_BYTES)
            undo.enter_context(self._guard.in_group(gid))
            hears_all = self._guard.hears_all
            made = self._engine.add_member(self._qps[qpn].engine, gid, hears_all=hears_all)
            self._members[qpn, gid] = made, undo.pop_all()

    def _leave(self, key: tuple[int, bytes]) -> None:
        made, undo = self._members.pop(key)
        self._engine.remove_member(made)
        undo.close()

    def save_member(self, place: int, luggage: Luggage) -> Row:
        """Write one for a successor; they have no numbers, but an order."""
        del luggage
        qpn, gid = list(self._members)[place]
        return {"queue_pair": qpn, "gid": gid.hex()}

    def load_member(self, row: Row, luggage: Luggage) -> None:
        """Take over one of a predecessor's. Raises OSError, ValueError, KeyError."""
        del luggage
        self._enter(int(row["queue_pair"]), bytes.fromhex(row["gid"]))
