"""rdma_cm and GPUDirect in pods of one or two nodes: Debian's programs, and policy by service."""

import base64
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hca.contract.verbs import VerbsStatus
from support.cluster.kubectl import Cluster, until
from support.cluster.rdma_nodes import (
    HCA,
    hca_pod,
    two_with_hcas,
    wait_programmed,
    without_waits,
)
from support.cluster.rdma_programs import (
    Run,
    Serving,
    connect,
    listens_or_has_ended,
    trace_calls,
)
from support.programs import c_programs
from support.programs.verbs_tools import compile_with_librdmacm
from vgpu_sim.native import build, catalogue

SLICE = "gpu.tessera.dev/mig-1g.10gb"
HEADERS = Path("/usr/include/rdma/rdma_cma.h")
COUNT = 1 << 20
FILES = "gpu-peer"
PING = re.compile(r"ping data: rdma-ping-\d: [!-~]{40}")
STAYS = "exec sleep 900"
"""The command of a pod in which the test runs programs."""
TRACE = "/tmp/server.trace"
# The commands of a server and of its client.
PROGRAMS = {
    "rping": ("rping -s -v -C 3", "rping -c -v -C 3 -a {ip}"),
    "ucmatose": ("ucmatose -c 10", "ucmatose -c 10 -s {ip}"),
    "udaddy": ("udaddy -c 2", "udaddy -c 2 -s {ip}"),
    "ib_write_bw": ("ib_write_bw -R -F", "ib_write_bw -R -F {ip}"),
}
PLACES = pytest.mark.parametrize("apart", [False, True], ids=["one node", "two nodes"])


@pytest.fixture(scope="module")
def nodes(whole_cluster: Cluster) -> tuple[str, str]:
    """Return two nodes with HCAs."""
    return two_with_hcas(whole_cluster)


def pod(name: str, command: str, node: str, **limits: int) -> dict[str, Any]:
    """Return a pod that also has the test's own program, at /files."""
    container = {
        "resources": {"limits": {HCA: 1, **limits}},
        "volumeMounts": [{"name": "files", "mountPath": "/files"}],
    }
    source = {"name": FILES, "defaultMode": 0o755, "optional": True}
    volumes = [{"name": "files", "configMap": source}]
    return hca_pod(name, command, node, labels={"app": name}, container=container, volumes=volumes)


def play(
    cluster: Cluster, places: tuple[str, str], server: str, client: str, **limits: int
) -> tuple[str, str]:
    """Run a server and, once it listens, a client, which must succeed; return their outputs."""
    cluster.apply(pod("server", f"{trace_calls(TRACE)}; {server}", places[0], **limits))
    ip = str(cluster.wait_pod("server", "Running")["status"]["podIP"])
    try:
        until(lambda: listens_or_has_ended(cluster, "server", TRACE))
    except TimeoutError:
        raise AssertionError(f"the server does not listen\n{cluster.last_lines()}") from None
    cluster.apply(pod("client", client.format(ip=ip), places[1], **limits))
    ended = cluster.wait_pod("client")
    said = cluster.logs("client")
    assert ended["status"]["phase"] == "Succeeded", said + cluster.logs("server")
    assert cluster.wait_pod("server")["status"]["phase"] == "Succeeded", cluster.logs("server")
    return without_waits(cluster.logs("server")), without_waits(said)


def start_two(cluster: Cluster, places: tuple[str, str]) -> str:
    """Start the pods "server" and "client", in which programs can run; return the server's
    address.
    """
    cluster.apply(pod("server", STAYS, places[0]), pod("client", STAYS, places[1]))
    cluster.wait_pod("client", "Running")
    return str(cluster.wait_pod("server", "Running")["status"]["podIP"])


def files(program: Path) -> dict[str, Any]:
    """Return the object that mounts a program at /files in the pods."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": FILES},
        "binaryData": {program.name: base64.b64encode(program.read_bytes()).decode()},
    }


def choose_nodes(nodes: tuple[str, str], *, apart: bool) -> tuple[str, str]:
    return nodes if apart else (nodes[0], nodes[0])


@PLACES
@pytest.mark.slices
@pytest.mark.skipif(not HEADERS.exists(), reason=f"NOT RUN: no {HEADERS}: librdmacm-dev")
def test_a_pod_writes_another_s_gpu_memory(
    namespace: Cluster,
    nodes: tuple[str, str],
    tmp_path: Path,
    apart: bool,
) -> None:
    """From one slice's memory to another's; after the owner's reset it cannot be reached any
    more.
    """
    folders = (f"-L{build.LIBRARIES}", f"-L{build.LIBRARIES / catalogue.RDMA}")
    libraries = ("-lcuda", "-l:libibverbs.so.1", "-l:librdmacm.so.1")
    program = c_programs.compile_program(tmp_path, "gpu_peer", *folders, *libraries)
    namespace.apply(files(program))
    places = choose_nodes(nodes, apart=apart)
    run = ("/files/gpu_peer", "/files/gpu_peer {ip}")
    served, requester = play(namespace, places, *run, **{SLICE: 1})
    seen = f"listens\nreceived success\ngpu has {COUNT}\nreset 0\nsent success\n"
    assert served == seen + "RDMA_CM_EVENT_DISCONNECTED\n"
    ends = "write success\nsent success\nreceived success\nwrite remote access error\n"
    assert requester.endswith(ends)


@PLACES
def test_debian_s_programs_connect(namespace: Cluster, nodes: tuple[str, str], apart: bool) -> None:
    """rping, ucmatose, udaddy and perftest, one after the other in the same two pods.

    A client starts once its server listens. ucmatose's and udaddy's clients connect several times
    at once: if the server begins to listen meanwhile, some requests are rejected, both programs
    give up, and no other client finds that server.
    """
    ip = start_two(namespace, choose_nodes(nodes, apart=apart))
    served, requested = {}, {}
    for name, (server, client) in PROGRAMS.items():
        served[name], requested[name] = connect(
            namespace, server, client.format(ip=ip), listens_twice=name == "ib_write_bw"
        )
    for said in (served["rping"], requested["rping"]):
        assert len(PING.findall(said)) == 3, said
    for name in ("ucmatose", "udaddy"):
        assert "return status 0" in served[name], served
        assert "return status 0" in requested[name], requested
    assert re.search(r"rdma_cm QPs\s+: ON", requested["ib_write_bw"])
    assert re.search(r"^ 65536 ", requested["ib_write_bw"], re.MULTILINE)


def test_a_service_that_no_rule_names_is_rejected_between_nodes(
    namespace: Cluster, nodes: tuple[str, str]
) -> None:
    """Only rping's own port is allowed; the requester reads the reason of the rejection."""
    policy = {
        "apiVersion": "rdma.tessera.dev/v1alpha1",
        "kind": "RDMANetworkPolicy",
        "metadata": {"name": "one-service"},
        "spec": {
            "podSelector": {"matchLabels": {"app": "server"}},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [{"podSelector": {}}], "ports": [{"serviceID": 7174, "space": "TCP"}]}
            ],
        },
    }
    namespace.apply(policy)
    wait_programmed(namespace, "one-service")
    ip = start_two(namespace, nodes)
    with Serving(namespace, "rping -s -P -p 7999"):
        refused = Run(namespace, "client", f"rping -c -C 1 -p 7999 -a {ip}").to_its_end()
    assert "RDMA_CM_EVENT_REJECTED, error 28" in refused.said
    _, said = connect(namespace, "rping -s -v -C 3", f"rping -c -v -C 3 -a {ip}")
    assert len(PING.findall(said)) == 3, said


BY_SERVICE = {
    "apiVersion": "rdma.tessera.dev/v1alpha1",
    "kind": "RDMANetworkPolicy",
    "metadata": {"name": "by-service"},
    "spec": {
        "podSelector": {"matchLabels": {"app": "server"}},
        "ingress": [
            {"verbs": ["CM", "Read"]},
            {"verbs": ["Write"], "ports": [{"serviceID": 7000, "space": "TCP"}]},
        ],
    },
}


def carry(cluster: Cluster, name: str, source: str, target: str) -> None:
    """Copy a file that one program writes to another pod, atomically."""
    show = f"if [ -e /tmp/{name} ]; then base64 -w0 /tmp/{name}; fi"
    text = until(lambda: cluster.kubectl("exec", source, "--", "sh", "-c", show), 60)
    take = f"echo {text} | base64 -d >/tmp/brought && mv /tmp/brought /tmp/{name}"
    cluster.kubectl("exec", target, "--", "sh", "-c", take)


@pytest.mark.parametrize(
    ("how", "served", "status", "memory"),
    [
        ("honest", "accepts", VerbsStatus.SUCCESS, "WRITTEN!"),
        ("plain", "ignores", VerbsStatus.REM_ACCESS_ERR, ""),
        ("evil", "ignores", VerbsStatus.REM_ACCESS_ERR, ""),
        ("evil", "accepts", VerbsStatus.REM_ACCESS_ERR, ""),
    ],
)
def test_a_service_s_rule_is_not_obtained_from_another_node(
    namespace: Cluster,
    nodes: tuple[str, str],
    tmp_path: Path,
    how: str,
    served: str,
    status: VerbsStatus,
    memory: str,
) -> None:
    """A connection that was not made by the service may not write, whatever its requests name.

    The two programs exchange their queue pair numbers in files, which the test copies.
    """
    namespace.apply(BY_SERVICE, files(compile_with_librdmacm(tmp_path, "rdmacm_service")))
    wait_programmed(namespace, "by-service")
    run = "cd /tmp && /files/rdmacm_service {} && sleep 300"  # its files are read after its end
    pods = {"server": (served, nodes[0]), "client": (how, nodes[1])}
    namespace.apply(*(pod(name, run.format(what), node) for name, (what, node) in pods.items()))
    for name in pods:
        namespace.wait_pod(name, "Running")
    for name in ("victim", "client", "ready", "done"):
        ways = ("server", "client") if name in ("victim", "ready") else ("client", "server")
        carry(namespace, name, *ways)
    said = {name: until(partial(namespace.logs, name), 60) for name in pods}
    assert said["client"].splitlines()[-1] == f"status {status}", said
    assert without_waits(said["server"]) == f"memory '{memory}'\n", said
