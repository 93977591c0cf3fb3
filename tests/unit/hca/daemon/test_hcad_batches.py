"""Batches: several requests in one message, executed in turn, with the effect of single
requests.
"""

import ctypes
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from hca.binding.engine import Engine
from hca.contract import hca
from hca.contract.hca import HcaMessage
from hca.contract.verbs import VerbsMask as Mask, VerbsQpType, VerbsState
from hca.daemon.common.numbers import Numbers
from hca.daemon.programs import batches
from hca.daemon.programs.requests import HEADER_BYTES, Malformed
from support.rigs import hca_rig
from support.rigs.hca_rig import Client
from vgpu_sim.hal import messages
from vgpu_sim.hal.messages import Header

MADE = hca.HCA_BATCH_MADE
Part = tuple[int, ctypes.Structure | None]


@pytest.fixture
def client(engine: Engine) -> Iterator[Client]:
    made = Client(engine, Numbers(), 0)
    yield made
    made.objects.close()


def message(kind: int, body: bytes, request: int = 7) -> bytes:
    numbers = (messages.MAGIC, messages.PROTOCOL_VERSION, kind, request, 0, len(body), 0)
    return bytes(Header(*numbers)) + body


def batch(*parts: Part) -> bytes:
    bodies = (bytes(body) if body is not None else b"" for _, body in parts)
    inner = (
        message(part[0], body, i) for i, (part, body) in enumerate(zip(parts, bodies, strict=True))
    )
    return message(HcaMessage.BATCH, b"".join(inner))


@dataclass
class Answer:
    """One reply in the reply of a batch."""

    kind: int
    request: int
    status: int
    payload: bytes

    @property
    def handle(self) -> int:
        return int.from_bytes(self.payload[:4], "little")


def ask(client: Client, *parts: Part) -> tuple[list[Answer], int]:
    """Send a batch; return the replies, and the number of received descriptors."""
    reply, descriptors, why = batches.answer(client.objects, batch(*parts))
    for one in descriptors:
        os.close(one)
    outer = Header.from_buffer_copy(reply)
    assert (outer.type, outer.request, outer.status) == (HcaMessage.BATCH + 1, 7, 0)
    assert outer.payload_bytes == len(reply) - HEADER_BYTES
    found, at = [], HEADER_BYTES
    while at < len(reply):
        header = Header.from_buffer_copy(reply, at)
        end = at + HEADER_BYTES + header.payload_bytes
        body = reply[at + HEADER_BYTES : end]
        found.append(Answer(header.type, header.request, header.status, body))
        at = end
    assert bool(why) == any(one.status for one in found)
    return found, len(descriptors)


def connection(client: Client) -> list[Part]:
    """Return librdmacm's requests for a queue pair with queues of its own."""
    pair = hca.HcaQpCreate(pd=client.pd, type=VerbsQpType.RC, send_wr=4, recv_wr=4)
    pair.recv_cq, pair.send_cq = MADE | 1, MADE | 3
    change = hca.HcaQpModify(MADE | 4, int(hca_rig.TO_INIT))
    change.attributes.state, change.attributes.port = VerbsState.INIT, 1
    return [
        (HcaMessage.CHANNEL_CREATE, None),
        (HcaMessage.CQ_CREATE, hca.HcaCqCreate(4, MADE | 0)),
        (HcaMessage.CHANNEL_CREATE, None),
        (HcaMessage.CQ_CREATE, hca.HcaCqCreate(4, MADE | 2)),
        (HcaMessage.QP_CREATE, pair),
        (HcaMessage.QP_MODIFY, change),
    ]


def test_a_connection_is_made_and_removed_in_one_message_each(client: Client) -> None:
    objects = client.objects
    made, descriptors = ask(client, *connection(client))
    assert [(one.request, one.status) for one in made] == [(i, 0) for i in range(6)]
    assert [one.kind for one in made] == [kind + 1 for kind, _ in connection(client)]
    assert descriptors == 5
    channels, queues, pair = (made[0], made[2]), (made[1], made[3]), made[4]
    assert {one.handle for one in queues} <= set(objects._cqs)
    assert objects.query_qp(pair.handle).state == VerbsState.INIT
    with pytest.raises(OSError, match="busy"):
        objects.destroy_channel(channels[0].handle)  # it belongs to the queue
    gone, descriptors = ask(
        client,
        (HcaMessage.QP_DESTROY, hca.HcaHandle(pair.handle)),
        *((HcaMessage.CQ_DESTROY, hca.HcaHandle(one.handle)) for one in queues),
        *((HcaMessage.CHANNEL_DESTROY, hca.HcaHandle(one.handle)) for one in channels),
    )
    assert [(one.status, one.payload) for one in gone] == [(0, b"")] * 5
    assert descriptors == 0
    assert not {one.handle for one in queues} & set(objects._cqs)


def test_the_first_that_is_refused_is_the_last_that_is_answered(client: Client) -> None:
    """Objects of earlier requests stay: the requester knows their handles."""
    before = len(client.objects._cqs)
    parts = connection(client)
    parts[3] = (HcaMessage.CQ_CREATE, hca.HcaCqCreate(hca.HCA_MAX_CQE + 1, 0))
    made, descriptors = ask(client, *parts)
    assert [one.status for one in made] == [0, 0, 0, errno.EINVAL]
    assert descriptors == 3
    assert len(client.objects._cqs) == before + 1


@pytest.mark.parametrize("place", [1, 2, 7, (1 << 31) - 1])
def test_a_request_cannot_name_an_object_that_is_not_made_yet(client: Client, place: int) -> None:
    made, _ = ask(
        client,
        (HcaMessage.CHANNEL_CREATE, None),
        (HcaMessage.CQ_CREATE, hca.HcaCqCreate(4, MADE | place)),
    )
    assert [one.status for one in made] == [0, errno.EINVAL]


def test_a_request_cannot_name_an_earlier_one_without_an_object(client: Client) -> None:
    channel = client.objects.create_channel()
    os.close(channel[1])
    made, _ = ask(
        client,
        (HcaMessage.CHANNEL_DESTROY, hca.HcaHandle(channel[0].handle)),
        (HcaMessage.CQ_CREATE, hca.HcaCqCreate(4, MADE | 0)),
    )
    assert [one.status for one in made] == [0, errno.EINVAL]


def test_another_s_objects_are_not_reached(engine: Engine, client: Client) -> None:
    other = Client(engine, Numbers(), 1)
    made, _ = ask(other, *connection(other))
    named = hca.HcaHandle(made[4].handle)
    refused, _ = ask(client, (HcaMessage.QP_DESTROY, named))
    assert [one.status for one in refused] == [errno.EINVAL]
    assert other.objects.query_qp(named.handle).state == VerbsState.INIT
    other.objects.close()


CHANNEL = message(HcaMessage.CHANNEL_CREATE, b"", 0)


@pytest.mark.parametrize(
    "body",
    [
        b"x",
        CHANNEL[:-1],
        CHANNEL + CHANNEL[:10],
        CHANNEL * (hca.HCA_MAX_BATCH + 1),
        CHANNEL + message(HcaMessage.PD_CREATE, b""),  # of another kind
        CHANNEL + message(HcaMessage.BATCH, CHANNEL),
        CHANNEL + message(HcaMessage.MR_CREATE, bytes(ctypes.sizeof(hca.HcaMrCreate))),
        CHANNEL + message(HcaMessage.CQ_CREATE, b"1234"),
        CHANNEL + bytes(HEADER_BYTES),
    ],
)
def test_of_what_no_library_sends_nothing_is_carried_out(client: Client, body: bytes) -> None:
    with pytest.raises(Malformed):
        batches.answer(client.objects, message(HcaMessage.BATCH, body))
    assert not client.objects._channels


@pytest.mark.parametrize("field", ["magic", "version", "status", "reserved", "payload_bytes"])
def test_its_own_header_is_one_of_ours(client: Client, field: str) -> None:
    data = bytearray(message(HcaMessage.BATCH, CHANNEL))
    header = Header.from_buffer(data)
    setattr(header, field, 1)
    del header
    with pytest.raises(Malformed):
        batches.answer(client.objects, bytes(data))
    assert not client.objects._channels


def test_modifications_follow_one_another(client: Client) -> None:
    """The second modification is checked against the state that the first has set."""
    made, _ = ask(client, *connection(client))
    number = made[4].handle
    back = hca.HcaQpModify(number, int(Mask.STATE))
    back.attributes.state = VerbsState.RESET
    again = hca.HcaQpModify(number, int(hca_rig.TO_INIT))
    again.attributes.state, again.attributes.port = VerbsState.INIT, 1
    answers, _ = ask(client, (HcaMessage.QP_MODIFY, back), (HcaMessage.QP_MODIFY, again))
    states = [hca.HcaQpAttributes.from_buffer_copy(one.payload).state for one in answers]
    assert states == [VerbsState.RESET, VerbsState.INIT]
