"""Clients' requests that hcad refuses before they reach the engine."""

import contextlib
import ctypes
import errno
import itertools
import mmap
import os
import random

import pytest

from hca.binding.addresses import MAX_FUNCTIONS, address_of
from hca.contract import hca, hca_objects
from hca.contract.hca import HcaMessage
from hca.contract.verbs import VerbsQpType
from hca.daemon.common.numbers import Numbers
from hca.daemon.common.quotas import Shares
from hca.daemon.programs import requests
from hca.daemon.programs.requests import Malformed
from hca.daemon.sysfs import files
from support.rigs.hca_rig import BASE, Client
from support.rigs.share_room import most_of, room
from vgpu_sim.hal import messages
from vgpu_sim.hal.messages import Header


@pytest.fixture
def client(engine):
    made = Client(engine, Numbers(), 0)
    yield made
    made.objects.close()


def message(kind: int, body: ctypes.Structure | None = None, **values: int) -> bytes:
    content = bytes(body) if body is not None else b""
    header = Header(messages.MAGIC, messages.PROTOCOL_VERSION, kind, 7, 0, len(content), 0)
    for name, value in values.items():
        setattr(header, name, value)
    return bytes(header) + content


def errno_of(client: Client, kind: int, body: ctypes.Structure | None = None) -> int:
    reply, descriptors, _ = requests.answer(client.objects, message(kind, body))
    assert not descriptors
    header = Header.from_buffer_copy(reply)
    assert (header.type, header.request, header.payload_bytes) == (kind + 1, 7, 0)
    return header.status


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x" * 24,
        message(HcaMessage.PD_CREATE, magic=1),
        message(HcaMessage.PD_CREATE, version=1),
        message(HcaMessage.PD_CREATE, reserved=1),
        message(HcaMessage.PD_CREATE, payload_bytes=8),
        message(HcaMessage.PD_CREATE) + b"more",
        message(HcaMessage.PD_CREATE + 1),
        message(HcaMessage.PD_DESTROY),
        message(HcaMessage.JOIN, hca.HcaHello()),
        message(HcaMessage.OPEN, hca.HcaHello()),
    ],
)
def test_what_no_library_sends_is_malformed(client, data):
    with pytest.raises(Malformed):
        requests.answer(client.objects, data)


def qp_create(client: Client, **values: int) -> hca.HcaQpCreate:
    cq = client.cq().handle
    good = {"pd": client.pd, "send_cq": cq, "recv_cq": cq, "type": 2, "send_wr": 1, "recv_wr": 1}
    return hca.HcaQpCreate(**{**good, **values})


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"type": 9}, errno.EOPNOTSUPP),
        ({"srq": 99}, errno.EINVAL),
        ({"type": 99}, errno.EOPNOTSUPP),
        ({"pd": 99}, errno.EINVAL),
        ({"send_cq": 99}, errno.EINVAL),
        ({"send_wr": hca.HCA_MAX_WR + 1}, errno.EINVAL),
        ({"recv_wr": 0xFFFFFFFF}, errno.EINVAL),
    ],
)
def test_a_wrong_queue_pair_is_refused(client, values, status):
    assert errno_of(client, HcaMessage.QP_CREATE, qp_create(client, **values)) == status


@pytest.mark.parametrize("entries", [0, hca.HCA_MAX_CQE + 1, 0xFFFFFFFF])
def test_a_wrong_completion_queue_is_refused(client, entries):
    assert errno_of(client, HcaMessage.CQ_CREATE, hca.HcaCqCreate(entries, 0)) == errno.EINVAL


@pytest.mark.parametrize("size", [0, 1, 4097, (1 << 64) - 4096])
def test_memory_is_bounded_and_in_pages(client, size):
    status = errno_of(client, HcaMessage.SEGMENT_CREATE, hca.HcaSegmentCreate(size))
    assert status == (errno.ENOMEM if size > 1 << 30 else errno.EINVAL)


def test_memory_comes_back(client):
    whole = hca.HcaSegmentCreate(1 << 30)
    for _ in range(3):
        handle, fd = client.objects.create_segment(whole)
        os.close(fd)
        assert errno_of(client, HcaMessage.SEGMENT_CREATE, hca.HcaSegmentCreate(4096)) == (
            errno.ENOMEM
        )
        client.objects.destroy_segment(handle.handle)


def region_of(client: Client, *pieces: tuple[int, int], touched: bool = True, **values: int):
    handle, fd = client.objects.create_segment(hca.HcaSegmentCreate(8192))
    if touched:
        view = mmap.mmap(fd, 8192)
        view[:] = bytes(8192)
    os.close(fd)
    good = {"pd": client.pd, "access": 1, "iova": BASE, "bytes": 8192, "piece_count": len(pieces)}
    wanted = hca.HcaMrCreate(**{**good, **values})
    for i, (offset, size) in enumerate(pieces[: hca.HCA_MAX_PIECES]):
        wanted.pieces[i] = hca.HcaPiece(handle.handle, 0, offset, size)
    return wanted


@pytest.mark.parametrize(
    ("pieces", "values", "status"),
    [
        ([], {}, errno.EINVAL),
        ([(0, 8192)], {"piece_count": hca.HCA_MAX_PIECES + 1}, errno.EINVAL),
        ([(0, 8192)], {"bytes": 8191}, errno.EINVAL),
        ([(0, 8192)], {"bytes": 0}, errno.EINVAL),
        ([(1, 8192)], {}, errno.EINVAL),
        ([(8193, 1), (0, 8191)], {}, errno.EINVAL),
        ([((1 << 64) - 1, 8192)], {}, errno.EINVAL),
        ([(4096, (1 << 64) - 4096), (0, 4096), (0, 8192)], {}, errno.EINVAL),
        ([(0, 0), (0, 8192)], {}, errno.EINVAL),
        ([(0, 8192)], {"iova": (1 << 64) - 8191}, errno.EINVAL),
        ([(0, 8192)], {"pd": 99}, errno.EINVAL),
        ([(0, 8192)], {"access": 2}, errno.EINVAL),  # remote write without local write
        ([(0, 8192)], {"access": 1 << 6}, errno.EOPNOTSUPP),  # on demand
    ],
)
def test_a_wrong_region_is_refused(client, pieces, values, status):
    wanted = region_of(client, *pieces, **values)
    assert errno_of(client, HcaMessage.MR_CREATE, wanted) == status


def test_memory_that_its_owner_has_not_been_charged_for_is_no_region(client):
    wanted = region_of(client, (0, 8192), touched=False)
    assert errno_of(client, HcaMessage.MR_CREATE, wanted) == errno.ENOMEM


def test_what_is_used_stays(client):
    qp = client.qp(client.cq(), client.cq())
    region = client.region()
    for kind, handle in (
        (HcaMessage.PD_DESTROY, client.pd),
        (HcaMessage.CQ_DESTROY, next(iter(client.objects._cqs))),
        (HcaMessage.SEGMENT_DESTROY, region.segment),
    ):
        assert errno_of(client, kind, hca.HcaHandle(handle)) == errno.EBUSY
    assert qp.state == 0


def test_no_client_can_name_another_s_objects(engine, client):
    other = Client(engine, client.objects._numbers, 1)
    foreign = other.qp(other.cq(), other.cq())
    region = other.region()
    for kind, handle in (
        (HcaMessage.QP_DESTROY, foreign.number),
        (HcaMessage.QP_QUERY, foreign.number),
        (HcaMessage.MR_DESTROY, region.key),
        (HcaMessage.PD_DESTROY, other.pd),
    ):
        assert errno_of(client, kind, hca.HcaHandle(handle)) == errno.EINVAL
    wanted = qp_create(client, pd=other.pd)
    assert errno_of(client, HcaMessage.QP_CREATE, wanted) == errno.EINVAL
    other.objects.close()


def test_a_client_leaves_nothing_whatever_it_requested(engine):
    """Random requests by a seed, then the client's end: no descriptor stays open."""
    rng = random.Random(5)
    before = len(os.listdir("/proc/self/fd"))
    client = Client(engine, Numbers(), 0)
    for _ in range(2000):
        kind = rng.choice([*requests._ROWS])
        structure = requests._ROWS[kind].structure
        body = None
        if structure is not None:
            size = ctypes.sizeof(structure)
            words = (rng.choice((0, 1, 2, 3, 4, 8, 4096)) for _ in range(size // 4))
            raw = b"".join(word.to_bytes(4, "little") for word in words)
            body = structure.from_buffer_copy(raw.ljust(size, b"\0"))
        _, descriptors, _ = requests.answer(client.objects, message(kind, body))
        for descriptor in descriptors:
            os.close(descriptor)
    client.objects.close()
    del client
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # a mapping of the page would keep one


def test_numbers_are_not_to_be_guessed():
    numbers = Numbers()
    qpns = [numbers.new_qpn() for _ in range(500)]
    keys = [numbers.new_key() for _ in range(500)]
    for drawn, least, most in ((qpns, 2, (1 << 24) - 1), (keys, 1, (1 << 32) - 1)):
        assert len(set(drawn)) == 500
        assert all(least <= one <= most for one in drawn)
        steps = {second - first for first, second in itertools.pairwise(drawn)}
        assert len(steps) > 490


def test_addresses_are_unique_and_say_their_ip():
    addresses = [address_of(index) for index in (0, 1, 254, 255, 256, 65535, MAX_FUNCTIONS - 1)]
    assert len({one.guid for one in addresses}) == len(addresses)
    assert len({gid for one in addresses for gid in one.gids}) == 2 * len(addresses)
    assert str(addresses[0].ip) == "198.18.0.1"
    with pytest.raises(ValueError, match="function"):
        address_of(MAX_FUNCTIONS)


def test_the_files_are_those_that_tools_read(tmp_path):
    address = address_of(0)
    files.write(tmp_path / "tessera_0", address, "1.2", "B")
    port = tmp_path / "tessera_0" / "ports" / "1"
    assert (port / "gids" / "1").read_text() == "0000:0000:0000:0000:0000:ffff:c612:0001\n"
    assert (port / "gid_attrs" / "types" / "0").read_text() == "RoCE v2\n"
    assert (tmp_path / "tessera_0" / "node_guid").read_text() == "007e:55ff:fe12:0001\n"
    files.remove(tmp_path / "tessera_0")
    assert not list(tmp_path.iterdir())


def create_all(client: Client) -> dict[HcaMessage, int]:
    """Make an object of each kind; return the handles, by the message that destroys the object."""
    srq, fd = client.objects.create_srq(hca_objects.HcaSrqCreate(client.pd, 4))
    os.close(fd)
    window = client.objects.create_window(hca_objects.HcaMwCreate(client.pd, 2))
    return {
        HcaMessage.SRQ_DESTROY: srq.handle,
        HcaMessage.AH_DESTROY: client.ah(client.gid),
        HcaMessage.MW_DESTROY: window.handle,
    }


def test_no_client_can_name_another_s_queues_address_handles_and_windows(engine, client):
    other = Client(engine, client.objects._numbers, 1)
    other.objects.create_channel()  # makes handles that are counted differ between kinds
    for kind, handle in create_all(other).items():
        assert errno_of(client, kind, hca.HcaHandle(handle)) == errno.EINVAL
    modify = hca_objects.HcaSrqModify(create_all(other)[HcaMessage.SRQ_DESTROY], 1)
    assert errno_of(client, HcaMessage.SRQ_MODIFY, modify) == errno.EINVAL
    assert errno_of(client, HcaMessage.CQ_RESIZE, hca_objects.HcaCqResize(99, 4)) == errno.EINVAL
    other.objects.close()


def test_a_domain_is_busy_while_it_has_queues_paths_or_windows(client):
    for kind, handle in create_all(client).items():
        assert errno_of(client, HcaMessage.PD_DESTROY, hca.HcaHandle(client.pd)) == errno.EBUSY
        requests.answer(client.objects, message(kind, hca.HcaHandle(handle)))
    client.objects.destroy_pd(client.pd)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (HcaMessage.SRQ_CREATE, hca_objects.HcaSrqCreate(99, 4)),
        (HcaMessage.SRQ_CREATE, hca_objects.HcaSrqCreate(1, 0)),
        (HcaMessage.SRQ_CREATE, hca_objects.HcaSrqCreate(1, hca.HCA_MAX_WR + 1)),
        (HcaMessage.SRQ_CREATE, hca_objects.HcaSrqCreate(1, 4, 5)),
        (HcaMessage.AH_CREATE, hca_objects.HcaAhCreate(pd=1, is_global=0, port=1)),
        (HcaMessage.AH_CREATE, hca_objects.HcaAhCreate(pd=1, is_global=1, port=2)),
        (HcaMessage.AH_CREATE, hca_objects.HcaAhCreate(pd=1, is_global=1, port=1, sgid_index=2)),
        (HcaMessage.AH_CREATE, hca_objects.HcaAhCreate(pd=99, is_global=1, port=1)),
        (HcaMessage.MW_CREATE, hca_objects.HcaMwCreate(99, 1)),
        (HcaMessage.MW_CREATE, hca_objects.HcaMwCreate(1, 3)),
        (HcaMessage.MCAST_ATTACH, hca_objects.HcaMcast(1)),
        (HcaMessage.MCAST_DETACH, hca_objects.HcaMcast(1)),
    ],
)
def test_wrong_queues_paths_windows_and_memberships_are_refused(client, kind, body):
    assert client.pd == 1
    assert errno_of(client, kind, body) == errno.EINVAL


def test_only_datagram_queue_pairs_join_groups_and_only_groups(client):
    cq = client.cq()
    group = (ctypes.c_uint8 * 16)(0xFF, 0x0E)
    reliable, datagram = client.qp(cq, cq), client.qp(cq, cq, kind=VerbsQpType.UD)
    own = (ctypes.c_uint8 * 16)(*client.gid)
    for member in (
        hca_objects.HcaMcast(reliable.number, 0, group),
        hca_objects.HcaMcast(datagram.number, 0, own),
    ):
        assert errno_of(client, HcaMessage.MCAST_ATTACH, member) == errno.EINVAL
    client.objects.attach(hca_objects.HcaMcast(datagram.number, 0, group))
    client.objects.destroy_qp(datagram.number)
    assert client.objects._members == {}


def test_a_region_is_replaced_under_its_key_when_all_is_well(client):
    first = client.region()
    wanted = hca.HcaMrCreate(99, 1, BASE, 8192, 1, first.key)
    wanted.pieces[0] = hca.HcaPiece(first.segment, 0, 0, 8192)
    assert errno_of(client, HcaMessage.MR_CREATE, wanted) == errno.EINVAL
    wanted.pd = client.pd
    assert client.objects.create_region(wanted).handle == first.key
    wanted.replaced = first.key ^ 1
    assert errno_of(client, HcaMessage.MR_CREATE, wanted) == errno.EINVAL
    client.objects.destroy_region(first.key)
    client.objects.destroy_segment(first.segment)


@pytest.mark.parametrize("kind", ["domains", "paths", "windows", "regions", "memberships"])
def test_what_has_no_descriptor_is_of_its_function_s_share_too(engine, monkeypatch, kind):
    """With any number of programs: private memory is hcad's own, and a pod may have many
    programs.
    """
    shares = Shares(1 << 20, 1 << 30, 1 << 20, functions=None)
    one, other = shares.new_share(), shares.new_share()
    monkeypatch.setattr("hca.daemon.objects.client.new_unlimited_share", lambda: one)
    programs = [Client(engine, Numbers(), index) for index in (0, 1)]
    assert most_of(one, 2) == (1 << 19) - 2 * 256, "a domain each"
    given = 0
    with contextlib.suppress(OSError):
        for number in itertools.count():
            program = programs[number % 2]
            fill(program, kind, number)
            given += 1
    assert 2 <= given < 1 << 13
    assert most_of(other, 2) == 1 << 19, "its part is its own"
    for program in programs:
        program.objects.close()
    assert room(one) == (1 << 19, 1 << 29, 1 << 19), "all of it comes back"


def fill(program: Client, kind: str, number: int) -> None:
    """Make one more object of a kind. Raises OSError."""
    match kind:
        case "domains":
            program.objects.create_pd()
        case "paths":
            program.ah(program.gid[:12] + number.to_bytes(4))
        case "windows":
            program.objects.create_window(hca_objects.HcaMwCreate(program.pd, 1))
        case "regions":
            if not program.objects._segments:
                program.region(4096)
            (segment,) = program.objects._segments
            wanted = hca.HcaMrCreate(program.pd, 1, BASE, 4096, 1)
            wanted.pieces[0] = hca.HcaPiece(segment, 0, 0, 4096)
            program.objects.create_region(wanted)
        case "memberships":
            if not program.objects._qps:
                cq = program.cq()
                program.qp(cq, cq, kind=VerbsQpType.UD)
            (qpn,) = program.objects._qps
            group = (0xFF, 0x0E, *bytes(10), *number.to_bytes(4))
            program.objects.attach(hca_objects.HcaMcast(qpn, 0, (ctypes.c_uint8 * 16)(*group)))
