"""HCA functions in pods: Debian's programs, and the isolation of pods from each other."""

import json
import re
from typing import Any

import pytest

from support.cluster.kubectl import EXAMPLES, Cluster, in_node, until
from support.cluster.rdma_nodes import HCA, WITHOUT_END, hca_pod, pace

RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
UNPRIVILEGED = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}
FIGURES = re.compile(r"^ 65536 +[0-9]+ +[0-9.]+ +([0-9.]+)", re.MULTILINE)
STATUS = """
import json
from pathlib import Path
from device_plugin.backends.hcad import Hcad
print(json.dumps(Hcad(Path("/run/tessera/hca/admin.sock")).call("status")))
"""
LISTENS = f"{18515:04X}"  # perftest's default port
MAPPED = "::ffff:"


def gpu_node(cluster: Cluster) -> str:
    nodes = cluster.get("nodes", "-l", "node-role.tessera.dev/gpu")["items"]
    return str(min(node["metadata"]["name"] for node in nodes))


def node_pod(node: str) -> str:
    """Return the pod of the node agent and its daemons."""
    listed = ("-l", "app.kubernetes.io/component=node", "--field-selector", f"spec.nodeName={node}")
    (pod,) = Cluster("tessera-system").get("pods", *listed)["items"]
    return str(pod["metadata"]["name"])


def functions(node: str) -> list[dict[str, Any]]:
    """Return the status of a node's functions, as hcad reports it."""
    command = ("exec", node_pod(node), "-c", "agent", "--", "python", "-c", STATUS)
    found: list[dict[str, Any]] = json.loads(Cluster("tessera-system").kubectl(*command))[
        "functions"
    ]
    return found


def held_by(node: str, pod: str) -> list[dict[str, Any]]:
    return [one for one in functions(node) if one["pod"].endswith(f"/{pod}")]


def rdma_pod(name: str, command: str, node: str, **more: Any) -> dict[str, Any]:
    """Return a pod with one function; ``more`` are fields of its spec.

    Its output goes to one stream: a log keeps the order within a stream, but not between two.
    """
    return hca_pod(name, f"exec 2>&1; {command}", node, **more)


def address(cluster: Cluster, name: str) -> str:
    return str(until(lambda: cluster.get("pod", name)["status"].get("podIP"), 60))


def listening(cluster: Cluster, name: str) -> set[str]:
    """Return the ports, in hexadecimal, on which a pod listens (proc_net_tcp(5): state 0A)."""
    show = ("exec", name, "--", "cat", "/proc/net/tcp", "/proc/net/tcp6")
    lines = (line.split() for line in cluster.kubectl(*show).splitlines())
    return {words[1].rpartition(":")[2] for words in lines if words[3:4] == ["0A"]}


def pair(cluster: Cluster, node: str) -> None:
    """Start a server and a client that writes to it; return once it writes."""
    program = f"stdbuf -oL ib_write_bw {WITHOUT_END}"
    cluster.apply(rdma_pod("server", f"exec {program}", node))
    server = address(cluster, "server")
    cluster.wait_pod("server", "Running")
    until(lambda: LISTENS in listening(cluster, "server"), 60)
    client = rdma_pod("client", f"exec {program} {server}", node)
    cluster.apply(pace(client))
    cluster.wait_pod("client", "Running")
    until(lambda: "remote address" in cluster.logs("client"), 60)


@pytest.mark.parametrize("example", ["perftest.yaml", "perftest-one-node.yaml"])
def test_ib_write_bw_plays_between_two_pods(namespace: Cluster, example: str) -> None:
    """The example as users apply it: Debian's program ends with status 0 and has transferred
    data.
    """
    namespace.kubectl("apply", "-f", str(EXAMPLES / "rdma" / example))
    client = namespace.wait_pod("perftest-client")
    logs = namespace.logs("perftest-client")
    assert client["status"]["phase"] == "Succeeded", logs
    assert namespace.wait_pod("perftest-server")["status"]["phase"] == "Succeeded"
    found = FIGURES.search(logs)
    assert found is not None
    assert float(found[1]) > 0
    for name in ("perftest-client", "perftest-server"):
        ip = namespace.get("pod", name)["status"]["podIP"]
        as_printed = ":".join(f"{int(part):02d}" for part in ip.split("."))
        assert f"255:255:{as_printed}" in logs, "the GID is the pod's own IP"


@pytest.mark.slices
def test_a_restricted_pod_has_its_device_and_a_slice_beside_it(namespace: Cluster) -> None:
    """As an unprivileged user, with a read-only root, and without any variable set for it."""
    command = (
        "ibv_devinfo -v && cat /sys/class/infiniband/tessera_0/ports/1/gids/1"
        " && cat /sys/class/net/eth0/address && ls /usr/lib/x86_64-linux-gnu/libcuda.so.1"
        " && ls /run/tessera/slices && env | grep -c -i tessera || true"
    )
    limits = {"resources": {"limits": {HCA: 1, "gpu.tessera.dev/mig-1g.10gb": 1}}}
    container = {"securityContext": RESTRICTED, **limits}
    namespace.apply(
        rdma_pod(
            "unprivileged",
            command,
            gpu_node(namespace),
            container=container,
            securityContext=UNPRIVILEGED,
        )
    )
    pod = namespace.wait_pod("unprivileged")
    logs = namespace.logs("unprivileged")
    ip = pod["status"]["podIP"]
    assert f"{MAPPED}{ip}, RoCE v2" in logs
    first, second, third, fourth = (int(part) for part in ip.split("."))
    assert f":ffff:{first:02x}{second:02x}:{third:02x}{fourth:02x}\n" in logs
    assert "libcuda.so.1" in logs
    assert "MIG-" in logs
    assert logs.splitlines()[-1] == "0", "nothing is set in the environment"


def test_without_a_function_there_is_no_device(namespace: Cluster) -> None:
    container = {"resources": {}}
    command = "ibv_devinfo; echo status $?; ls /run/tessera /sys/class/infiniband"
    namespace.apply(rdma_pod("none", command, gpu_node(namespace), container=container))
    namespace.wait_pod("none")
    logs = namespace.logs("none")
    assert "tessera_0" not in logs
    assert "status 0" not in logs
    assert "cannot access '/run/tessera'" in logs
    assert "cannot access '/sys/class/infiniband'" in logs


def test_a_pod_on_the_node_s_network_is_refused_with_an_event(namespace: Cluster) -> None:
    node = gpu_node(namespace)
    namespace.apply(rdma_pod("host", "ibv_devinfo; sleep 60", node, hostNetwork=True))
    namespace.wait_pod("host", "Running")
    until(lambda: "Permission denied" in namespace.logs("host"))
    assert "tessera_0" not in namespace.logs("host")

    def is_event_there() -> bool:
        events = namespace.get("events", "--field-selector", "involvedObject.name=host")["items"]
        return any(e["reason"] == "Refused" and "hostNetwork" in e["message"] for e in events)

    until(is_event_there)


def test_two_functions_in_one_container_are_refused_by_name(namespace: Cluster) -> None:
    container = {"resources": {"limits": {HCA: 2}}}
    namespace.apply(rdma_pod("two", "ibv_devinfo", gpu_node(namespace), container=container))
    ended = namespace.wait_pod("two")
    assert ended["status"]["phase"] == "Failed"
    assert "a container can have one HCA function, and not 2" in ended["status"]["message"]


def test_another_pod_s_socket_opens_nothing(namespace: Cluster) -> None:
    """A process that reaches a function's folder without the kubelet's mount is not in the pod."""
    node = gpu_node(namespace)
    namespace.apply(rdma_pod("victim", "ibv_devinfo; sleep 300", node))
    namespace.wait_pod("victim", "Running")
    (victim,) = until(lambda: held_by(node, "victim"))
    socket = f"/functions/{victim['function']}/hca.sock"
    command = f"TESSERA_WAIT_S=1 TESSERA_HCA={socket} ibv_devinfo; echo status $?; ibv_devinfo"
    stolen = {"name": "functions", "hostPath": {"path": "/run/tessera/hca/functions"}}
    container = {"volumeMounts": [{"name": "functions", "mountPath": "/functions"}]}
    namespace.apply(rdma_pod("thief", command, node, container=container, volumes=[stolen]))
    namespace.wait_pod("thief")
    logs = namespace.logs("thief")
    refused, _, own = logs.partition("status 255")
    assert f"hcad has not opened {socket} for 1 s" in refused
    assert "tessera_0" not in refused
    assert "tessera_0" in own, "its own function opens"


def test_a_process_in_another_network_namespace_opens_nothing(namespace: Cluster) -> None:
    """A pod's user may make a namespace, and set any address in it: it is not the pod's
    namespace.
    """
    command = "ibv_devices; unshare --user --map-root-user --net ibv_devinfo; echo status $?"
    namespace.apply(
        rdma_pod("elsewhere", command, gpu_node(namespace), securityContext={"runAsUser": 1000})
    )
    namespace.wait_pod("elsewhere")
    logs = namespace.logs("elsewhere")
    if "unshare failed" in logs:
        pytest.skip("NOT RUN: this kernel lets no user make namespaces")
    before, _, after = logs.partition("No IB devices found")
    assert "tessera_0" in before
    assert "Permission denied" in before
    assert "status 255" in after


def test_the_end_of_a_pod_frees_its_function_and_what_it_had(namespace: Cluster) -> None:
    node = gpu_node(namespace)
    pair(namespace, node)
    (server,) = held_by(node, "server")
    assert server["programs"] == 1
    namespace.kubectl("delete", "pod", "server", "--force", "--grace-period=0")
    until(lambda: not held_by(node, "server"))
    (freed,) = (one for one in functions(node) if one["function"] == server["function"])
    assert (freed["pod_uid"], freed["addresses"], freed["programs"]) == ("", [], 0)
    assert namespace.wait_pod("client")["status"]["phase"] in ("Succeeded", "Failed")
    assert "Failed status 12" in namespace.logs("client"), "IBV_WC_RETRY_EXC_ERR"


@pytest.mark.alone("first-node")
@pytest.mark.parametrize(
    "victim", ["tessera-agent", pytest.param("tessera-kubelet", marks=pytest.mark.soak)]
)
def test_queue_pairs_outlive_the_agent(namespace: Cluster, victim: str) -> None:
    node = gpu_node(namespace)
    pair(namespace, node)
    assert len(held_by(node, "client") + held_by(node, "server")) == 2
    in_node(node, "pkill", "-KILL", "-x", victim)
    namespace.apply(rdma_pod("next", "ibv_devinfo", node))
    assert namespace.wait_pod("next")["status"]["phase"] == "Succeeded", namespace.logs("next")
    line_count = len(FIGURES.findall(namespace.logs("client")))
    until(lambda: len(FIGURES.findall(namespace.logs("client"))) > line_count + 1, 60)


@pytest.mark.alone("hcas")
def test_after_hcad_s_end_programs_fail_and_the_device_comes_back(namespace: Cluster) -> None:
    node = gpu_node(namespace)
    namespace.apply(rdma_pod("stays", "sleep 600", node))
    namespace.wait_pod("stays", "Running")
    pair(namespace, node)
    in_node(node, "pkill", "-KILL", "-f", "bin/tessera-hcad( |$)")
    until(lambda: namespace.get("pod", "client")["status"]["phase"] != "Running")
    assert "hcad has gone" in namespace.logs("client")

    def works() -> bool:
        said = namespace.kubectl("exec", "stays", "--", "sh", "-c", "ibv_devinfo -v 2>&1 || true")
        return f"{MAPPED}{address(namespace, 'stays')}" in said

    until(works, 60)  # the same container, the same mount, another hcad
