"""State after a call that failed at any of its steps: quotas, descriptors and objects."""

import ctypes
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import pytest

from hca.binding.engine import Engine
from hca.contract import hca, hca_frames, hca_objects
from hca.contract.verbs import VerbsQpType
from hca.daemon.common import shared_memory
from hca.daemon.common.handover_state import HandoverState
from hca.daemon.common.numbers import Numbers
from hca.daemon.common.quotas import Shares
from hca.daemon.objects.client_objects import AdoptedObjects
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.parties import Parties
from support.rigs import hca_rig
from support.rigs.hca_moves import handed_over
from support.rigs.hca_rig import BASE, Client
from support.rigs.share_room import most_of, open_descriptors, room

GROUP = bytes((0xFF, 0x0E, *bytes(14)))
ENGINE_CALLS = (
    *("add_cq", "resize_cq", "add_segment", "add_region", "add_qp", "add_srq"),
    *("add_ah", "add_window", "add_member", "add_steer"),
)
GUARD_CALLS = (
    "charge_qp",
    "charge_bytes",
    "charge_steering_rule",
    "authorize_path",
    "as_group_member",
)


@dataclass
class Failure:
    """Makes one step fail: of the calls that can fail, the one at a given position."""

    calls: list[str] = field(default_factory=list)
    _left: int | None = None

    def inject(self, place: int, call: Callable[[], Any]) -> bool:
        """Make a call in which the step at ``place`` fails; return whether there was such a
        step.
        """
        before, self._left = len(self.calls), place
        try:
            call()
        except OSError as error:
            if "injected" not in str(error):
                raise
        finally:
            self._left = None
        return len(self.calls) > before

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if self._left is not None:
                self._left -= 1
                if self._left < 0:
                    self._left = None
                    self.calls.append(name)
                    raise OSError(errno.ENOMEM, f"injected into {name}")
            return function(*arguments, **named)

        return call


class Rig:
    """A client with one object of each kind, in which calls of hcad can be made to fail."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.enforcer = Enforcer(engine, Parties())
        self.shares = Shares(1000, 1 << 24, 1 << 24)
        self.share = self.shares.new_share()
        self.free = room(self.share)
        client = self.client = Client(engine, Numbers(), 0, self.enforcer, share=self.share)
        self.cq = client.cq()
        self.srq = hca_rig.Srq(client)
        self.datagram = client.qp(self.cq, self.cq, kind=VerbsQpType.UD)
        self.frames = client.qp(self.cq, self.cq, kind=VerbsQpType.RAW_PACKET)
        self.channel, end = client.objects.create_channel()
        os.close(end)
        self.region = client.region(4096)
        self.failure = Failure()
        self.failing(monkeypatch, engine, client.objects._guard)

    def failing(self, monkeypatch: pytest.MonkeyPatch, engine: Engine, guard: object) -> None:
        """Wrap all calls that can fail."""
        targets = [
            *((engine, name) for name in ENGINE_CALLS),
            *((guard, name) for name in GUARD_CALLS),
            *((os, name) for name in ("dup", "pipe2")),
            *((shared_memory, "new_shared_memory"), (self.share, "charge")),
        ]
        for owner, name in targets:
            monkeypatch.setattr(owner, name, self.failure.wrap(name, getattr(owner, name)))

    def footprint(self) -> tuple[Any, ...]:
        """Return all that the client has been charged for, and the process's descriptors."""
        party = self.client.party
        counted = party.queue_pairs, party.region_bytes, party.steers, dict(party.members)
        return room(self.share), open_descriptors(), counted

    def close(self) -> None:
        """Close the client, and check that nothing is left."""
        self.client.objects.close()
        assert room(self.share) == self.free
        party = self.client.party
        assert (party.queue_pairs, party.region_bytes, party.steers, dict(party.members)) == (
            *(0, 0, 0),
            {},
        )


def region(rig: Rig, **values: int) -> hca.HcaMrCreate:
    wanted = hca.HcaMrCreate(rig.client.pd, 1, BASE, 4096, 1, **values)
    wanted.pieces[0] = hca.HcaPiece(rig.region.segment, 0, 0, 4096)
    return wanted


def queue_pair(rig: Rig, srq: int = 0) -> hca.HcaQpCreate:
    cq = rig.cq.handle
    return hca.HcaQpCreate(rig.client.pd, cq, cq, VerbsQpType.RC, 4, 4, 0, srq)


def without_end(made: tuple[Any, int]) -> None:
    os.close(made[1])


def steer(rig: Rig) -> hca_frames.HcaSteerCreate:
    wanted = hca_frames.HcaSteerCreate(0, 1)
    wanted.targets[0] = rig.frames.number
    return wanted


CALLS: dict[str, Callable[[Rig], Any]] = {
    "domain": lambda r: r.client.objects.create_pd(),
    "channel": lambda r: without_end(r.client.objects.create_channel()),
    "completion queue": lambda r: without_end(
        r.client.objects.create_cq(hca.HcaCqCreate(64, r.channel.handle))
    ),
    "larger completion queue": lambda r: without_end(
        r.client.objects.resize_cq(hca_objects.HcaCqResize(r.cq.handle, 4096))
    ),
    "memory": lambda r: without_end(r.client.objects.create_segment(hca.HcaSegmentCreate(8192))),
    "region": lambda r: r.client.objects.create_region(region(r)),
    "queue pair": lambda r: without_end(r.client.objects.create_qp(queue_pair(r))),
    "queue pair that shares receives": lambda r: without_end(
        r.client.objects.create_qp(queue_pair(r, r.srq.handle))
    ),
    "shared receive queue": lambda r: without_end(
        r.client.objects.create_srq(hca_objects.HcaSrqCreate(r.client.pd, 16))
    ),
    "window": lambda r: r.client.objects.create_window(hca_objects.HcaMwCreate(r.client.pd, 1)),
    "address handle": lambda r: r.client.ah(r.client.gid),
    "address handle of a group": lambda r: r.client.ah(GROUP),
    "membership": lambda r: r.client.objects.attach(
        hca_objects.HcaMcast(r.datagram.number, 0, (ctypes.c_uint8 * 16)(*GROUP))
    ),
    "rule for frames": lambda r: r.client.objects.create_steer(steer(r)),
}


@pytest.fixture
def rig(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(engine, monkeypatch)


@pytest.mark.parametrize("kind", CALLS)
def test_wherever_a_call_fails_nothing_is_left_of_it_and_the_next_one_works(
    rig: Rig, kind: str
) -> None:
    before = rig.footprint()
    places = count()
    while rig.failure.inject(next(places), partial(CALLS[kind], rig)):
        assert rig.footprint() == before, f"after a failed {rig.failure.calls[-1]}"
    assert rig.failure.calls, "no step can fail"
    assert rig.footprint() != before
    if kind not in ("membership", "larger completion queue"):
        CALLS[kind](rig)
    rig.close()


def test_a_region_that_cannot_be_replaced_leaves_no_charge(rig: Rig) -> None:
    """If the new region fails at the last step, the old one is already removed, with its whole
    charge.
    """
    objects, places = rig.client.objects, count()
    objects.destroy_region(rig.region.key)
    without, key = rig.footprint(), objects.create_region(region(rig)).handle
    before = rig.footprint()
    while rig.failure.inject(
        next(places), partial(objects.create_region, region(rig, replaced=key))
    ):
        assert rig.footprint() in (before, without)
        if rig.footprint() == without:
            key = objects.create_region(region(rig)).handle
    assert len(rig.failure.calls) >= 2
    assert rig.footprint() == before
    rig.close()


def test_a_region_that_is_not_there_cannot_be_replaced_and_costs_nothing(rig: Rig) -> None:
    before = rig.footprint()
    for _ in range(3):
        with pytest.raises(OSError, match="Invalid argument"):
            rig.client.objects.create_region(region(rig, replaced=rig.region.key ^ 1 << 9))
        assert rig.footprint() == before
    rig.close()


def test_a_larger_completion_queue_is_charged_and_handed_over(rig: Rig) -> None:
    """It is charged like a queue made with that size, and within the function's quota."""
    objects = rig.client.objects
    before = room(rig.share)
    for entries in (1 << 12, 1 << 6):
        without_end(objects.resize_cq(hca_objects.HcaCqResize(rig.cq.handle, entries)))
        resized = room(rig.share)
        assert (resized[1] < before[1]) is (entries > 64)
    assert resized == before
    others = [rig.shares.new_share() for _ in range(4)]
    taken = []
    for other in others:
        taken.append(most_of(other, 1))
        other.charge(0, taken[-1])
    crowded = room(rig.share)
    with pytest.raises(OSError, match="bytes of rings"):
        objects.resize_cq(hca_objects.HcaCqResize(rig.cq.handle, hca.HCA_MAX_CQE))
    assert room(rig.share) == crowded
    for other, amount in zip(others, taken, strict=True):
        other.refund(0, amount)
    without_end(objects.resize_cq(hca_objects.HcaCqResize(rig.cq.handle, 1 << 10)))
    saved = objects.save_cq(rig.cq.handle, HandoverState())
    assert saved["entries"] == 1 << 10
    assert os.fstat(objects.held["cq", rig.cq.handle].descriptor).st_size == saved["size"]
    rig.close()


def test_a_successor_has_as_many_descriptors_as_its_predecessor_had(
    rig: Rig, engine: Engine
) -> None:
    """Checked for every kind of object with descriptors."""
    for kind in CALLS:
        CALLS[kind](rig)
    before = open_descriptors()
    with hca_rig.running_engine() as other:
        started = open_descriptors() - before
        other.suspend()
        engine.suspend()
        try:
            successor = handed_over(rig.client, other, Numbers(), None)
        finally:
            engine.resume()
        rig.client.objects.close()
        assert open_descriptors() == before + started
        successor.close()
        other.resume()


def test_what_a_predecessor_hands_over_wrongly_leaves_no_descriptor(
    rig: Rig, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever step of the successor fails: it or the client's end closes all descriptors taken."""
    for kind in CALLS:
        CALLS[kind](rig)
    handover_state = HandoverState()
    engine.suspend()
    saved = rig.client.objects.save(handover_state)
    engine.resume()
    gids, places = (bytes(16), rig.client.gid), count()
    with hca_rig.running_engine() as other:
        other.suspend()
        for name in ENGINE_CALLS:
            monkeypatch.setattr(other, name, rig.failure.wrap(name, getattr(other, name)))
        while True:
            before = open_descriptors()
            arrived = HandoverState(
                [os.dup(descriptor) for descriptor in handover_state.descriptors]
            )
            ends = arrived.take_descriptors(saved["descriptors"])
            objects = AdoptedObjects(other, Numbers(), gids, 1 << 30, ends)
            fails = rig.failure.inject(next(places), partial(objects.load, saved, arrived))
            objects.close()
            for descriptor in arrived.list_unclaimed():
                os.close(descriptor)
            assert open_descriptors() == before, f"after {rig.failure.calls[-1:]}"
            if not fails:
                break
        other.resume()
    assert set(rig.failure.calls) >= {"add_cq", "add_srq", "add_qp", "add_segment", "dup"}
    rig.close()
