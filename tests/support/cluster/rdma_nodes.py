"""Pods with HCAs on the cluster's nodes, and the state of hcad and the wires."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pytest

from support.cluster.kubectl import EXAMPLES, Cluster, until

HCA = "rdma.tessera.dev/hca"
IMAGE = "tessera.local/tessera-perftest:demo"
LISTENS = f"{18515:04X}"  # perftest's default port
OBSERVED = "-F -D 6 -t 4"
"""Options of perftest's program that ends with status 0 after seconds; what observes it starts
before it.
"""
WITHOUT_END = "-F -D 1 --run_infinitely -t 4"
"""Options of perftest's program that must still run at a test's next step, however late that is: a
denial, a lost peer or the end of its pod ends it. It prints a line every second. As in
``OBSERVED``, few requests at a time let ``pace`` limit what it transfers.
"""
DENIED = "Failed status 10"  # IBV_WC_REM_ACCESS_ERR
WRITES = range(6, 12)  # RC's opcodes of RDMA WRITE
SUPPORT = Path(__file__).parents[1]
CAPTURE = SUPPORT / "scripts" / "link_capture.py"
POLICY_STATUS = """
import json
from pathlib import Path
from device_plugin.backends.hcad import Hcad
print(json.dumps(Hcad(Path("/run/tessera/hca/admin.sock")).call("policy-status")))
"""
SYSTEM = Cluster("tessera-system")


def two_with_hcas(cluster: Cluster) -> tuple[str, str]:
    """Return two nodes with HCAs; skip the test if there are not two."""
    found = cluster.get("nodes", "-l", "node-role.tessera.dev/gpu")["items"]
    names = sorted(
        one["metadata"]["name"]
        for one in found
        if one["status"].get("allocatable", {}).get(HCA, "0") != "0"
    )
    if len(names) < 2:
        pytest.skip(f"NOT RUN: two nodes that offer {HCA} are needed, there are {len(names)}")
    return names[0], names[1]


def two_nodes(cluster: Cluster) -> tuple[str, str]:
    """Return two nodes with HCAs and wires; skip the test if there are not two."""
    nodes = two_with_hcas(cluster)
    if not any(one["name"] == "netd" for one in hca_pod_of(nodes[0])["spec"]["containers"]):
        pytest.skip("NOT RUN: the chart has rdma.wire.enabled off")
    return nodes


def pod_of(node: str, component: str) -> dict[str, Any]:
    """Return Tessera's pod of a component on a node."""
    label = f"app.kubernetes.io/component={component}"
    listed = ("-l", label, "--field-selector", f"spec.nodeName={node}")
    (pod,) = SYSTEM.get("pods", *listed)["items"]
    return dict(pod)


def agent_of(node: str) -> dict[str, Any]:
    """Return the pod of the node agent and gpud."""
    return pod_of(node, "node")


def hca_pod_of(node: str) -> dict[str, Any]:
    """Return the pod of hcad and netd."""
    return pod_of(node, "hca")


def policy_status(node: str) -> dict[str, Any]:
    """Return the policies that hcad on a node enforces, and its wires."""
    name = agent_of(node)["metadata"]["name"]
    said = SYSTEM.kubectl("exec", name, "-c", "agent", "--", "python", "-c", POLICY_STATUS)
    return dict(json.loads(said))


def wire(node: str, ip: str) -> dict[str, Any]:
    """Return the wire of an address; empty if there is none."""
    return next((one for one in policy_status(node)["wire"]["wires"] if one["address"] == ip), {})


def hca_pod(
    name: str,
    shell: str,
    node: str,
    *,
    labels: Mapping[str, str] | None = None,
    container: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return a pod with Debian's programs and one HCA function, which runs a shell command.

    ``container`` are further fields of its container, and ``more`` of its spec.
    """
    main: dict[str, Any] = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", shell],
        "resources": {"limits": {HCA: 1}},
        **(container or {}),
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": {"kubernetes.io/hostname": node},
        "containers": [main],
        **more,
    }
    metadata = {"name": name, "labels": dict(labels or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def without_waits(output: str) -> str:
    """Return a program's output without the library's line about a function that opens late."""
    lines = output.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("tessera: hcad does not open "))


def pace(pod: dict[str, Any]) -> dict[str, Any]:
    """Return the pod with little CPU time: a client that runs for long and the hcads that serve it
    would otherwise use what other tests need.
    """
    pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "50m"
    return pod


def perftest(name: str, command: str, node: str, **labels: str) -> dict[str, Any]:
    """Return a pod that runs one of Debian's programs."""
    return hca_pod(name, f"exec stdbuf -oL {command}", node, labels=labels)


def serve(cluster: Cluster, command: str, node: str) -> str:
    """Start a server, called "server" and labelled as the example's app; return its address."""
    cluster.apply(perftest("server", command, node, app="weights"))
    ip = str(cluster.wait_pod("server", "Running")["status"]["podIP"])

    def listens() -> bool:
        show = ("exec", "server", "--", "cat", "/proc/net/tcp", "/proc/net/tcp6")
        words = (line.split() for line in cluster.kubectl(*show).splitlines())
        return any(w[3:4] == ["0A"] and w[1].endswith(f":{LISTENS}") for w in words)

    until(listens, 60)
    return ip


def running_pair(cluster: Cluster, nodes: tuple[str, str], command: str) -> tuple[str, str]:
    """Start a server and a paced client that uses it, on two nodes; return their addresses."""
    server = serve(cluster, command, nodes[0])
    cluster.apply(pace(perftest("client", f"{command} {server}", nodes[1])))
    client = str(cluster.wait_pod("client", "Running")["status"]["podIP"])
    until(lambda: "remote address" in cluster.logs("client"), 60)
    return server, client


def deny_writes(cluster: Cluster) -> None:
    """Apply the example's policy, and wait until every node has acknowledged it."""
    cluster.kubectl("apply", "-f", str(EXAMPLES / "rdma" / "deny-writes.yaml"))
    wait_programmed(cluster, "deny-writes")


def wait_programmed(cluster: Cluster, policy: str) -> None:
    """Wait until every node has acknowledged the newest generation of a policy."""

    def programmed() -> bool:
        found = cluster.get("rdmanetworkpolicy", policy)
        return any(
            (one["type"], one["status"]) == ("Programmed", "True")
            and one["observedGeneration"] == found["metadata"]["generation"]
            for one in found.get("status", {}).get("conditions", [])
        )

    until(programmed, every_s=0.1)


def node_process(node: str) -> str:
    """Return the PID of a kind node, which is a container of the host's Docker engine."""
    if shutil.which("nsenter") is None:
        pytest.skip("NOT RUN: no nsenter: apt-get install util-linux")
    show = ["docker", "inspect", "-f", "{{.State.Pid}}", node]
    return subprocess.run(show, capture_output=True, text=True, check=True).stdout.strip()


def link_of(node: str, ip: str) -> str:
    """Return the host's end of a pod's link: the interface to which the node routes its address."""
    route = ["nsenter", "-t", node_process(node), "-n", "ip", "-j", "route", "get", ip]
    done = subprocess.run(route, capture_output=True, text=True, check=True)
    return str(json.loads(done.stdout)[0]["dev"])


Seen = list[dict[str, Any]]


class Capture:
    """A capture of UDP port 4791 at the host's end of a pod's link."""

    def __init__(self, node: str, ip: str) -> None:
        entering = ["nsenter", "-t", node_process(node), "-n", "--"]
        command = [*entering, sys.executable, str(CAPTURE), link_of(node, ip)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._seen = self._process.stdout
        assert self._seen is not None
        assert self._seen.readline() == "ready\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def since(self) -> Seen:
        """Return the packets seen since the previous call."""
        assert self._process.stdin is not None
        assert self._seen is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return list(json.loads(self._seen.readline()))


def writes(seen: Seen, source: str, destination: str) -> int:
    """Return how many RDMA WRITE packets one address has sent to the other."""
    return sum(
        one["packets"]
        for one in seen
        if (one["source"], one["destination"]) == (source, destination) and one["opcode"] in WRITES
    )
