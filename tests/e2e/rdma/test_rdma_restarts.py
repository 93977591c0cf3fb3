"""Components of a node are replaced, restarted or killed while pods use RDMA."""

import time
from typing import Any

import pytest

from support.cluster.kubectl import Cluster, in_node, until
from support.cluster.rdma_nodes import (
    SYSTEM,
    WITHOUT_END,
    Capture,
    deny_writes,
    hca_pod_of,
    perftest,
    policy_status,
    running_pair,
    serve,
    wait_programmed,
    wire,
    writes,
)

pytestmark = pytest.mark.alone("hcas")
ROLLOUT_S = 120  # for all nodes, one after the other
GOES_ON_S = 60
# Peers retry for 8 s. With six runnable processes per CPU, the pause of a handover was 0.86 s once,
# longer than perftest's half second; it is 10 to 25 ms otherwise.
ENDLESS = f"ib_write_bw {WITHOUT_END} -u 18"
NOTICED_S = 1.0
BACK_S = 120  # the kubelet waits before it restarts a container that was killed several times
WITHOUT_PODS: dict[str, Any] = {
    "apiVersion": "rdma.tessera.dev/v1alpha1",
    "kind": "RDMANetworkPolicy",
    "metadata": {"name": "without-pods"},
    "spec": {"podSelector": {"matchLabels": {"app": "none"}}, "policyTypes": ["Ingress"]},
}


def daemon_set() -> str:
    """Return the DaemonSet of hcad and netd."""
    listed = ("-l", "app.kubernetes.io/component=hca")
    (found,) = SYSTEM.get("daemonsets", *listed)["items"]
    return f"daemonset/{found['metadata']['name']}"


def hcads() -> set[str]:
    listed = SYSTEM.get("pods", "-l", "app.kubernetes.io/component=hca")["items"]
    return {pod["metadata"]["uid"] for pod in listed}


def hcad_log(node: str) -> str:
    """Return the log of a node's hcad, with the time that its clients' requests paused."""
    name = hca_pod_of(node)["metadata"]["name"]
    return SYSTEM.kubectl("logs", "--timestamps", name, "-c", "hcad")


def phase(cluster: Cluster, pod: str) -> str:
    return str(cluster.get("pod", pod)["status"]["phase"])


def kill_hcad(node: str) -> float:
    """Kill a node's hcad; return the time by the machine's clock, which all nodes and pods
    share.
    """
    said = in_node(node, "sh", "-c", "date +%s.%N; pkill -KILL -f 'bin/tessera-hcad( |$)'")
    return float(said.split()[0])


def rounds(cluster: Cluster) -> int:
    """Return how many lines about writes the client has printed."""
    rows = (line.split() for line in cluster.logs("client").splitlines())
    return sum(len(row) == 5 and row[0] == "65536" and int(row[1]) > 0 for row in rows)


def goes_on(cluster: Cluster) -> None:
    """Wait until the client has reported more writes twice, so that the second report is of later
    ones.
    """
    seen = rounds(cluster)
    try:
        until(lambda: rounds(cluster) >= seen + 2, GOES_ON_S)
    except TimeoutError:
        raise AssertionError(f"it does not go on\n{cluster.last_lines()}") from None
    assert [phase(cluster, pod) for pod in ("client", "server")] == ["Running", "Running"]


@pytest.mark.parametrize("where", [pytest.param("one node", marks=pytest.mark.soak), "two nodes"])
def test_ib_write_bw_runs_across_a_rollout(
    namespace: Cluster, nodes: tuple[str, str], where: str
) -> None:
    """Each node's hcad is replaced by that of a new pod; the program notices nothing."""
    ends = (nodes[0], nodes[0]) if where == "one node" else nodes
    until(lambda: len(hcads()) >= 2, 60)
    running_pair(namespace, ends, ENDLESS)
    goes_on(namespace)
    before = hcads()
    SYSTEM.kubectl("rollout", "restart", daemon_set())
    SYSTEM.kubectl("rollout", "status", daemon_set(), f"--timeout={ROLLOUT_S}s")
    until(lambda: hcads().isdisjoint(before))
    logs = [hcad_log(node) for node in set(ends)]
    assert all("took_over programs=" in log for log in logs), logs
    try:
        goes_on(namespace)
    except AssertionError as error:
        raise AssertionError("\n".join([str(error), *logs])) from error


VICTIMS = {"agent": "-x tessera-agent", "operator": "-f 'bin/tessera-operator( |$)'"}


def on_nodes(command: str, victim: str, nodes: tuple[str, str]) -> set[tuple[str, str]]:
    """Run pgrep or pkill for a victim on each node; return the nodes and pids that match."""
    shell = f"{command} {VICTIMS[victim]}; true"
    found = ((node, in_node(node, "sh", "-c", shell)) for node in nodes)
    return {(node, pid) for node, pids in found for pid in pids.split()}


@pytest.mark.alone("first-node", "last-node", "hcas")
@pytest.mark.parametrize("victim", ["agent", pytest.param("operator", marks=pytest.mark.soak)])
def test_no_queue_pair_changes_when_others_restart(
    namespace: Cluster, nodes: tuple[str, str], victim: str
) -> None:
    """Not even when the restarted component writes or carries other tables."""
    running_pair(namespace, nodes, ENDLESS)
    until(lambda: all(policy_status(node)["connected"] for node in nodes))
    before = [policy_status(node)["revoked"] for node in nodes]
    killed = on_nodes("pgrep", victim, nodes)
    on_nodes("pkill -KILL", victim, nodes)

    def others() -> bool:
        now = on_nodes("pgrep", victim, nodes)
        return len(now) == len(killed) > 0 and now.isdisjoint(killed)

    until(others, BACK_S)
    namespace.apply(WITHOUT_PODS)
    wait_programmed(namespace, "without-pods")
    goes_on(namespace)
    assert [policy_status(node)["revoked"] for node in nodes] == before


def start_timed(cluster: Cluster, command: str, node: str) -> str:
    """Start a client that reports the time and status of its program's end; return its address.

    Returns once the client has connected to its peer.
    """
    pod = perftest("client", "", node)
    shell = f"stdbuf -oL {command}; echo ended $? at $(date +%s.%N); sleep 600"
    pod["spec"]["containers"][0]["command"] = ["sh", "-c", shell]
    cluster.apply(pod)
    client = str(cluster.wait_pod("client", "Running")["status"]["podIP"])
    until(lambda: "remote address" in cluster.logs("client"), 60)
    return client


def end_of(cluster: Cluster, pod: str) -> tuple[int, float]:
    """Return the status of a pod's program, and when it ended."""
    line = until(
        lambda: next((x for x in cluster.logs(pod).splitlines() if x.startswith("ended ")), ""), 60
    )
    _, status, _, when = line.split()
    return int(status), float(when)


def packets(node: str, ip: str, way: str) -> int:
    """Return how many packets a wire has "sent" or "received"; 0 without the wire or hcad."""
    try:
        found = wire(node, ip)
    except AssertionError as err:
        if "HcadUnreachable" not in str(err):
            raise
        return 0
    return int(found.get("packets", {}).get(way, 0))


@pytest.mark.alone  # on a busy machine a program may notice it later
def test_when_hcad_is_killed_both_ends_learn_it_and_the_device_comes_back(
    namespace: Cluster, nodes: tuple[str, str]
) -> None:
    """The program on that node notices within a second, the other by its retries; none hangs."""
    command = "ib_write_bw -F -D 60"
    server = serve(namespace, command, nodes[0])
    client = start_timed(namespace, f"{command} {server}", nodes[1])
    killed = kill_hcad(nodes[1])
    status, ended = end_of(namespace, "client")
    assert status != 0
    assert "hcad has gone" in namespace.logs("client")
    assert ended - killed < NOTICED_S

    def back() -> bool:
        said = namespace.kubectl("exec", "client", "--", "sh", "-c", "ibv_devinfo -v 2>&1; true")
        return "tessera_0" in said and f"::ffff:{client}, RoCE v2" in said

    until(back, BACK_S)
    namespace.kubectl("delete", "pod", "server", "--force", "--grace-period=0")


def test_a_requester_whose_peer_s_hcad_is_killed_gets_retry_exceeded(
    namespace: Cluster, nodes: tuple[str, str]
) -> None:
    command = "ib_write_bw -F -D 60"
    server = serve(namespace, command, nodes[0])
    start_timed(namespace, f"{command} {server}", nodes[1])
    killed = kill_hcad(nodes[0])
    status, ended = end_of(namespace, "client")
    assert status != 0
    assert "Failed status 12" in namespace.logs("client"), "IBV_WC_RETRY_EXC_ERR"
    assert ended - killed < 10  # 8 attempts of 67 ms, and perftest's reaction
    assert namespace.wait_pod("server")["status"]["phase"] == "Failed"


def both_without_end(server: str = "") -> str:
    """Return shell loops that run writes and reads in parallel, without end."""
    loops = (
        f"while :; do timeout 20 {tool} -F -p {port} {server}; sleep 0.1; done"
        for port, tool in enumerate(("ib_write_bw", "ib_read_bw"), 18515)
    )
    return " & ".join(loops)


def test_no_forbidden_packet_passes_while_hcad_is_away(
    namespace: Cluster, nodes: tuple[str, str]
) -> None:
    """A pod that may not write tries to without end: before, during and after the gap.

    It also reads, which it may: received packets show that the count of writes, zero, is
    meaningful. Writes and reads have separate ports, so that no client meets the server of the
    other.
    """
    deny_writes(namespace)
    shell = both_without_end()
    namespace.apply(perftest("server", f"sh -c '{shell}'", nodes[0], app="weights"))
    server = str(namespace.wait_pod("server", "Running")["status"]["podIP"])
    namespace.apply(perftest("client", f"sh -c '{both_without_end(server)}'", nodes[1]))
    client = str(namespace.wait_pod("client", "Running")["status"]["podIP"])
    until(lambda: packets(nodes[0], server, "received"), 90)
    with Capture(nodes[0], server) as there, Capture(nodes[1], client) as here:
        kill_hcad(nodes[0])
        until(lambda: packets(nodes[0], server, "received"), BACK_S)
        kill_hcad(nodes[1])
        until(lambda: packets(nodes[1], client, "sent"), BACK_S)
        time.sleep(1)
        for link in (there, here):
            seen = link.since()
            assert sum(one["packets"] for one in seen), "no packet at all: nothing is shown"
            assert writes(seen, client, server) == 0
