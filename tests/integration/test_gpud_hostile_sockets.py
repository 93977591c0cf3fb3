"""A running gpud under garbage on both kinds of sockets: each gets its answer, nobody else notices."""

import contextlib
import json
import os
import random
import socket
import time
from pathlib import Path

import pytest
from gpud_process import (
    Gpud,
    RawClient,
    gpud,
    raw_client,
    status_of_passed_on_socket,
    wait_until,
)

from vgpu_sim.driver import slice_client
from vgpu_sim.driver.admin_client import AdminRefused
from vgpu_sim.driver.slice_client import hello_message
from vgpu_sim.hal.messages import MessageType

TOKEN = bytes(range(32))


@pytest.fixture(scope="module")
def node():
    with gpud(token=TOKEN) as running:
        running.slice = running.make_slice()
        yield running
        assert running.process.poll() is None
        assert "Traceback" not in running.log


def connect(node: Gpud) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(10)
    sock.connect(f"{node.slice['socket_dir']}/s.sock")
    return sock


def hung_up(sock: socket.socket) -> bool:
    try:
        return sock.recv(100) == b""
    except ConnectionResetError:
        return True


def answers(node: Gpud) -> bool:
    return slice_client.query(Path(node.slice["socket_dir"])).multiprocessors == 16


@pytest.mark.parametrize(
    "data", [b"x", b"\0" * 88, b"GET / HTTP/1.1\r\n\r\n", os.urandom(88), os.urandom(4096)]
)
def test_garbage_on_the_slice_socket_is_hung_up_on(node, data):
    with connect(node) as sock:
        sock.send(data)
        assert hung_up(sock)
    assert answers(node)


def test_descriptors_with_a_hello_are_refused_and_closed(node):
    before = len(os.listdir(f"/proc/{node.process.pid}/fd"))
    with connect(node) as sock, open("/dev/null") as null:
        hello = hello_message(MessageType.HELLO_QUERY)
        socket.send_fds(sock, [hello], [null.fileno()] * 100)
        assert hung_up(sock)
    assert wait_until(lambda: len(os.listdir(f"/proc/{node.process.pid}/fd")) <= before)


def test_hundreds_of_mutated_hellos_leave_it_serving(node):
    generator = random.Random(3)
    for _ in range(300):
        data = bytearray(hello_message(MessageType.HELLO_QUERY))
        for _ in range(generator.randrange(1, 4)):
            data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        with connect(node) as sock:
            sock.send(bytes(data))
            assert sock.recv(4096) is not None
    assert answers(node)


def test_silent_clients_do_not_keep_others_out(node):
    with contextlib.ExitStack() as silent:
        for _ in range(200):
            silent.enter_context(connect(node))
        started = time.monotonic()
        assert answers(node)
        assert time.monotonic() - started < 3


def test_a_silent_client_is_hung_up_on(node):
    with connect(node) as sock:
        started = time.monotonic()
        assert hung_up(sock)
        assert 3 < time.monotonic() - started < 9


def test_wrong_token_is_not_permitted(node):
    with raw_client(node.slice["socket_dir"], b"\xff" * 32) as client:
        assert client.open().status == 800
    with raw_client(node.slice["socket_dir"], TOKEN) as client:
        assert client.open().status == 0


def test_a_connection_whose_maker_has_ended_is_not_permitted(node):
    for exits, status in ((False, 0), (True, 800)):
        client = RawClient(node.slice["socket_dir"], TOKEN)
        assert status_of_passed_on_socket(client, lambda: None, exits) == status


def test_a_second_message_before_the_answer_ends_the_connection(node):
    with connect(node) as sock:
        hello = hello_message(MessageType.HELLO_CONTEXT, 1, TOKEN, 0, 0x2000_0000_0000)
        sock.send(hello)
        sock.send(hello)
        while sock.recv(4096):  # perhaps a context came first: its worker then hangs up
            pass
    assert answers(node)


def test_a_withdrawn_slice_answers_queries_and_refuses_contexts(node):
    node.call("set_admission", uuid=node.slice["uuid"], admit=False)
    with raw_client(node.slice["socket_dir"], TOKEN) as client:
        assert client.open().status == 46
    assert answers(node)
    node.call("set_admission", uuid=node.slice["uuid"], admit=True)


def admin_lines(node: Gpud, data: bytes) -> list[dict]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(10)
        sock.connect(str(node.run_dir / "gpud.sock"))
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        received = b""
        while chunk := sock.recv(65536):
            received += chunk
    return [json.loads(line) for line in received.splitlines()]


@pytest.mark.parametrize(
    "line",
    [
        b"garbage",
        b"[]",
        b"{}",
        b"null",
        b'{"id": 1}',
        b'{"id": {}, "method": "inventory"}',
        b'{"id": 1, "method": "inventory", "params": []}',
        b'{"id": 1, "method": "inventory", "surprise": 1}',
        b'{"id": 1, "method": "__init__"}',
        b'{"id": 1, "method": "inventory", "params": {"x": 1}}',
        b'{"id": 1, "method": "configure", "params": {"gpus": [1], "budget_bytes": 0}}',
        b'{"id": 1, "method": "configure", "params": {"gpus": [], "budget_bytes": -1}}',
        b'{"id": 1, "method": "configure", "params": {"gpus": [], "budget_bytes": true}}',
        b'{"id": 1, "method": "create_instance", "params": {"gpu_uuid": 1, "profile": 2, "start": 3}}',
        b'{"id": 1, "method": "destroy_instance", "params": {"uuid": "MIG-../../../etc"}}',
        b'{"id": 1, "method": "set_holders", "params": {"holders": [], "complete": true}}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
    ],
)
def test_a_bad_request_is_answered_as_invalid(node, line):
    replies = admin_lines(node, line + b"\n" + b'{"id": 2, "method": "inventory"}\n')
    assert [reply.get("error", {}).get("code") for reply in replies] in (
        ["invalid", None],
        ["conflict", None],
    )
    assert replies[1]["id"] == 2
    assert replies[1]["result"]["gpus"]


def test_an_endless_line_is_cut_off(node):
    (reply,) = admin_lines(node, b"x" * (1 << 20) + b"x")
    assert reply["error"]["code"] == "invalid"


def test_half_a_request_is_not_carried_out(node):
    assert admin_lines(node, b'{"id": 1, "method": "inventory"}') == []


def test_holders_make_no_sense_without_pods(node):
    with pytest.raises(AdminRefused) as refused:
        node.call("set_holders", holders={}, complete=True)
    assert refused.value.code == "conflict"


def test_the_sockets_are_private(node):
    for path in (node.run_dir / "gpud.sock", Path(node.slice["socket_dir"]) / "s.sock"):
        assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_too_many_contexts_are_out_of_memory_and_come_back(node):
    clients = []
    try:
        for index in range(64):
            clients.append(RawClient(node.slice["socket_dir"], TOKEN).open(context_index=index))
        assert {client.status for client in clients} == {0}
        with raw_client(node.slice["socket_dir"], TOKEN) as one_more:
            assert one_more.open().status == 2
    finally:
        for client in clients:
            client.close()
    wait_until(lambda: not node.instance(node.slice["uuid"])["contexts"])
    with raw_client(node.slice["socket_dir"], TOKEN) as again:
        assert again.open().status == 0
