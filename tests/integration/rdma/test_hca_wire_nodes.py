"""``tessera run --hca --wire``: Debian's unmodified programs between two network namespaces."""

import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.processes import hcad_process
from support.processes.perftest_clock import FOR_AN_HOUR, finish, measuring
from support.processes.tessera_run import environment, tessera
from support.programs.verbs_tools import skip_without
from support.programs.wire_nodes import ADDRESSES, NAMES, Nodes, needs_namespaces

pytestmark = needs_namespaces


@pytest.fixture(scope="module")
def nodes():
    with Nodes() as made:
        yield made


@pytest.fixture(scope="module")
def small():
    with Nodes(mtu=1500) as made:
        yield made


@skip_without("ibv_devinfo")
def test_addresses_and_mtu_are_the_interfaces(nodes, small):
    for pair, mtu in ((nodes, "4096 (5)"), (small, "1024 (3)")):
        shown, _ = pair.start(0, "ibv_devinfo", "-v").communicate(timeout=60)
        assert f"active_mtu:\t\t{mtu}" in shown
        assert f"GID[  1]:\t\t::ffff:{ADDRESSES[0]}, RoCE v2" in shown
        assert "GID[  0]:\t\tfd78::1, RoCE v2" in shown


@skip_without("ibv_rc_pingpong")
@pytest.mark.parametrize("options", [(), ("--wire-gso",)], ids=["packets", "segments"])
@pytest.mark.parametrize("how", [("-g", "1"), ("-g", "1", "-e"), ("-g", "0")], ids=" ".join)
def test_ibv_rc_pingpong(nodes, how, options):
    """Over IPv4 with polling and with events, and over IPv6."""
    for said in nodes.play("ibv_rc_pingpong", "-n", "100", "-c", *how, options=options):
        assert "100 iters in" in said
        assert "invalid data" not in said


@skip_without("ib_write_bw")
@pytest.mark.parametrize("options", [(), ("--wire-gso",)], ids=["packets", "segments"])
@pytest.mark.parametrize(
    "command", [("ib_write_bw",), ("ib_send_bw",), ("ib_read_bw",)], ids=" ".join
)
def test_perftest(nodes, command, options):
    """With the default flags, except for the check of the clock."""
    for said in nodes.play(*command, "-F", options=options):
        assert "tessera_0" in said
    assert "Mtu             : 4096[B]" in said


@skip_without("ibv_uc_pingpong")
@pytest.mark.parametrize(
    "command",
    [
        ("ibv_uc_pingpong", "-g", "1"),
        ("ibv_uc_pingpong", "-g", "0", "-e"),
        ("ibv_ud_pingpong", "-g", "1"),
        ("ibv_ud_pingpong", "-g", "0", "-e"),
        ("ibv_srq_pingpong", "-g", "1", "-q", "4"),
    ],
    ids=" ".join,
)
def test_the_other_pingpongs(nodes, command):
    """Pingpongs of unreliable connections, datagrams (IPv4 and IPv6), and shared receive queues."""
    for said in nodes.play(*command, "-n", "100"):
        assert "iters in" in said


# Unreliable senders are not slowed down: their messages in flight must fit into a socket's buffer.
FEW = ("-n", "20", "-s", "1024")


@skip_without("ib_write_bw")
@pytest.mark.parametrize(
    "command",
    [
        ("ib_send_bw", "-c", "UC", *FEW),
        ("ib_send_bw", "-c", "UD", *FEW),
        ("ib_write_bw", "-c", "UC"),
        ("ib_send_lat", "-c", "UC", "-n", "50"),
        ("ib_send_lat", "-c", "UD", "-n", "50"),
        ("ib_write_lat", "-c", "UC", "-n", "50"),
        ("ib_read_lat", "-n", "50"),
        ("ib_atomic_bw", "-n", "200"),
        ("ib_atomic_bw", "-A", "CMP_AND_SWAP", "-n", "200"),
        ("ib_atomic_lat", "-n", "50"),
        ("ib_send_bw", "--use-srq", "-q", "2", "-n", "100"),
    ],
    ids=" ".join,
)
def test_every_transport_and_operation_of_perftest(nodes, command):
    for said in nodes.play(*command, "-F"):
        assert "tessera_0" in said


@skip_without("ib_write_bw")
@pytest.mark.parametrize(
    "command",
    [
        ("ib_write_lat", "-n", "50"),
        ("ib_send_bw", "-e", "-b", "-q", "4", "-n", "100"),
        ("ib_write_bw", "-s", "1000003", "-n", "20"),
    ],
    ids=" ".join,
)
def test_perftest_over_small_packets(small, command):
    assert "Mtu             : 1024[B]" in small.play(*command, "-F")[1]


@skip_without("ib_write_bw")
def test_a_peer_that_is_killed_is_an_error_and_not_a_hang(nodes):
    """The peer's hcad ends with it: no peer answers any more, and requests end with an error."""
    command = ("ib_write_bw", "-F", *FOR_AN_HOUR)
    server = nodes.start(1, *command)
    nodes.until_listening(server, 90)
    client = nodes.start(0, *command, ADDRESSES[1])
    try:
        measuring(client, "ib_write_bw")
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
        said, _ = client.communicate(timeout=60)
    finally:
        for process in (client, server):
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
    assert client.returncode != 0
    assert "status 12" in said or "transport retry counter exceeded" in said, said


@pytest.mark.parametrize(
    ("wire", "why"),
    [("none0", "no interface none0"), ("10.1.2.3", "no interface has the address 10.1.2.3")],
)
def test_a_wire_that_is_not_there_is_an_error(tmp_path, wire, why):
    done = subprocess.run(
        tessera("run", "--hca", "--wire", wire, "--", "true"),
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert why in done.stderr


def test_a_fabric_has_one_wire(nodes, tmp_path):
    """A member with another wire is refused, and one with the same wire joins."""
    names = ("--fabric", "one")
    holder = nodes.start(0, "sh", "-c", "echo there; exec sleep 600", options=names)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "there\n"
        for wire, status in ((NAMES[0], 0), ("127.0.0.1", 125)):
            joined = subprocess.run(
                [*nodes.inside(0), *tessera("run", "--hca", "--wire", wire, *names, "--", "true")],
                env=environment(nodes.homes[0]),
                capture_output=True,
                text=True,
                check=False,
            )
            assert joined.returncode == status, joined.stderr
        assert (
            "fabric one exists already, but its members do not use the address 127.0.0.1"
            in joined.stderr
        )
    finally:
        holder.terminate()
        holder.communicate(timeout=60)


def test_an_address_that_is_taken_is_an_error(nodes):
    """Two fabrics cannot have one address: the second hcad reports the error."""
    first = nodes.start(0, "sh", "-c", "echo there; exec sleep 600")
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == "there\n"
        said, _ = nodes.start(0, "true").communicate(timeout=60)
        assert re.search(r"UDP port 4791 of \S+: Address already in use", said)
    finally:
        first.terminate()
        first.communicate(timeout=60)


@skip_without("ib_write_bw")
@pytest.mark.parametrize("tool", ["ib_send_bw", "ib_read_bw"])
def test_perftest_runs_across_hand_overs_of_both_ends(nodes, tool):
    """A successor gets the sockets, and each connection's position in its packets."""
    name = tool.replace("_", "-")
    options = ("--fabric", name)
    command = (tool, "-F", *FOR_AN_HOUR)
    server = nodes.start(1, *command, options=options)
    successors: list[subprocess.Popen[bytes]] = []
    client = None

    def succeed(node: int) -> subprocess.Popen[bytes]:
        (folder,) = nodes.homes[node].glob(f"tessera-fabrics-*/{name}")
        return hcad_process.start(folder, "--take-over", within=nodes.inside(node))

    try:
        nodes.until_listening(server, 90)
        client = nodes.start(0, *command, ADDRESSES[1], options=options)
        counting = [measuring(client, tool)]
        if tool == "ib_send_bw":  # the peer of a READ counts nothing
            counting.append(measuring(server, tool))
        with ThreadPoolExecutor() as both:  # two at a time, as each takes seconds to start
            successors += both.map(succeed, (0, 1))
        assert client.poll() is None, "it ended before both hand-overs: nothing is shown"
        finish(*counting)
        said, _ = client.communicate(timeout=60)
        assert client.returncode == 0, said
        output, _ = server.communicate(timeout=60)
        assert server.returncode == 0, output
        assert [one.wait(60) for one in successors] == [0, 0]
    finally:
        for process in (server, *([client] if client else []), *successors):
            process.kill()
            process.wait()


@skip_without("ib_write_bw")
def test_an_address_sends_no_more_than_its_rate(nodes):
    """Checks perftest's average for a limit of 20 MiB/s; "MB" in its table is 2^20 bytes."""
    command = ("ib_write_bw", "-F", "-n", "200")
    said = nodes.play(*command, options=("--wire-rate", "20Mi"))[0]
    (average,) = re.findall(r"^ *65536 +200 +[\d.]+ +([\d.]+) ", said, re.MULTILINE)
    assert float(average) <= 25
