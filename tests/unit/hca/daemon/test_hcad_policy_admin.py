"""hcad's administration socket for policy: nothing can be opened without tables; bad tables are
refused.
"""

import asyncio
import ctypes
import errno
import ipaddress
import json
import random
import socket

import pytest

from hca.contract import hca
from hca.contract.fabric_files import SOCKET_NAME
from hca.contract.hca import HcaMessage
from hca.daemon.common.functions import Binding, Doorkeeper
from hca.daemon.common.quotas import Shares
from hca.daemon.policy.denials import MAX_KINDS, Denial, Denials
from hca.daemon.serving import policy_admin, server
from hca.daemon.serving.pods import PodServer
from rdma import codec
from rdma.objects import PodFacts
from support.rigs import rdma_lab
from support.rigs.rdma_lab import policy
from vgpu_sim.cli.clients.admin import AdminClient, AdminRefused
from vgpu_sim.hal import messages
from vgpu_sim.hal.messages import Header
from vgpu_sim.system import foreign, seqpacket
from vgpu_sim.system.admin_socket.events import EventBus
from vgpu_sim.system.admin_socket.server import AdminServer
from vgpu_sim.system.peers import PodUid

TOKEN = b"t" * messages.TOKEN_BYTES
PODS = (rdma_lab.pod(0, app="ps"),)


class Managed(server.Server):
    """A fabric with policy."""

    managed = True


def document(generation: int, *more: object, pods=PODS) -> str:
    return codec.encode(rdma_lab.tables(generation, pods, *more))


def greeting(kind: int) -> bytes:
    body = bytes(hca.HcaHello(hca.HCA_VERSION, 0, (ctypes.c_uint8 * len(TOKEN))(*TOKEN)))
    header = Header(messages.MAGIC, messages.PROTOCOL_VERSION, kind, 1, 0, len(body), 0)
    return bytes(header) + body


def hello(path, kind: int) -> tuple[socket.socket, Header]:
    """Send hello to hcad; return the connection and the header of the reply."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.settimeout(60)
    link.connect(str(path))
    link.send(greeting(kind))
    return link, Header.from_buffer_copy(link.recv(messages.MAX_MESSAGE_BYTES))


def refusal(admin: AdminClient, text: str) -> str:
    """Send tables; return the code of the refusal, or ""."""
    try:
        admin.call("tables", document=text)
    except AdminRefused as err:
        return err.code
    return ""


def with_hcad(tmp_path, engine, client, kind=Managed) -> None:
    """Run ``client`` in a thread while hcad serves a folder in the main thread."""

    async def serve() -> None:
        serving = kind(tmp_path, engine, 1 << 20, lambda: None, Shares(1024))
        admin = AdminServer(
            policy_admin.operations(serving.enforcer),
            EventBus(),
            max_line_bytes=policy_admin.MAX_LINE_BYTES,
        )
        await admin.open(tmp_path / "admin.sock")
        listener = seqpacket.bind(tmp_path / SOCKET_NAME, 0o600)
        serving.open(listener, refusing=foreign.refuse_descriptors(listener))
        try:
            await asyncio.to_thread(client)
        finally:
            await admin.close()
            await serving.close()

    asyncio.run(serve())


def test_nothing_opens_before_there_are_tables_and_then_it_does(tmp_path, engine):
    def client() -> None:
        path = tmp_path / SOCKET_NAME
        member, joined = hello(path, HcaMessage.JOIN)
        assert joined.status == 0
        link, opened = hello(path, HcaMessage.OPEN)
        assert opened.status == errno.EAGAIN
        link.close()
        with AdminClient(tmp_path, name="admin.sock") as admin:
            other = document(1, pods=(rdma_lab.pod(7),))
            assert admin.call("tables", document=other)["generation"] == 1
            link, opened = hello(path, HcaMessage.OPEN)
            assert opened.status == errno.EAGAIN, "tables that do not know it are as none"
            link.close()
            assert admin.call("policy-status")["parties"][0]["known"] is False
            admin.call("tables", document=document(2))
            assert admin.call("policy-status")["parties"][0]["known"] is True
            assert admin.call("policy-generation") == {"generation": 2}
        link, opened = hello(path, HcaMessage.OPEN)
        assert opened.status == 0
        link.close()
        member.close()

    with_hcad(tmp_path, engine, client)


def test_a_program_is_shown_its_first_partition(tmp_path, engine):
    partition = {"name": "one", "pkey": 0x11, "members": [{"podSelector": {}}]}
    partition["members"][0]["membership"] = "Limited"
    network = {"metadata": {"name": "n"}, "spec": {"partitions": [partition]}}

    def client() -> None:
        member, _ = hello(tmp_path / SOCKET_NAME, HcaMessage.JOIN)
        with AdminClient(tmp_path, name="admin.sock") as admin:
            admin.call("tables", document=document(1, (), [network]))
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link.settimeout(60)
        link.connect(str(tmp_path / SOCKET_NAME))
        link.send(greeting(HcaMessage.OPEN))
        device = hca.HcaDevice.from_buffer_copy(link.recv(4096), ctypes.sizeof(Header))
        assert device.pkeys[0] == 0x11
        link.close()
        member.close()

    with_hcad(tmp_path, engine, client)


def test_an_unmanaged_fabric_permits_everything(tmp_path, engine):
    def client() -> None:
        path = tmp_path / SOCKET_NAME
        member, _ = hello(path, HcaMessage.JOIN)
        link, opened = hello(path, HcaMessage.OPEN)
        assert opened.status == 0
        with AdminClient(tmp_path, name="admin.sock") as admin:
            status = admin.call("policy-status")
            assert admin.call("policy-generation") == {"generation": None}
        assert (status["managed"], status["generation"]) == (False, None)
        link.close()
        member.close()

    with_hcad(tmp_path, engine, client, server.Server)


def test_a_pod_opens_its_function_when_tables_name_it_at_its_address(tmp_path, engine):
    """The tables must have both its UID and its address: neither suffices."""
    uid, name = PodUid("1" * 32), "HCA-6b2f1e0c-6c0e-5f0e-9a2b-3d1c5a7e4f10"
    address = ipaddress.ip_address("10.244.1.5")

    def tables(generation: int, uid: str, address: object):
        pod = PodFacts(uid, "default", "a", rdma_lab.NODE, {}, (str(address),))
        other = PodFacts("2" * 32, "default", "b", rdma_lab.NODE, {}, ("10.244.1.6",))
        return rdma_lab.tables(generation, [pod, other])

    async def play() -> None:
        keeper = Doorkeeper(lambda _: uid, lambda _: frozenset({address}))
        pods = PodServer(tmp_path, engine, 1 << 20, keeper, tmp_path / "none")
        assert pods.enforcer.managed
        (tmp_path / "none").mkdir()
        pods.add(name)
        await pods.bind(name, Binding(uid, "default/a", (address,)))
        path = tmp_path / "functions" / name / SOCKET_NAME
        try:
            for expected, given in (
                (errno.EAGAIN, None),
                (errno.EAGAIN, tables(1, "3" * 32, address)),
                (errno.EAGAIN, tables(2, uid, "10.244.1.9")),
                (0, tables(3, uid, address)),
            ):
                if given is not None:
                    pods.enforcer.replace_tables(given)
                link, opened = await asyncio.to_thread(hello, path, HcaMessage.OPEN)
                link.close()
                assert opened.status == expected
        finally:
            await pods.close()

    asyncio.run(play())


def test_wrong_and_older_tables_are_refused_and_the_old_ones_stay(tmp_path, engine):
    good = document(5, [policy({"app": "ps"})])
    assert good.count('"generation":5') == 1
    spoiled = json.loads(good)
    wrong = [
        "",
        "null",
        "[]",
        "{}",
        "x" * 100,
        "[" * 100_000,
        good[:-1],
        good.replace('"generation":5', '"generation":-1'),
        good.replace('"generation":5', '"generation":6.0'),
        good.replace('"generation":5', '"generation":6,"generation":6'),
        json.dumps({**spoiled, "generation": 6, "more": 1}),
    ]
    chance = random.Random(9)
    for _ in range(50):  # with one byte changed it may still be tables, but older or different ones
        place = chance.randrange(len(good))
        spoilt = good[:place] + chr(chance.randrange(32, 127)) + good[place + 1 :]
        if spoilt != good:
            wrong.append(spoilt)

    def client() -> None:
        with AdminClient(tmp_path, name="admin.sock") as admin:
            admin.call("tables", document=good)
            for text in wrong:
                code = refusal(admin, text)
                assert code in ("", "invalid", "conflict")
                assert code or codec.decode(text).generation > 5, text
            with pytest.raises(AdminRefused) as older:
                admin.call("tables", document=document(4))
            assert older.value.code == "conflict"
            for parameters in ({}, {"document": 1}, {"document": good, "more": 1}):
                with pytest.raises(AdminRefused) as malformed:
                    admin.call("tables", **parameters)
                assert malformed.value.code == "invalid"
            assert admin.call("policy-status")["generation"] >= 5

    with_hcad(tmp_path, engine, client)


def test_what_is_not_enforced_is_named(tmp_path, engine):
    rules = {
        "ingress": [{"memory": {"scope": "Named", "regions": ["weights"]}}],
        "egress": [{"qosClassName": "bulk"}],
    }
    classes = [{"name": "bulk", "dscp": 10, "sl": 3}]
    network = {"metadata": {"name": "n"}, "spec": {"qosClasses": classes}}

    def client() -> None:
        with AdminClient(tmp_path, name="admin.sock") as admin:
            answer = admin.call(
                "tables", document=document(1, [policy({"app": "ps"}, **rules)], [network])
            )
            assert [text.partition(":")[0] for text in answer["refused"]] == [
                "default/p ingress[0].memory.regions weights",
                "qosClass bulk.sl",
            ]
            assert admin.call("policy-status")["refused"] == answer["refused"]

    with_hcad(tmp_path, engine, client)


def test_denials_are_handed_over_once(tmp_path, engine):
    def client() -> None:
        with AdminClient(tmp_path, name="admin.sock") as admin:
            assert admin.call("denials") == {"denials": [], "lost": 0}

    with_hcad(tmp_path, engine, client)


def test_however_many_are_denied_few_are_remembered():
    denials = Denials()
    for i in range(MAX_KINDS + 10):
        denials.add(Denial("f", str(i), "", "", "", "Write"), 2)
    assert denials.pending == MAX_KINDS
    assert denials.total == 2 * (MAX_KINDS + 10)
    taken, lost = denials.take()
    assert len(taken) == MAX_KINDS
    assert lost == 20
    assert denials.take() == ({}, 0)
