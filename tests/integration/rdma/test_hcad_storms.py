"""One client causes storms of requests: others keep their objects, and can still create new
ones.
"""

import errno
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from hca.contract import hca
from hca.contract.cm import CmMessage
from hca.contract.hca import HcaMessage
from hca.daemon.common import quotas
from support.processes import hcad_process
from support.processes.hcad_process import Connection, hello, member, program, queue_pair, region

HOG, OTHER = b"h" * 32, b"o" * 32
PROMPT_SECONDS = 60.0  # for a machine that also runs other work


@pytest.fixture
def fabric(tmp_path: Path) -> Iterator[Path]:
    with hcad_process.running(tmp_path) as process:
        yield tmp_path
        assert process.poll() in (None, 0), "hcad has outlived it, or ended with its last member"


def open_files(process: subprocess.Popen[bytes]) -> int:
    """Return the number of descriptors that a process has open."""
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def until_refused(make: Callable[[], object], most: int) -> tuple[int, int]:
    """Repeat a call until it is refused; return the number of successes, and the final errno or
    0.
    """
    for count in range(most):
        try:
            make()
        except OSError as err:
            return count, err.errno or 0
    return most, 0


def serves(fabric: Path, token: bytes) -> float:
    """Use the fabric as a well-behaved program; return the seconds that it took."""
    began = time.monotonic()
    connection = program(fabric, token)
    queue_pair(connection, depth=128, entries=128)()
    region(connection)()
    connection.close()
    return time.monotonic() - began


def flood(connection: Connection) -> OSError | None:
    """Send requests without reading replies, until that fails; return the error."""
    try:
        for _ in range(100_000):
            connection.send(HcaMessage.PD_CREATE)
    except OSError as err:
        return err
    return None


def test_one_node_has_a_thousand_queue_pairs_and_regions(fabric):
    with member(fabric, OTHER).socket:
        one = program(fabric, OTHER)
        assert until_refused(queue_pair(one, depth=128), 1000) == (1000, 0)
        assert until_refused(region(one), 1000) == (1000, 0)
        one.close()


@pytest.mark.parametrize(
    ("what", "most"),
    [
        (queue_pair, hca.HCA_MAX_QPS),
        (region, hca.HCA_MAX_MRS),
        (lambda c: lambda: c.create(HcaMessage.PD_CREATE), hca.HCA_MAX_PDS),
        (lambda c: lambda: c.create(HcaMessage.CHANNEL_CREATE), hca.HCA_MAX_CHANNELS),
        (
            lambda c: lambda: c.create(HcaMessage.CQ_CREATE, hca.HcaCqCreate(1, 0)),
            hca.HCA_MAX_CQS,
        ),
    ],
    ids=["queue pairs", "regions", "domains", "channels", "completion queues"],
)
def test_a_client_has_so_many_of_a_kind_and_others_have_theirs(fabric, what, most):
    with member(fabric, HOG).socket, member(fabric, OTHER).socket:
        hog = program(fabric, HOG)
        count, status = until_refused(what(hog), most + 1)
        assert (count, status) == (most, errno.ENOMEM)
        assert serves(fabric, OTHER) < PROMPT_SECONDS
        hog.close()
        assert serves(fabric, HOG) < PROMPT_SECONDS, "what the dead one had is free"


def test_greedy_functions_leave_the_next_one_its_part(fabric):
    """Functions of one tenant take completion queues until they get no more."""
    part = quotas.RING_BYTES // 2 // quotas.FABRIC_FUNCTIONS
    wanted = hca.HcaCqCreate(hca.HCA_MAX_CQE, 0)
    ring_bytes = hca.HCA_MAX_CQE * 64 + 4096
    members, programs = [], []
    for number in range(12):
        token = bytes([number + 1]) * 32
        members.append(member(fabric, token))
        programs.append(program(fabric, token))
        create = partial(programs[-1].create, HcaMessage.CQ_CREATE, wanted)
        count, status = until_refused(create, hca.HCA_MAX_CQS)
        assert status == errno.ENOMEM
        assert count >= part // ring_bytes, number
    for connection in (*programs, *members):
        connection.close()


def test_rings_are_shared_out_however_many_programs_one_member_has(fabric):
    """The largest queues, from one program after another: hcad may be charged for their pages."""
    with member(fabric, HOG).socket, member(fabric, OTHER).socket:
        hogs, given = [], 0
        while True:
            hogs.append(program(fabric, HOG))
            wanted = hca.HcaCqCreate(hca.HCA_MAX_CQE, 0)
            count, status = until_refused(
                lambda: hogs[-1].create(HcaMessage.CQ_CREATE, wanted),  # noqa: B023
                64,
            )
            given += count
            if status:
                break
        assert status == errno.ENOMEM
        limit = quotas.RING_BYTES // 2 // quotas.FABRIC_FUNCTIONS + quotas.RING_BYTES // 4
        assert given * hca.HCA_MAX_CQE * 64 <= limit, "its part, and half of what is not reserved"
        assert serves(fabric, OTHER) < PROMPT_SECONDS
        for hog in hogs:
            hog.close()


def test_open_contexts_are_shared_out(fabric):
    with member(fabric, HOG).socket, member(fabric, OTHER).socket:
        hogs: list[Connection] = []
        count, status = until_refused(lambda: hogs.append(program(fabric, HOG)), 2000)
        assert count >= 200 or status == errno.ENOMEM
        assert serves(fabric, OTHER) < PROMPT_SECONDS
        for hog in hogs:
            hog.close()


def test_channels_of_the_connection_manager_are_shared_out(tmp_path):
    """Each channel needs two of hcad's descriptors, and a program may have a thousand channels."""
    few = ("sh", "-c", 'ulimit -n 2048; exec "$@"', "sh")
    process = hcad_process.start(tmp_path, within=few)
    try:
        with member(tmp_path, HOG).socket, member(tmp_path, OTHER).socket:
            hogs, given, status = [], 0, 0
            while not status:
                hogs.append(Connection(tmp_path))
                status, _, _ = hogs[-1].ask(CmMessage.OPEN, hello(HOG))
                if status:
                    break
                made = until_refused(lambda: hogs[-1].create(CmMessage.CHANNEL_CREATE), 400)
                given, status = given + made[0], made[1]
            assert status == errno.ENOMEM
            assert 100 < given < 500, "half of what there is, two for each"
            assert serves(tmp_path, OTHER) < PROMPT_SECONDS
            for hog in hogs:
                hog.close()
    finally:
        process.kill()
        process.wait()


def test_who_connects_and_says_nothing_does_not_keep_others_out(tmp_path):
    with hcad_process.running(tmp_path) as process, member(tmp_path, OTHER).socket:
        before = open_files(process)
        silent = [Connection(tmp_path) for _ in range(500)]
        assert serves(tmp_path, OTHER) < PROMPT_SECONDS
        assert open_files(process) <= before + 200
        dropped = 0
        for connection in silent[:400]:
            dropped += connection.socket.recv(1) == b""
        assert dropped == 400, "the oldest had to go"
        for connection in silent:
            connection.close()


def test_connections_that_come_and_go_leave_nothing(tmp_path):
    with hcad_process.running(tmp_path) as process, member(tmp_path, OTHER).socket:
        serves(tmp_path, OTHER)
        before = open_files(process)
        for _ in range(300):
            Connection(tmp_path).close()
            serves(tmp_path, OTHER) if _ % 50 == 0 else program(tmp_path, OTHER).close()
        serves(tmp_path, OTHER)
        deadline = time.monotonic() + 60
        while open_files(process) > before and time.monotonic() < deadline:
            time.sleep(0.01)
        assert open_files(process) <= before


def test_a_client_that_reads_no_replies_is_disconnected_and_delays_no_other(fabric):
    with member(fabric, HOG).socket, member(fabric, OTHER).socket:
        slow = program(fabric, HOG)
        slow.socket.setblocking(False)
        assert flood(slow) is not None, "nothing keeps its requests from piling up"
        assert serves(fabric, OTHER) < PROMPT_SECONDS
        slow.socket.settimeout(hcad_process.ANSWER_SECONDS)
        assert isinstance(flood(slow), ConnectionError)
        slow.close()


@pytest.mark.parametrize(
    "data", [b"", b"x", bytes(24), bytes(100_000), b"TSRA" + bytes(20)], ids=len
)
def test_what_is_no_message_is_hung_up_on(fabric, data):
    with member(fabric, OTHER).socket:
        stranger = Connection(fabric)
        stranger.socket.send(data)
        assert stranger.socket.recv(16) == b""
        stranger.close()
        inside = program(fabric, OTHER)
        inside.socket.send(data)
        assert inside.socket.recv(16) == b""
        inside.close()
        assert serves(fabric, OTHER) < PROMPT_SECONDS


def test_no_process_can_send_it_descriptors(fabric):
    with member(fabric, OTHER).socket:
        inside = program(fabric, OTHER)
        reading, writing = os.pipe()
        with suppress(PermissionError):  # sockets may refuse descriptors (Linux 6.16)
            socket.send_fds(inside.socket, [b"x" * 24], [reading] * 8)
            assert inside.socket.recv(16) == b"", "hung up"
        inside.close()
        os.close(reading)
        os.close(writing)
        assert serves(fabric, OTHER) < PROMPT_SECONDS


def test_the_objects_of_a_process_end_with_it_even_if_its_pid_is_used_again(tmp_path):
    """hcad stores nothing by pid: it identifies a client by its connection."""
    with hcad_process.running(tmp_path) as process, member(tmp_path, OTHER).socket:
        before = open_files(process)
        child = os.fork()
        if child == 0:
            try:
                connection = program(tmp_path, OTHER)
                queue_pair(connection)()
            finally:
                os.kill(os.getpid(), 9)
        os.waitpid(child, 0)
        deadline = time.monotonic() + 60
        while open_files(process) > before and time.monotonic() < deadline:
            time.sleep(0.01)
        assert open_files(process) <= before
