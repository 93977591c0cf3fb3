"""A running gpud that receives garbage on both kinds of sockets: each sender gets its answer, no
other client is affected.
"""

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support.processes.gpud_process import (
    Gpud,
    RawClient,
    gpud,
    raw_client,
    status_of_passed_on_socket,
    wait_until,
)
from support.processes.lingering import let_go, lingering_socket
from vgpu_sim.cli.clients import slices as slice_client
from vgpu_sim.cli.clients.admin import AdminRefused
from vgpu_sim.cli.clients.slices import hello_message
from vgpu_sim.hal.messages import MessageType
from vgpu_sim.system import python_process

TOKEN = bytes(range(32))


@pytest.fixture(scope="module")
def node():
    with gpud(token=TOKEN) as running:
        running.slice = running.make_slice()
        running.neighbour = running.make_slice(start=1)
        yield running
        assert running.process.poll() is None
        assert "Traceback" not in running.log


def connect(node: Gpud) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(60)
    sock.connect(f"{node.slice['socket_dir']}/s.sock")
    return sock


def hung_up(sock: socket.socket) -> bool:
    try:
        return sock.recv(100) == b""
    except ConnectionResetError:
        return True


def answers(node: Gpud) -> bool:
    return slice_client.query(Path(node.slice["socket_dir"])).multiprocessors == 16


def neighbour_answers(node: Gpud) -> bool:
    """Query the other slice; the client waits 5 s at most."""
    return slice_client.query(Path(node.neighbour["socket_dir"])).multiprocessors == 16


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        b"\0" * 88,
        b"GET / HTTP/1.1\r\n\r\n",
        random.Random(88).randbytes(88),
        random.Random(4096).randbytes(4096),
    ],
    ids=["x", "zeros", "http", "random88", "random4096"],
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
        try:
            socket.send_fds(sock, [hello], [null.fileno()] * 100)
        except PermissionError:  # the kernel lets a socket refuse them (SO_PASSRIGHTS)
            sock.send(b"garbage")
        assert hung_up(sock)
    assert wait_until(lambda: len(os.listdir(f"/proc/{node.process.pid}/fd")) <= before)


@pytest.mark.parametrize(
    "data", [hello_message(MessageType.HELLO_QUERY), b"garbage"], ids=["hello", "garbage"]
)
@pytest.mark.parametrize("read", [True, False], ids=["read", "unread"])
def test_a_descriptor_that_lingers_delays_no_neighbour(node, data, read):
    """A descriptor that blocks the process which closes it last for a minute, whether read or
    not.
    """
    with lingering_socket() as linger, connect(node) as sock:
        if not read:
            sock.send(data)  # the connection is closed in answer to this one
        with contextlib.suppress(PermissionError, BrokenPipeError):
            socket.send_fds(sock, [data], [linger.fileno()])
            let_go(linger)  # the receiver owns it now; otherwise the reset would come first
        sock.close()
        assert neighbour_answers(node)
    assert answers(node)


def test_one_that_lingers_at_a_worker_delays_no_neighbour(node):
    """Workers accept descriptors, and gpud has had the same socket."""
    with lingering_socket() as linger, raw_client(node.slice["socket_dir"], TOKEN) as client:
        assert client.open().status == 0
        socket.send_fds(client.sock, [b"garbage"], [linger.fileno()])
        let_go(linger)
        assert neighbour_answers(node)
        with raw_client(node.neighbour["socket_dir"], TOKEN) as neighbour:
            assert neighbour.open().status == 0
    assert answers(node)


STORM = """
import itertools, os, select, socket, sys, threading
from vgpu_sim.cli.clients.slices import hello_message
from vgpu_sim.hal.messages import MessageType
token, kind, many = bytes.fromhex(sys.argv[1]), sys.argv[2], int(sys.argv[3])
hello = hello_message(MessageType.HELLO_CONTEXT, 1, token, 0, 0x2000_0000_0000)
done = itertools.count(1)

def attack(path):
    waiting = []
    while True:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            sock.connect(path)  # waits where too many wait to be accepted
            if kind != "connects":
                sock.send(hello)
        except OSError:
            continue
        if next(done) == many:
            os.write(1, b"storm")
        waiting.append(sock)
        if kind != "contexts":
            waiting.pop().close()
        elif len(waiting) >= 40:
            select.select(waiting, [], [])  # an answer to one of them: it hangs up
            waiting.sort(key=lambda one: one in select.select([one], [], [], 0)[0])
            waiting.pop().close()

for path in sys.argv[4:]:
    threading.Thread(target=attack, args=(path,)).start()
"""


@contextlib.contextmanager
def storm(node: Gpud, kind: str, many: int, slices: list[dict[str, Any]]):
    """Run an attack on each of these slices; the block begins after ``many`` repetitions."""
    paths = [f"{made['socket_dir']}/s.sock" for made in slices]
    with subprocess.Popen(
        [sys.executable, "-c", STORM, TOKEN.hex(), kind, str(many), *paths],
        stdout=subprocess.PIPE,
        env=python_process.module_environment(),
    ) as process:
        try:
            assert process.stdout.read(5) == b"storm"
            yield
            assert process.poll() is None, "the storm was over"
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("kind", "many", "attackers"),
    [
        ("connects", 10_000, 6),  # a slice's are accepted at 500 a second
        ("hang-ups", 1_500, 1),  # requests a context and disconnects, 500 times a second
        ("contexts", 60, 1),  # 40 wait at any time for one to start
    ],
)
def test_a_storm_on_one_slice_leaves_its_neighbour_its_turn(node, kind, many, attackers):
    """``test_gpud_starts`` shows that the neighbour's start is the next one."""
    others = [node.make_slice(start=start) for start in range(2, 1 + attackers)]
    with storm(node, kind, many, [node.slice, *others]):
        for _ in range(20):
            assert neighbour_answers(node)
        for _ in range(3):
            with raw_client(node.neighbour["socket_dir"], TOKEN) as client:
                assert client.open().status == 0
    assert wait_until(lambda: not node.instance(node.slice["uuid"])["contexts"])
    assert wait_until(lambda: answers_at_last(node))
    for made in others:
        node.call("destroy_instance", uuid=made["uuid"])


def answers_at_last(node: Gpud) -> bool:
    """Query the attacked slice, whose queue may still be full of disconnected clients."""
    with contextlib.suppress(slice_client.NotAnswered):
        return answers(node)
    return False


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
    """A client that had to wait for their timeout would wait for seconds in each attempt."""
    took = []
    while not took or (took[-1] >= 3 and len(took) < 10):  # a busy machine may be slow once
        with contextlib.ExitStack() as silent:
            for _ in range(200):
                silent.enter_context(connect(node))
            started = time.monotonic()
            assert answers(node)
            took.append(time.monotonic() - started)
    assert took[-1] < 3, took


def test_a_silent_client_is_hung_up_on(node):
    with connect(node) as sock:
        started = time.monotonic()
        assert hung_up(sock)
        assert 3 < time.monotonic() - started < 60


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
        with contextlib.suppress(ConnectionResetError):  # unread data turns the close into a reset
            while sock.recv(4096):  # perhaps a context started first: then its worker disconnects
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
        sock.settimeout(60)
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
