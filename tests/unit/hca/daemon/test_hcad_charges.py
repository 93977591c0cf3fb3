"""The charge for each kind of object: exact when it is made, and returned when it is removed."""

import ctypes
import errno
import os
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from hca.binding.addresses import address_of
from hca.binding.engine import Engine
from hca.contract import hca, hca_frames, hca_objects
from hca.contract.verbs import VerbsQpType
from hca.daemon.common.numbers import Numbers
from hca.daemon.common.quotas import Share, Shares
from hca.daemon.objects.client_objects import Objects
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.parties import Parties, Party
from hca.daemon.programs.opened_function import OpenedFunction
from hca.daemon.programs.programs import Programs
from support.rigs import hca_rig
from support.rigs.hca_moves import handed_over
from support.rigs.hca_rig import BASE, Client
from support.rigs.share_room import open_descriptors, room

GROUP = bytes((0xFF, 0x0E, *bytes(14)))
RING = -1
"""The charge is the size of the file whose descriptor the client receives."""


@pytest.fixture
def share() -> Share:
    return Shares(1000, 1 << 24, 1 << 24).new_share()


class Rig:
    """A client with the objects that other objects need."""

    def __init__(self, engine: Engine, share: Share) -> None:
        self.enforcer = Enforcer(engine, Parties())
        self.client = client = Client(engine, Numbers(), 0, self.enforcer, share=share)
        cq = client.cq()
        self.cq, self.pd, self.objects = cq.handle, client.pd, client.objects
        self.datagram = client.qp(cq, cq, kind=VerbsQpType.UD).number
        self.frames = client.qp(cq, cq, kind=VerbsQpType.RAW_PACKET).number
        self.segments = [client.region(4096).segment for _ in range(2)]

    def region(self, pieces: int) -> int:
        wanted = hca.HcaMrCreate(self.pd, 1, BASE, 4096 * pieces, pieces)
        for place, segment in zip(range(pieces), self.segments, strict=False):
            wanted.pieces[place] = hca.HcaPiece(segment, 0, 0, 4096)
        return self.objects.create_region(wanted).handle

    def queue_pair(self) -> tuple[Any, int]:
        wanted = hca.HcaQpCreate(self.pd, self.cq, self.cq, VerbsQpType.RC, 4, 4)
        return self.objects.create_qp(wanted)

    def steer(self) -> int:
        wanted = hca_frames.HcaSteerCreate(0, 1)
        wanted.targets[0] = self.frames
        return self.objects.create_steer(wanted).handle

    def member(self) -> hca_objects.HcaMcast:
        wanted = hca_objects.HcaMcast(self.datagram, 0, (ctypes.c_uint8 * 16)(*GROUP))
        self.objects.attach(wanted)
        return wanted


KINDS: dict[str, tuple[Callable[[Rig], Any], Callable[..., None], tuple[int, int, int]]] = {
    "domain": (lambda r: r.objects.create_pd().handle, Objects.destroy_pd, (0, 0, 256)),
    "channel": (lambda r: r.objects.create_channel(), Objects.destroy_channel, (2, 0, 0)),
    "completion queue": (
        *(lambda r: r.objects.create_cq(hca.HcaCqCreate(200, 0)), Objects.destroy_cq),
        (2, RING, 0),
    ),
    "memory": (
        *(lambda r: r.objects.create_segment(hca.HcaSegmentCreate(8192)), Objects.destroy_segment),
        (1, 0, 0),
    ),
    "region": (lambda r: r.region(1), Objects.destroy_region, (0, 0, 1024 + 48)),
    "region of pieces": (lambda r: r.region(2), Objects.destroy_region, (0, 0, 1024 + 96)),
    "queue pair": (Rig.queue_pair, Objects.destroy_qp, (1, RING, 32768)),
    "shared receive queue": (
        *(lambda r: r.objects.create_srq(hca_objects.HcaSrqCreate(r.pd, 100)), Objects.destroy_srq),
        (1, RING, 0),
    ),
    "window": (
        lambda r: r.objects.create_window(hca_objects.HcaMwCreate(r.pd, 1)).handle,
        *(Objects.destroy_window, (0, 0, 1024)),
    ),
    "address handle": (lambda r: r.client.ah(r.client.gid), Objects.destroy_ah, (0, 0, 4096)),
    "address handle of a group": (lambda r: r.client.ah(GROUP), Objects.destroy_ah, (0, 0, 4096)),
    "membership": (Rig.member, Objects.detach, (0, 0, 4096)),
    "rule for frames": (Rig.steer, Objects.destroy_steer, (0, 0, 4096)),
}
"""For each kind: how it is made and removed; its charge in descriptors, ring and private bytes."""
COUNTED = {
    "region": {"region_bytes": 4096},
    "region of pieces": {"region_bytes": 8192},
    "queue pair": {"queue_pairs": 1},
    "membership": {"members": {GROUP: 1}},
    "rule for frames": {"steers": 1},
}
"""By kind, what one object adds to the party's counts, which policy limits."""


def counts_of(party: Party) -> dict[str, Any]:
    limited = ("region_bytes", "queue_pairs", "steers")
    return {name: getattr(party, name) for name in limited} | {"members": dict(party.members)}


def difference(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(one - other for one, other in zip(before, after, strict=True))


def makes(rig: Rig, kind: str) -> tuple[Callable[[], None], tuple[int, ...]]:
    """Make an object; return a function that removes it, and its expected charge."""
    make, remove, (descriptors, ring, private) = KINDS[kind]
    made = make(rig)
    if isinstance(made, tuple):
        size = os.fstat(made[1]).st_size
        os.close(made[1])
        made = made[0].handle
    else:
        size = 0
    return partial(remove, rig.objects, made), (descriptors, size if ring == RING else 0, private)


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_object_is_charged_it_gives_back(engine: Engine, share: Share, kind: str) -> None:
    """Several objects are removed in the order in which they were made; a second removal is
    refused.
    """
    rig = Rig(engine, share)
    before, unused = room(share), counts_of(rig.client.party)
    ends, charges = [], [before]
    for _ in range(1 if kind == "membership" else 3):
        opened = open_descriptors()
        end, charge = makes(rig, kind)
        assert open_descriptors() - opened <= charge[0]
        ends.append(end)
        charges.append(difference(charges[-1], charge))
        assert room(share) == charges[-1]
    for end in ends:
        end()
        charges.pop()
        assert room(share) == charges[-1]
        with pytest.raises(OSError, match="Invalid argument"):
            end()
        assert room(share) == charges[-1]
    assert counts_of(rig.client.party) == unused
    rig.objects.close()


@pytest.mark.parametrize("kind", KINDS)
def test_what_policy_limits_is_counted(engine: Engine, share: Share, kind: str) -> None:
    rig = Rig(engine, share)
    before = counts_of(rig.client.party)
    end, _ = makes(rig, kind)
    more = COUNTED.get(kind, {})
    assert counts_of(rig.client.party) == {
        name: value + more.get(name, 0) if isinstance(value, int) else more.get(name, value)
        for name, value in before.items()
    }
    end()
    assert counts_of(rig.client.party) == before
    rig.objects.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_successor_charges_as_much(
    engine: Engine, share: Share, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It returns the charge when its client removes the object, or ends."""
    rig = Rig(engine, share)
    empty, end_of_place = room(Shares(1000, 1 << 24, 1 << 24).new_share()), room(share)
    end, _ = makes(rig, kind)
    charged, limited = room(share), counts_of(rig.client.party)
    monkeypatch.setattr(
        "hca.daemon.objects.client.new_unlimited_share", Shares(1000, 1 << 24, 1 << 24).new_share
    )
    with hca_rig.running_engine() as other:
        other.suspend()
        engine.suspend()
        try:
            successor = handed_over(rig.client, other, Numbers())
        finally:
            engine.resume()
        assert room(successor.share) == charged
        assert counts_of(successor._guard.party) == limited
        end()
        rig.objects.close()
        _, remove, _ = KINDS[kind]
        assert isinstance(end, partial)
        remove(successor, *end.args[1:])
        assert room(successor.share) == end_of_place
        successor.close()
        assert room(successor.share) == empty
        assert counts_of(successor._guard.party) == {
            "region_bytes": 0,
            "queue_pairs": 0,
            "steers": 0,
            "members": {},
        }
        other.resume()


def test_what_a_queue_pair_is_named_by_goes_with_it(engine: Engine, share: Share) -> None:
    """A queue pair's memberships and rules for frames are removed with it; those of others stay."""
    rig = Rig(engine, share)
    without = room(share)
    rig.member()
    rig.steer()
    assert difference(without, room(share)) == (0, 0, 2 * 4096)
    rig.objects.destroy_qp(rig.frames)
    assert difference(without, room(share))[2] == 4096 - 32768
    rig.objects.destroy_qp(rig.datagram)
    assert difference(without, room(share))[2] == -2 * 32768
    assert counts_of(rig.client.party) == {
        "region_bytes": 8192,
        "queue_pairs": 0,
        "steers": 0,
        "members": {},
    }
    rig.objects.close()


def test_a_group_that_a_wire_is_in_is_charged_its_descriptors(engine: Engine, share: Share) -> None:
    """For each membership: the group's socket, in hcad and in the engine; released once for
    each.
    """
    rig = Rig(engine, share)
    before, joined, released = room(share), object(), list[object]()
    wires: Any = SimpleNamespace(hold=lambda gids, gid: joined, release=released.append)
    rig.objects.wire_groups = wires
    for number in range(1, 3):
        wanted = rig.member()
        assert difference(before, room(share)) == (2, 0, 4096)
        rig.objects.detach(wanted)
        assert room(share) == before
        assert released == [joined] * number
    rig.objects.close()


@pytest.fixture
def programs_and_function(engine: Engine, share: Share) -> tuple[Programs, OpenedFunction]:
    """Return a server of programs, and a function that it can open."""
    parties, address = Parties(), address_of(0)
    cm: Any = SimpleNamespace(manager=SimpleNamespace(bindings=object(), may_connect=None))
    programs = Programs(engine, 1 << 30, Enforcer(engine, parties), cm)
    party = Party.of("f0", address)
    return programs, OpenedFunction(0, address, "0", share, party)


def test_each_program_of_a_function_is_charged_its_context(
    programs_and_function: tuple[Programs, OpenedFunction], share: Share
) -> None:
    """Its socket, page and pipes, in hcad and the engine, and its tables; released with its
    objects.
    """
    programs, function = programs_and_function
    before, descriptors, contexts = room(share), open_descriptors(), []
    for number in range(1, 4):
        contexts.append(programs._admit(function))
        assert difference(before, room(share)) == (10 * number, 0, 32768 * number)
        assert open_descriptors() - descriptors + number <= 10 * number
    for left, objects in enumerate(contexts):
        objects.create_pd()
        programs._dismiss(function, objects)
        assert difference(before, room(share)) == (10 * (2 - left), 0, 32768 * (2 - left))
    assert open_descriptors() == descriptors


def test_a_function_that_cannot_be_opened_is_charged_nothing(
    programs_and_function: tuple[Programs, OpenedFunction],
    share: Share,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Either the engine has no room, or the function's quota is used up."""
    programs, function = programs_and_function
    before = room(share)
    with monkeypatch.context() as context:
        context.setattr(programs._engine, "add_client", refusing)
        with pytest.raises(OSError, match="no room"):
            programs._admit(function)
    assert room(share) == before
    share.charge(before[0] - 9)
    with pytest.raises(OSError, match="no descriptors left"):
        programs._admit(function)
    assert difference(before, room(share)) == (before[0] - 9, 0, 0)
    share.refund(1)
    programs._dismiss(function, programs._admit(function))
    assert difference(before, room(share)) == (before[0] - 10, 0, 0)


def refusing(*_: object) -> None:
    raise OSError(errno.ENOMEM, "no room")


def test_another_size_of_a_completion_queue_is_charged_instead(
    engine: Engine, share: Share
) -> None:
    rig = Rig(engine, share)
    before = room(share)
    created, fd = rig.objects.create_cq(hca.HcaCqCreate(4, 0))
    os.close(fd)
    for entries in (1024, 16, 4096):
        _, fd = rig.objects.resize_cq(hca_objects.HcaCqResize(created.handle, entries))
        assert difference(before, room(share)) == (2, os.fstat(fd).st_size, 0)
        os.close(fd)
    rig.objects.destroy_cq(created.handle)
    assert room(share) == before
    rig.objects.close()
