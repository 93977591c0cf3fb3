"""A successor takes over: programs notice nothing, and a successor that fails changes nothing."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hca.contract import hca
from hca.contract.cm import CmMessage
from hca.contract.hca import HcaMessage
from hca.daemon.serving import handover
from rdma import codec
from support.processes import hcad_process
from support.processes.gpud_process import wait_until
from support.processes.hcad_process import Connection, member, program, queue_pair, region
from support.processes.perftest_clock import FOR_AN_HOUR, finish, measuring
from support.processes.tessera_run import environment
from support.programs.verbs_tools import (
    find_hcad,
    free_port,
    hcad_of,
    listens,
    run_hca,
    skip_without,
)
from support.rigs import rdma_lab
from vgpu_sim.cli.clients.admin import AdminClient, AdminRefused

TOKEN = b"t" * 32


def serves(connection: Connection) -> None:
    """Check that every kind of object can still be created, queried, and removed."""
    qp = queue_pair(connection)()
    assert connection.ask(HcaMessage.QP_QUERY, hca.HcaHandle(qp))[0] == 0
    assert connection.ask(HcaMessage.QP_DESTROY, hca.HcaHandle(qp))[0] == 0
    region(connection)()


def test_connections_objects_and_numbers_outlive_hcad(tmp_path):
    with hcad_process.running(tmp_path) as old, member(tmp_path, TOKEN).socket:
        one = program(tmp_path, TOKEN)
        numbers = [queue_pair(one)() for _ in range(300)]  # more than one message of descriptors
        query = {n: one.ask(HcaMessage.QP_QUERY, hca.HcaHandle(n))[1] for n in numbers}
        late = Connection(tmp_path)  # it has yet to identify itself, in a limited time
        with hcad_process.running(tmp_path, "--take-over") as new:
            assert old.wait(60) == 0
            status, _body, fds = late.ask(HcaMessage.OPEN, hcad_process.hello(TOKEN))
            assert status == 0
            for fd in fds:
                os.close(fd)
            for number, before in query.items():
                status, after, _fds = one.ask(HcaMessage.QP_QUERY, hca.HcaHandle(number))
                assert (status, after) == (0, before)
            serves(one)
            other = program(tmp_path, TOKEN)  # the socket's path is the same
            serves(other)
            for connection in (one, other, late):
                connection.close()
            assert new.poll() is None
            with hcad_process.running(tmp_path, "--take-over"):
                assert new.wait(60) == 0, "and once more"
                last = program(tmp_path, TOKEN)
                serves(last)
                last.close()


def test_the_last_member_ends_the_successor_and_the_folder_goes(tmp_path):
    folder = tmp_path / "f"
    folder.mkdir()
    (folder / "lock").touch()
    with hcad_process.running(folder), member(folder, TOKEN).socket:
        new = hcad_process.start(folder, "--take-over")
    try:
        assert new.wait(60) == 0
    finally:
        new.kill()
        new.wait()
    assert not folder.exists()


def test_sigterm_waits_for_a_successor_with_the_option(tmp_path):
    with hcad_process.running(tmp_path, "--linger", "30") as old, member(tmp_path, TOKEN).socket:
        one = program(tmp_path, TOKEN)
        old.send_signal(signal.SIGTERM)
        serves(one)
        with hcad_process.running(tmp_path, "--take-over"):
            assert old.wait(60) == 0
            serves(one)
            one.close()


def ask(successor: socket.socket) -> None:
    """Send a successor's first message."""
    successor.send(b"TAKE %d" % handover.VERSION)


def wrong_version(successor: socket.socket) -> None:
    successor.send(b"TAKE 99")
    assert b"version" in successor.recv(256)


def dies_at_once(successor: socket.socket) -> None:
    del successor


def dies_after_asking(successor: socket.socket) -> None:
    ask(successor)


def dies_with_everything(successor: socket.socket) -> None:
    ask(successor)
    _word, descriptors, _flags, _address = socket.recv_fds(successor, 256, 253)
    _word, more, _flags, _address = socket.recv_fds(successor, 256, 253)
    for descriptor in (*descriptors, *more):
        os.close(descriptor)


def says_something_else(successor: socket.socket) -> None:
    ask(successor)
    successor.send(b"GO")
    assert successor.recv(256)


@pytest.mark.parametrize(
    "fails",
    [wrong_version, dies_at_once, dies_after_asking, dies_with_everything, says_something_else],
)
def test_a_successor_that_fails_leaves_the_old_one_serving(
    tmp_path: Path, fails: Callable[[socket.socket], None]
) -> None:
    with hcad_process.running(tmp_path) as old, member(tmp_path, TOKEN).socket:
        one = program(tmp_path, TOKEN)
        serves(one)
        for _ in range(2):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as successor:
                successor.settimeout(60)
                successor.connect(str(tmp_path / handover.SOCKET_NAME))
                fails(successor)
            serves(one)
        assert old.poll() is None
        with hcad_process.running(tmp_path, "--take-over"):
            assert old.wait(60) == 0, "and a good one may come"
            serves(one)
            one.close()


def test_a_successor_without_a_predecessor_says_so(tmp_path):
    reading, writing = os.pipe()
    done = subprocess.run(
        [
            *hcad_process.python_process.module_command("hca.daemon"),
            *("--directory", tmp_path, "--ready-fd", str(writing), "--memory", "1", "--take-over"),
        ],
        env=hcad_process.python_process.module_environment(),
        pass_fds=(writing,),
        capture_output=True,
        text=True,
        check=False,
    )
    os.close(reading)
    os.close(writing)
    assert done.returncode == 1
    assert done.stderr.startswith("hcad: ")


def test_tables_go_with_the_fabric_and_the_next_ones_come_after_them(tmp_path):
    pods = (rdma_lab.pod(0), rdma_lab.pod(1))

    def ask(method: str, **params: object) -> dict[str, Any]:
        with AdminClient(tmp_path, name="admin.sock") as admin:
            return admin.call(method, **params)

    with hcad_process.running(tmp_path) as old, member(tmp_path, TOKEN).socket:
        ask("tables", document=codec.encode(rdma_lab.tables(7, pods)))
        before = ask("policy-status")
        assert (before["managed"], before["generation"]) == (True, 7)
        with hcad_process.running(tmp_path, "--take-over"):
            assert old.wait(60) == 0
            assert ask("policy-status") == before
            with pytest.raises(AdminRefused, match="generation 6"):
                ask("tables", document=codec.encode(rdma_lab.tables(6, pods)))
            assert ask("tables", document=codec.encode(rdma_lab.tables(8, pods)))["generation"] == 8


def test_connections_of_librdmacm_are_not_taken_from_their_programs(tmp_path):
    with hcad_process.running(tmp_path) as old, member(tmp_path, TOKEN).socket:
        one = Connection(tmp_path)
        assert one.ask(CmMessage.OPEN, hcad_process.hello(TOKEN))[0] == 0
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as successor:
            successor.settimeout(60)
            successor.connect(str(tmp_path / handover.SOCKET_NAME))
            ask(successor)
            assert b"librdmacm" in successor.recv(256)
        assert old.poll() is None
        one.close()
        with hcad_process.running(tmp_path, "--take-over"):
            assert old.wait(60) == 0, "when it has gone the fabric may be handed over"


@skip_without("ib_write_bw")
@pytest.mark.parametrize("tool", ["ib_write_bw", "ib_send_bw"])
def test_perftest_runs_across_hand_overs_and_exits_0(tmp_path, tool):
    """perftest runs until three handovers are done, however long they take."""
    port = free_port()
    full = ("stdbuf", "-oL", tool, "-F", *FOR_AN_HOUR, "-p", str(port))
    server = subprocess.Popen(
        run_hca(tmp_path, *full, fabric="h"),
        env=environment(tmp_path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    successors: list[subprocess.Popen[bytes]] = []
    client = None
    try:
        assert wait_until(lambda: listens(port) or server.poll() is not None)
        client = subprocess.Popen(
            run_hca(tmp_path, *full, "127.0.0.1", fabric="h"),
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        counting = [measuring(client, tool)]
        if tool == "ib_send_bw":  # the receiver of a WRITE counts nothing
            counting.append(measuring(server, tool))
        first = hcad_of(tmp_path)
        folder = next(tmp_path.glob("tessera-fabrics-*/h"))
        for _ in range(3):
            successors.append(hcad_process.start(folder, "--take-over"))
        # Those before it have handed over, and may still end.
        last = successors[-1].pid
        assert wait_until(lambda: find_hcad(tmp_path) == last), "no other hcad serves"
        assert first != last
        finish(*counting)
        said, _ = client.communicate(timeout=60)
        assert client.returncode == 0, said
        assert server.wait(60) == 0
        assert successors[-1].wait(60) == 0
    finally:
        for process in (server, *([client] if client else []), *successors):
            process.kill()
            process.wait()


def test_the_document_has_no_place_for_a_descriptor_twice():
    handover_state = handover.HandoverState([7, 8])
    assert handover_state.take_descriptor(0) == 7
    for place in (0, 2, -1):
        with pytest.raises(ValueError, match="descriptor"):
            handover_state.take_descriptor(place)
    assert handover_state.list_unclaimed() == [8]
    assert json.loads(json.dumps({"place": handover_state.add_descriptor(9)})) == {"place": 2}
