"""Memberships of a client's queue pairs in multicast groups."""

import errno

from vgpu_sim.fabric.engine import Engine, EngineMember
from vgpu_sim.hal import hca
from vgpu_sim.hal.verbs import VerbsQpType
from vgpu_sim.hcad.checks import get, limit, refused
from vgpu_sim.hcad.numbers import Numbers
from vgpu_sim.hcad.pairs import Pairs

_IPV4 = bytes(10) + b"\xff\xff"


class Groups(Pairs):
    """A client's multicast memberships."""

    def __init__(
        self, engine: Engine, numbers: Numbers, gids: tuple[bytes, ...], memory_bytes: int
    ) -> None:
        """Begin with none. Raises OSError."""
        super().__init__(engine, numbers, gids, memory_bytes)
        self._members: dict[tuple[int, bytes], EngineMember] = {}

    def attach(self, wanted: hca.HcaMcast) -> None:
        """Let a datagram queue pair have what is sent to a group; again is once. Raises OSError."""
        limit(self._members, hca.HCA_MAX_MCAST_ATTACH)
        qp, gid = get(self._qps, wanted.qpn), bytes(wanted.gid)
        multicast = gid[0] == 0xFF or (gid.startswith(_IPV4) and gid[12] >> 4 == 0xE)
        if qp.type != VerbsQpType.UD or not multicast:
            raise refused(errno.EINVAL)
        if (wanted.qpn, gid) not in self._members:
            self._members[wanted.qpn, gid] = self._engine.add_member(qp.engine, gid)

    def detach(self, wanted: hca.HcaMcast) -> None:
        """End a membership. Raises OSError."""
        key = (wanted.qpn, bytes(wanted.gid))
        if key not in self._members:
            raise refused(errno.EINVAL)
        self._engine.remove_member(self._members.pop(key))

    def destroy_qp(self, number: int) -> None:
        """Remove a queue pair, and its memberships. Raises OSError."""
        get(self._qps, number)
        for key in [key for key in self._members if key[0] == number]:
            self._engine.remove_member(self._members.pop(key))
        super().destroy_qp(number)
