"""rdma_cm over a wire: Debian's unmodified programs between two network namespaces."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest

from support.oracles.rdmacm_calls import Ended, calls, has_raced
from support.processes.gpud_process import wait_until
from support.processes.tessera_run import environment
from support.programs.rdmacm_tools import skip_without
from support.programs.wire_nodes import ADDRESSES, IPV6, NAMES, Nodes, needs_namespaces

pytestmark = needs_namespaces

CAPTURE = Path(__file__).parents[2] / "support" / "scripts" / "packet_file.py"
ATTRIBUTES = {"REQ": 0x10, "REP": 0x13, "RTU": 0x14, "DREQ": 0x15, "DREP": 0x16}
TRIES = 6


@pytest.fixture(scope="module")
def nodes():
    with Nodes(mtu=1500) as made:
        yield made


class Playing:
    """A server on node 1, started and listening, and its clients on node 0."""

    def __init__(self, nodes: Nodes, name: str, *command: str) -> None:
        self.nodes = nodes
        self.served, self.requested = (home / f"{name}.trace" for home in nodes.homes[::-1])
        self.server = self._start(1, self.served, *command)
        try:
            assert wait_until(
                lambda: (
                    self.server.poll() is not None
                    or (
                        self.served.exists() and bool(calls(self.served.read_text(), "rdma_listen"))
                    )
                ),
                60,
            )
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.kill()
        self.server.communicate()
        for trace in (self.served, self.requested):
            trace.unlink(missing_ok=True)

    def _start(self, node: int, trace: Path, *command: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.nodes.run(node, *command),
            env=environment(self.nodes.homes[node]) | {"TESSERA_TRACE": str(trace)},
            cwd=self.nodes.homes[node],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ask(self, *command: str, seconds: float = 90) -> Ended:
        client = self._start(0, self.requested, *command)
        try:
            said, _ = client.communicate(timeout=seconds)
        finally:
            client.kill()
            client.wait()
        return Ended(client.returncode, said)

    def end(self) -> Ended:
        said, _ = self.server.communicate(timeout=60)
        return Ended(self.server.returncode, said)


def both(nodes: Nodes, server: tuple[str, ...], client: tuple[str, ...]) -> tuple[str, str]:
    """Run two programs against each other; both must end with status 0."""
    with Playing(nodes, server[0], *server) as playing:
        requester = playing.ask(*client)
        assert requester.status == 0, requester.said
        served = playing.end()
    assert served.status == 0, served.said
    return served.said, requester.said


@skip_without("rping")
@pytest.mark.parametrize("how", [(), ("-q",)], ids=["library's queue pair", "own queue pair"])
def test_rping(nodes, how):
    served, requester = both(
        nodes,
        ("rping", "-s", "-C", "3", "-v", *how),
        ("rping", "-c", "-a", ADDRESSES[1], "-C", "3", "-v", *how),
    )
    for said in (served, requester):
        assert len(re.findall(r"ping data: rdma-ping-\d: [!-~]{40}", said)) == 3, said


@skip_without("rping")
@pytest.mark.parametrize("how", [(), ("-q",)], ids=["library's queue pair", "own queue pair"])
def test_rping_over_ipv6(nodes, how):
    """A listener on any address gets the request; each side's path begins at its first GID."""
    served, requester = both(
        nodes,
        ("rping", "-s", "-C", "3", "-v", *how),
        ("rping", "-c", "-a", IPV6[1], "-C", "3", "-v", *how),
    )
    for said in (served, requester):
        assert len(re.findall(r"ping data: rdma-ping-\d: [!-~]{40}", said)) == 3, said


@skip_without("ucmatose")
@pytest.mark.parametrize("addresses", [ADDRESSES, IPV6], ids=["IPv4", "IPv6"])
def test_ucmatose_with_many_connections(nodes, addresses):
    served, requester = both(
        nodes, ("ucmatose", "-c", "50"), ("ucmatose", "-s", addresses[1], "-c", "50")
    )
    for said in (served, requester):
        assert "return status 0" in said
        assert "error" not in said


@skip_without("udaddy")
@pytest.mark.parametrize("addresses", [ADDRESSES, IPV6], ids=["IPv4", "IPv6"])
def test_udaddy(nodes, addresses):
    """SIDR finds a datagram queue pair, and its datagrams go over the wire."""
    served, requester = both(
        nodes, ("udaddy", "-c", "3"), ("udaddy", "-s", addresses[1], "-c", "3")
    )
    for said in (served, requester):
        assert "return status 0" in said


@skip_without("rping")
def test_a_port_without_a_listener_rejects(nodes):
    with Playing(nodes, "other", "rping", "-s", "-p", "7999") as playing:
        requester = playing.ask("rping", "-c", "-a", ADDRESSES[1], "-C", "1")
    assert requester.status != 0
    assert "RDMA_CM_EVENT_REJECTED, error 8" in requester.said


@skip_without("ib_write_bw")
@pytest.mark.parametrize("program", ["ib_write_bw", "ib_read_bw"])
def test_perftest_connects_by_rdma_cm(nodes, program):
    """The path MTU is that of the interface, in the connection manager and in verbs."""
    command = (program, "-R", "-F", "-n", "100")
    for _ in range(TRIES):
        with Playing(nodes, program, *command) as playing:
            requester = playing.ask(*command, ADDRESSES[1])
            if requester.status != 0 and has_raced(
                playing.served.read_text(), playing.requested.read_text()
            ):
                continue
            assert requester.status == 0, requester.said
            assert playing.end().status == 0
            break
    else:
        raise AssertionError("perftest's server has listened too late each time")
    assert re.search(r"rdma_cm QPs\s+: ON", requester.said)
    assert re.search(r"^ 65536 ", requester.said, re.MULTILINE)


@skip_without("rping")
@pytest.mark.skipif(
    shutil.which("tshark") is None, reason="NOT RUN: no tshark: apt-get install tshark"
)
def test_tshark_dissects_the_messages(nodes, tmp_path):
    """Packets of queue pair 1, in the layout of chapter 12; all messages of a transaction have its
    number.
    """
    capture = tmp_path / "capture"
    watching = subprocess.Popen(
        [*nodes.inside(1), sys.executable, str(CAPTURE), NAMES[1], str(capture)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    assert watching.stdout.readline() == "ready\n"
    both(nodes, ("rping", "-s", "-C", "1"), ("rping", "-c", "-a", ADDRESSES[1], "-C", "1"))
    watching.communicate(timeout=60)
    fields = (
        *("infiniband.mad.attributeid", "infiniband.mad.transactionid", "ip.src"),
        *("infiniband.bth.destqp", "infiniband.deth.q_key", "infiniband.cm.req.serviceid.dport"),
        *("infiniband.cm.req.pppmtu", "_ws.malformed"),
    )
    done = subprocess.run(
        ["tshark", "-r", str(capture), "-T", "fields", "-E", "separator=;"]
        + [part for name in fields for part in ("-e", name)],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split(";") for line in done.stdout.splitlines()]
    assert not [row for row in rows if row[-1]], "none is malformed"
    messages = {int(row[0], 16): row for row in rows if row[0]}
    assert set(messages) >= set(ATTRIBUTES.values())
    by_name = {name: messages[number] for name, number in ATTRIBUTES.items()}
    assert len({by_name[name][1] for name in ("REQ", "REP", "RTU")}) == 1
    assert by_name["REQ"][2] == ADDRESSES[0]
    seen = [int(part, 16) for part in by_name["REQ"][3:7]]
    assert seen == [1, 0x80010000, 7174, 3], "queue pair 1, its Q_Key, rping's port, 1024 bytes"
    assert by_name["REP"][2] == ADDRESSES[1]
