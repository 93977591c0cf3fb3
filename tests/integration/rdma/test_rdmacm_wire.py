"""rdma_cm over a wire: Debian's unmodified programs between two network namespaces."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest

from support.processes.gpud_process import wait_until
from support.processes.tessera_run import environment
from support.programs.rdmacm_tools import Ended, calls, needed, raced
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
    """A program that serves on node 1, once it listens, and those that ask it from node 0."""

    def __init__(self, nodes: Nodes, name: str, *command: str) -> None:
        self.nodes = nodes
        self.served, self.asked = (home / f"{name}.trace" for home in nodes.homes[::-1])
        self.server = self._start(1, self.served, *command)
        try:
            assert wait_until(
                lambda: (
                    self.server.poll() is not None
                    or (self.served.exists() and bool(calls(self.served, "rdma_listen")))
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
        for trace in (self.served, self.asked):
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
        client = self._start(0, self.asked, *command)
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
        asked = playing.ask(*client)
        assert asked.status == 0, asked.said
        served = playing.end()
    assert served.status == 0, served.said
    return served.said, asked.said


@needed("rping")
@pytest.mark.parametrize("how", [(), ("-q",)], ids=["library's queue pair", "own queue pair"])
def test_rping(nodes, how):
    served, asked = both(
        nodes,
        ("rping", "-s", "-C", "3", "-v", *how),
        ("rping", "-c", "-a", ADDRESSES[1], "-C", "3", "-v", *how),
    )
    for said in (served, asked):
        assert len(re.findall(r"ping data: rdma-ping-\d: [!-~]{40}", said)) == 3, said


@needed("rping")
@pytest.mark.parametrize("how", [(), ("-q",)], ids=["library's queue pair", "own queue pair"])
def test_rping_over_ipv6(nodes, how):
    """Who serves any address hears of it; each side's path is from its first GID."""
    served, asked = both(
        nodes,
        ("rping", "-s", "-C", "3", "-v", *how),
        ("rping", "-c", "-a", IPV6[1], "-C", "3", "-v", *how),
    )
    for said in (served, asked):
        assert len(re.findall(r"ping data: rdma-ping-\d: [!-~]{40}", said)) == 3, said


@needed("ucmatose")
@pytest.mark.parametrize("addresses", [ADDRESSES, IPV6], ids=["IPv4", "IPv6"])
def test_ucmatose_with_many_connections(nodes, addresses):
    served, asked = both(
        nodes, ("ucmatose", "-c", "50"), ("ucmatose", "-s", addresses[1], "-c", "50")
    )
    for said in (served, asked):
        assert "return status 0" in said
        assert "error" not in said


@needed("udaddy")
@pytest.mark.parametrize("addresses", [ADDRESSES, IPV6], ids=["IPv4", "IPv6"])
def test_udaddy(nodes, addresses):
    """A queue pair of datagrams is found by SIDR, and its datagrams go over the wire."""
    served, asked = both(nodes, ("udaddy", "-c", "3"), ("udaddy", "-s", addresses[1], "-c", "3"))
    for said in (served, asked):
        assert "return status 0" in said


@needed("rping")
def test_nobody_listens(nodes):
    with Playing(nodes, "other", "rping", "-s", "-p", "7999") as playing:
        asked = playing.ask("rping", "-c", "-a", ADDRESSES[1], "-C", "1")
    assert asked.status != 0
    assert "RDMA_CM_EVENT_REJECTED, error 8" in asked.said


@needed("ib_write_bw")
@pytest.mark.parametrize("program", ["ib_write_bw", "ib_read_bw"])
def test_perftest_connects_by_rdma_cm(nodes, program):
    """Its path MTU is the interface's: what the connection manager says and what verbs take."""
    command = (program, "-R", "-F", "-n", "100")
    for _ in range(TRIES):
        with Playing(nodes, program, *command) as playing:
            asked = playing.ask(*command, ADDRESSES[1])
            if asked.status != 0 and raced(playing.served, playing.asked):
                continue
            assert asked.status == 0, asked.said
            assert playing.end().status == 0
            break
    else:
        raise AssertionError("perftest's server has listened too late each time")
    assert re.search(r"rdma_cm QPs\s+: ON", asked.said)
    assert re.search(r"^ 65536 ", asked.said, re.MULTILINE)


@needed("rping")
@pytest.mark.skipif(
    shutil.which("tshark") is None, reason="NOT RUN: no tshark: apt-get install tshark"
)
def test_tshark_dissects_the_messages(nodes, tmp_path):
    """Packets of queue pair 1, as chapter 12 lays them out; one transaction has one number."""
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
