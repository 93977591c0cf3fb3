"""RDMA between nodes: packets from the pods' own network namespaces, and policy on both nodes."""

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cluster.kubectl import Cluster, in_node, until
from support.cluster.rdma_nodes import (
    DENIED,
    OBSERVED,
    SUPPORT,
    SYSTEM,
    WITHOUT_END,
    Capture,
    deny_writes,
    node_process,
    pace,
    perftest,
    running_pair,
    serve,
    wire,
    writes,
)

FIGURES = re.compile(r"^ 65536 +[0-9]+ +[0-9.]+ +([0-9.]+)", re.MULTILINE)
OWN = re.compile(r"local address: .*RKey (0x[0-9a-f]+) VAddr (0x[0-9a-f]+)")
PROGRAM = "ib_read_bw"
FORGED = b"forged!!"
ASK = """
import os, socket, sys
from hca.binding.wire import NoWire
from hca.daemon.netd.broker import Broker
directory, user, wanted = sys.argv[1:]
os.chdir(directory)
os.setgroups([])
os.setgid(int(user))
os.setuid(int(user))
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
    link.settimeout(50)
    link.connect("net.sock")
    with socket.socket(socket.AF_UNIX) as own:
        try:
            print("opened", Broker(link).open(own.fileno(), wanted).interface)
        except (NoWire, OSError) as err:
            print("refused:", err)
"""
HCAD_USER = "64009"


def test_ib_write_bw_plays_between_two_nodes(namespace: Cluster, nodes: tuple[str, str]) -> None:
    """Debian's program ends with status 0, and its packets are on the pods' own links."""
    command = f"ib_write_bw {OBSERVED}"
    server = serve(namespace, command, nodes[0])
    # The capture starts before the client: on a busy machine, the client's seconds may be over when
    # a later capture is ready.
    with Capture(nodes[0], server) as link:
        namespace.apply(pace(perftest("client", f"{command} {server}", nodes[1])))
        status = namespace.wait_pod("client")["status"]
        logs = namespace.logs("client")
        assert status["phase"] == "Succeeded", logs
        assert writes(link.since(), status["podIP"], server)
    assert namespace.wait_pod("server")["status"]["phase"] == "Succeeded"
    found = FIGURES.search(logs)
    assert found is not None
    assert float(found[1]) > 0
    print(f"between nodes: {found[0]}")
    until(lambda: not wire(nodes[0], server))  # without a program, the pod has no sockets


def test_an_interface_s_mtu_is_the_function_s_and_is_reported(
    namespace: Cluster, nodes: tuple[str, str]
) -> None:
    namespace.apply(
        perftest("server", "sh -c 'ibv_devinfo; cat /sys/class/net/eth0/mtu'", nodes[0])
    )
    namespace.wait_pod("server")
    logs = namespace.logs("server")
    mtu = int(logs.splitlines()[-1])
    carried = max(size for size in (256, 512, 1024, 2048, 4096) if size <= mtu - 92)
    assert re.search(rf"active_mtu:\s+{carried} ", logs), logs
    status = ("rdmanodetables", nodes[0], "-o", "jsonpath={.status.pathMtu}")
    until(lambda: namespace.kubectl("get", *status) == str(carried))


def test_a_denied_write_fails_between_nodes(namespace: Cluster, nodes: tuple[str, str]) -> None:
    """The policy exists before: the server's memory may be read, not written."""
    deny_writes(namespace)
    server = serve(namespace, "ib_write_bw -F", nodes[0])
    namespace.apply(perftest("client", f"ib_write_bw -F {server}", nodes[1]))
    assert namespace.wait_pod("client")["status"]["phase"] == "Failed"
    assert DENIED in namespace.logs("client")


def test_an_edit_revokes_what_runs_between_nodes(
    namespace: Cluster, nodes: tuple[str, str]
) -> None:
    """After the policy is acknowledged, no denied packet is on either link."""
    server, client = running_pair(namespace, nodes, f"ib_write_bw {WITHOUT_END}")
    with Capture(nodes[0], server) as there, Capture(nodes[1], client) as here:
        for link in (there, here):
            until(lambda link=link: writes(link.since(), client, server))
        deny_writes(namespace)
        before = [link.since() for link in (there, here)]  # until the acknowledgement
        assert all(writes(seen, client, server) for seen in before)
        ended = namespace.wait_pod("client")
        for link in (there, here):
            assert writes(link.since(), client, server) == 0
    assert ended["status"]["phase"] == "Failed"
    assert DENIED in namespace.logs("client")


def forger() -> dict[str, Any]:
    """Return a container with Python that has root's rights in its pod's network namespace."""
    (agent, *_) = SYSTEM.get("pods", "-l", "app.kubernetes.io/component=node")["items"]
    return {
        "name": "forger",
        "image": agent["spec"]["containers"][0]["image"],
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "600"],
        "securityContext": {"runAsUser": 0, "capabilities": {"add": ["NET_RAW", "NET_ADMIN"]}},
    }


def forge(cluster: Cluster, pod: str, *arguments: str) -> list[str]:
    """Run the forger in a pod; return the words that it prints."""
    script = (SUPPORT / "oracles" / "roce.py").read_text() + (
        SUPPORT / "scripts" / "forge_roce.py"
    ).read_text()
    begin = ("exec", "-i", pod, "-c", "forger", "--", "python", "-", *arguments)
    return cluster.kubectl(*begin, stdin=script).split()


@contextlib.contextmanager
def without_second_layer(nodes: tuple[str, str]) -> Iterator[None]:
    """Remove the rules from nodes' links for a while; linkd, which is stopped, loads them again
    later.
    """
    if not SYSTEM.get("daemonsets", "-l", "app.kubernetes.io/component=links")["items"]:
        yield
        return
    stop = "pgrep -f 'bin/tessera-linkd( |$)' | xargs kill -"
    for node in nodes:
        in_node(node, "sh", "-c", f"{stop}STOP")
    try:
        for node in nodes:
            for family in ("netdev", "inet"):
                in_node(node, "nft", "delete", "table", family, "tessera_rdma")
        yield
    finally:
        for node in nodes:
            in_node(node, "sh", "-c", f"{stop}CONT")


def server_memory(ip: str, address: int) -> bytes:
    """Return memory of the server's program, read as root of the machine."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text().strip() != PROGRAM:
                continue
            if f"|-- {ip}\n" not in (process / "net" / "fib_trie").read_text():
                continue
            with (process / "mem").open("rb", buffering=0) as memory:
                memory.seek(address)
                return memory.read(len(FORGED))
        except OSError:
            continue
    pytest.skip("NOT RUN: processes of the nodes are not to be seen from here")


@pytest.mark.alone("hcas")
def test_forged_packets_write_nothing(namespace: Cluster, nodes: tuple[str, str]) -> None:
    """A pod with NET_RAW and NET_ADMIN that knows all numbers and keys can write no more than
    others.

    With another pod's address: the second layer, and the node's kernel (rp_filter), drop foreign
    sources. With its own address, for its own live queue pair: the second layer drops the verb,
    and without it the responder denies the verb.
    """
    deny_writes(namespace)
    command = f"{PROGRAM} {WITHOUT_END}"
    server = serve(namespace, command, nodes[0])
    pod = pace(perftest("client", f"{command} {server}", nodes[1]))
    pod["spec"]["containers"].append(forger())
    pod["spec"]["shareProcessNamespace"] = True
    spoofer = perftest("spoofer", "", nodes[1])
    spoofer["spec"]["containers"] = [forger()]
    namespace.apply(pod, spoofer)
    client = str(namespace.wait_pod("client", "Running")["status"]["podIP"])
    namespace.wait_pod("spoofer", "Running")
    until(lambda: wire(nodes[0], server).get("packets", {}).get("received"), 60)
    key, address = OWN.findall(namespace.logs("server"))[0]
    qpn, psn = forge(namespace, "client", "sniff", PROGRAM, client, server)
    before = server_memory(server, int(address, 16))
    write = ("write", client, server, address, key, FORGED.decode(), qpn, psn)
    with Capture(nodes[0], server) as link:
        forge(namespace, "spoofer", *write)
        assert writes(link.since(), client, server) == 0, "another's address has passed"
        assert wire(nodes[0], server)["packets"]["denied"] == 0
        forge(namespace, "client", *write)
        assert writes(link.since(), client, server) == 0, "a denied verb has passed"
        with without_second_layer(nodes):
            forge(namespace, "client", *write)
        assert writes(link.since(), client, server) > 0
    assert wire(nodes[0], server)["packets"]["denied"] > 0
    assert server_memory(server, int(address, 16)) == before != FORGED


def test_what_runs_outlives_netd(namespace: Cluster, nodes: tuple[str, str]) -> None:
    """hcad has the sockets by then; a program that opens a function later gets a wire again."""
    running_pair(namespace, nodes, "ib_write_bw -F -D 10")
    in_node(nodes[0], "pkill", "-KILL", "-f", "bin/tessera-netd( |$)")
    ended = namespace.wait_pod("client")
    assert ended["status"]["phase"] == "Succeeded", namespace.logs("client")

    def has_a_wire() -> bool:
        return wire(nodes[0], ip).get("interface") == "eth0"

    opens = "sh -c 'while :; do timeout 2 ibv_rc_pingpong -g 1; done'"
    namespace.apply(perftest("late", opens, nodes[0]))
    ip = str(namespace.wait_pod("late", "Running")["status"]["podIP"])
    until(has_a_wire, 200)  # the kubelet delays a container that was killed several times


@pytest.mark.parametrize(
    ("user", "why"),
    [(HCAD_USER, "the node's own, not a pod's"), ("0", "does not answer|reset|Broken pipe")],
)
def test_netd_opens_nothing_of_the_node_and_nothing_for_others(
    nodes: tuple[str, str], user: str, why: str
) -> None:
    """A request for the node's own network and address; and a request by root instead of hcad."""
    node = node_process(nodes[0])
    kubelet = Cluster().get("node", nodes[0])["status"]["addresses"]
    (address, *_) = (one["address"] for one in kubelet if one["type"] == "InternalIP")
    directory = f"/proc/{node}/root/run/tessera/hca"
    command = ["nsenter", "-t", node, "-n", "--", sys.executable, "-c", ASK, directory, user]
    done = subprocess.run([*command, address], capture_output=True, text=True, timeout=60)
    assert re.search(f"refused: .*({why})", done.stdout), done.stdout + done.stderr
