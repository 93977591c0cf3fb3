"""The second layer on a cluster: packets that pods write, and rules that they cannot change."""

import contextlib
import json
import shutil
import socket
import struct
import subprocess
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.cluster.kubectl import EXAMPLES, Cluster, until
from support.cluster.rdma_nodes import HCA, SYSTEM, two_with_hcas

TABLE = "tessera_rdma"
SUPPORT = Path(__file__).parents[2] / "support"
LINKS = ("-l", "app.kubernetes.io/component=links")
SEND, READ, READ_RESPONSE, ACKNOWLEDGE = 0x04, 0x0C, 0x10, 0x11
WRITE, WRITE_MIDDLE, CNP = 0x0A, 0x07, 0x81
DROPS = """
import json
from pathlib import Path
from device_plugin.backends.linkd import Linkd
print(json.dumps(Linkd(Path("/run/tessera/links/links.sock")).call("drops")))
"""


def bth(opcode: int, pkey: int = 0xFFFF, qpn: int = 0x1234, payload: bytes = bytes(16)) -> bytes:
    """Return a packet from the base transport header on; no rule checks the rest."""
    return struct.pack(">BBHII", opcode, 0, pkey, qpn, 7) + payload


def udp(body: bytes, port: int = 4791) -> bytes:
    return struct.pack(">HHHH", 0xC000, port, 8 + len(body), 0) + body


def ipv4(source: str, destination: str, body: bytes, fragment: int = 0) -> bytes:
    """Return an IPv4 packet with its checksum; ``fragment`` is the field of flags and offset."""

    def header(checksum: int) -> bytes:
        return struct.pack(
            ">BBHHHBBH4s4s",
            *(0x45, 0, 20 + len(body), 77, fragment, 64, socket.IPPROTO_UDP, checksum),
            *(socket.inet_aton(source), socket.inet_aton(destination)),
        )

    total = sum(struct.unpack(">10H", header(0)))
    total = (total & 0xFFFF) + (total >> 16)
    return header(~((total & 0xFFFF) + (total >> 16)) & 0xFFFF) + body


def linkd_on(node: str) -> str:
    """Return the name of linkd's pod on a node."""
    listed = SYSTEM.get("pods", *LINKS, "--field-selector", f"spec.nodeName={node}")["items"]
    (name,) = (one["metadata"]["name"] for one in listed if _runs(one))
    return str(name)


def _runs(pod: dict[str, Any]) -> bool:
    return pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]


def drops(node: str) -> dict[str, Any]:
    """Return the drop counters of a node's linkd."""
    return dict(json.loads(SYSTEM.kubectl("exec", linkd_on(node), "--", "python", "-c", DROPS)))


def in_network_of(node: str, *command: str) -> str:
    """Run a command of this machine in the network namespace of a kind node."""
    if shutil.which("nsenter") is None:
        pytest.skip("NOT RUN: no nsenter: apt-get install util-linux")
    show = ["docker", "inspect", "-f", "{{.State.Pid}}", node]
    process = subprocess.run(show, capture_output=True, text=True, check=True).stdout.strip()
    entering = ["nsenter", "-t", process, "-n", "--", *command]
    return subprocess.run(entering, capture_output=True, text=True, check=True).stdout


def filters_of(node: str, link: str) -> str:
    """Return the classifiers of an interface; none if it has gone since, with a pod of another lane."""
    try:
        return in_network_of(node, "tc", "filter", "show", "dev", link, "ingress")
    except subprocess.CalledProcessError as err:
        if "Cannot find device" not in err.stderr:
            raise
        return ""


def rules_on(node: str) -> str:
    """Return the names of Tessera's nftables tables and classifiers on a node."""
    listed = in_network_of(node, "nft", "list", "tables")
    links = json.loads(in_network_of(node, "ip", "-j", "link", "show", "type", "veth"))
    filters = [filters_of(node, one["ifname"]) for one in links]
    ours = [line for line in listed.splitlines() if TABLE in line]
    return "\n".join([*ours, *(f for f in filters if "tessera_segments" in f)])


def program(name: str, node: str, *, hca: bool, **labels: str) -> dict[str, Any]:
    """Return a pod with Python, whose root user has full control of the pod's network."""
    (agent, *_) = SYSTEM.get("pods", *LINKS)["items"]
    container: dict[str, Any] = {
        "name": "main",
        "image": agent["spec"]["containers"][0]["image"],
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "900"],
        "securityContext": {"runAsUser": 0, "capabilities": {"add": ["NET_RAW", "NET_ADMIN"]}},
    }
    if hca:
        container["resources"] = {"limits": {HCA: 1}}
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"kubernetes.io/hostname": node},
        "containers": [container],
    }
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@dataclass(frozen=True, slots=True)
class Lab:
    """A server that permits READ but not WRITE, attackers of it, and a pod without an HCA."""

    cluster: Cluster
    nodes: tuple[str, str]
    addresses: dict[str, str]

    def start_receiver(self) -> "subprocess.Popen[str] | None":
        """Have the server print what arrives; None if a busy machine did not start it."""
        receiver = subprocess.Popen(
            ["kubectl", "-n", self.cluster.namespace, "exec", "-i", "server", "--", "python", "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert receiver.stdin is not None
        assert receiver.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            receiver.stdin.write((SUPPORT / "scripts" / "roce_arrivals.py").read_text())
            receiver.stdin.close()
        if receiver.stdout.readline() == "ready\n":
            return receiver
        receiver.stdout.close()
        receiver.kill()
        receiver.wait()
        return None

    def send(self, pod: str, how: str, packets: Sequence[bytes], **more: Any) -> list[int]:
        """Have a pod send packets; return the opcodes of those that the server received."""
        receiver = until(self.start_receiver)
        try:
            data = [one.hex() for one in packets]
            query = {"how": how, "data": data, "mark": self.addresses["server"], **more}
            script = (SUPPORT / "scripts" / "forge_frames.py").read_text()
            command = ("exec", "-i", pod, "--", "python", "-c", script)
            self.cluster.kubectl(*command, stdin=json.dumps(query))
            came = receiver.stdout.read()
            assert receiver.wait(timeout=60) == 0, "the mark did not come"
        finally:
            receiver.kill()
            receiver.wait()
            assert receiver.stdout is not None
            receiver.stdout.close()
        return [json.loads(line)["opcode"] for line in came.splitlines()]

    def forge(self, pod: str, *bodies: bytes, source: str = "") -> list[int]:
        """Send RoCE packets in IPv4, from the pod's address or from ``source``."""
        own, there = source or self.addresses[pod], self.addresses["server"]
        return self.send(pod, "ip", [ipv4(own, there, udp(one)) for one in bodies])

    def drops_of(self, pod: str) -> dict[str, int]:
        """Return the number of a pod's dropped packets by reason."""
        links = drops(self.nodes[1])["links"]
        mine = (x for x in links if x["leaving"] and self.addresses[pod] in x["addresses"])
        return {reason: count for one in mine for reason, count in one["dropped"].items()}


@pytest.fixture(scope="module")
def nodes(whole_cluster: Cluster) -> tuple[str, str]:
    """Return two nodes with HCAs and linkd."""
    found = two_with_hcas(whole_cluster)
    if not SYSTEM.get("daemonsets", *LINKS)["items"]:
        pytest.skip("NOT RUN: the chart has rdma.secondLayer.enabled off")
    return found


@pytest.fixture(scope="module")
def lab(whole_cluster: Cluster, nodes: tuple[str, str]) -> Iterator[Lab]:
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    whole_cluster.kubectl("create", "namespace", name)
    cluster = Cluster(name)
    until(lambda: cluster.get("serviceaccounts")["items"], 60)
    try:
        cluster.kubectl("apply", "-f", str(EXAMPLES / "rdma" / "deny-writes.yaml"))
        cluster.apply(
            program("server", nodes[0], hca=True, app="weights"),
            program("attacker", nodes[1], hca=True),
            program("plain", nodes[1], hca=False),
        )
        pods = ("server", "attacker", "plain")
        addresses = {one: str(cluster.wait_pod(one, "Running")["status"]["podIP"]) for one in pods}
        made = Lab(cluster, nodes, addresses)
        wait_until_enforced(cluster, "deny-writes")
        until(lambda: made.forge("attacker", bth(READ)) == [READ])
        yield made
    finally:
        cluster.kubectl("delete", "namespace", name, "--wait=false")
        cluster.delete("pods", "--all")


def wait_until_enforced(cluster: Cluster, policy: str) -> None:
    """Wait until a policy is programmed, in both layers."""
    for kind in ("Programmed", "SecondLayer"):
        until(
            lambda kind=kind: (
                cluster.condition(f"rdmanetworkpolicy/{policy}", kind).status == "True"
            ),
        )


def test_what_policy_denies_leaves_no_pod(lab: Lab) -> None:
    """From the pod's own address, a denied verb: as a whole message, or as a stray middle
    packet.
    """
    sent = [bth(READ), bth(WRITE), bth(WRITE_MIDDLE), bth(SEND), bth(ACKNOWLEDGE), bth(CNP)]

    before = lab.drops_of("attacker").get("denied", 0)
    assert lab.forge("attacker", *sent) == [READ, SEND, ACKNOWLEDGE, CNP]
    assert lab.drops_of("attacker").get("denied", 0) == before + 2


def test_who_names_another_address_or_partition_is_not_let_out(lab: Lab) -> None:
    before = Counter(lab.drops_of("attacker"))
    for source in (lab.addresses["plain"], lab.addresses["server"], "192.0.2.7"):
        assert lab.forge("attacker", bth(READ), source=source) == []
    assert lab.forge("attacker", bth(READ, pkey=0x8011), bth(READ, pkey=0)) == []
    after = Counter(lab.drops_of("attacker"))
    assert after == before + Counter(spoofed=3, denied=2)


def test_who_has_no_hca_sends_no_roce(lab: Lab) -> None:
    assert lab.forge("plain", bth(READ), bth(SEND)) == []
    assert lab.forge("plain", bth(READ), source=lab.addresses["attacker"]) == []
    assert lab.drops_of("plain").keys() == {"denied", "spoofed"}


def test_fragments_and_segments_smuggle_nothing(lab: Lab) -> None:
    own, there = lab.addresses["attacker"], lab.addresses["server"]
    whole = udp(bth(READ))
    parts = [ipv4(own, there, whole[:16], 0x2000), ipv4(own, there, whole[16:], 2)]
    assert lab.send("attacker", "ip", parts) == []
    for payload in (16, 400):
        hidden = b"".join(bth(code, payload=bytes(payload)) for code in (READ, WRITE, WRITE))
        assert lab.send("attacker", "segments", [hidden], segment=12 + payload) == []
    whole = ipv4(own, there, udp(bth(WRITE)))
    for tags in ("81000000", "810000008100000088a80000", "8100000081000000"):
        assert lab.send("attacker", "frame", [bytes.fromhex(tags + "0800") + whole]) == []
    assert {"fragment", "tagged"} <= lab.drops_of("attacker").keys()


def test_a_pod_cannot_undo_it_in_its_own_network(lab: Lab) -> None:
    """With NET_ADMIN in its own namespace it flushes all rules and classifiers that it can see."""
    undo = "nft flush ruleset; tc qdisc del dev eth0 clsact; ip link set eth0 gso_max_size 65536"
    lab.cluster.kubectl("exec", "attacker", "--", "sh", "-c", f"{undo}; true")
    assert lab.forge("attacker", bth(WRITE), bth(READ)) == [READ]
    hidden = bth(READ) + bth(WRITE)
    assert lab.send("attacker", "segments", [hidden], segment=28) == []


def test_queue_pairs_that_a_rule_names_are_the_only_ones(lab: Lab) -> None:
    policy = {
        "apiVersion": "rdma.tessera.dev/v1alpha1",
        "kind": "RDMANetworkPolicy",
        "metadata": {"name": "deny-writes"},
        "spec": {
            "podSelector": {"matchLabels": {"app": "weights"}},
            "policyTypes": ["Ingress"],
            "ingress": [{"verbs": ["Read"], "ports": [{"qpn": 0x11, "endQPN": 0x1FF}]}],
        },
    }
    lab.cluster.apply(policy)
    try:
        wait_until_enforced(lab.cluster, "deny-writes")
        sent = [bth(READ, qpn=qpn) for qpn in (0x10, 0x11, 0x1FF, 0x200, 0x1234)]
        assert lab.forge("attacker", *sent, bth(SEND, qpn=0x11)) == [READ, READ]
    finally:
        lab.cluster.kubectl("apply", "-f", str(EXAMPLES / "rdma" / "deny-writes.yaml"))
        wait_until_enforced(lab.cluster, "deny-writes")


def test_drops_are_events_on_the_pod(lab: Lab) -> None:
    lab.forge("attacker", bth(READ), source="192.0.2.9")
    select = ("events", "--field-selector", "reason=RDMADropped")

    def read_messages() -> list[str]:
        return [
            one["message"]
            for one in lab.cluster.get(*select)["items"]
            if one["involvedObject"]["name"] == "attacker"
        ]

    until(lambda: any("an address that is not the pod's" in one for one in read_messages()), 40)


@contextlib.contextmanager
def stop_linkd(node: str) -> Iterator[None]:
    """Stop linkd of a node for a while, as on a node that hangs."""
    find = ("sh", "-c", "pgrep -f 'bin/tessera-linkd( |$)'")

    def signal(name: str) -> None:
        shown = subprocess.run(["docker", "exec", node, *find], capture_output=True, text=True)
        kill = ["docker", "exec", node, "kill", f"-{name}", *shown.stdout.split()]
        subprocess.run(kill, check=True)

    signal("STOP")
    try:
        yield
    finally:
        signal("CONT")


@pytest.mark.alone("hcas")
def test_where_it_cannot_be_had_the_policy_says_so(lab: Lab) -> None:
    with stop_linkd(lab.nodes[1]):
        policy, condition = "rdmanetworkpolicy/deny-writes", lab.cluster.condition
        until(lambda: condition(policy, "SecondLayer").status == "False", 60)
        found = condition(policy, "SecondLayer")
        assert found.reason == "EngineOnly"
        assert lab.nodes[1] in found.message
        assert condition(policy, "Programmed").status == "True"
        assert lab.forge("attacker", bth(WRITE), bth(READ)) == [READ]  # rules stay
    wait_until_enforced(lab.cluster, "deny-writes")


def test_rules_that_another_hand_removes_come_back(lab: Lab) -> None:
    for family in ("netdev", "inet"):
        in_network_of(lab.nodes[1], "nft", "delete", "table", family, TABLE)
    until(lambda: rules_on(lab.nodes[1]).count(TABLE) >= 2)
    assert lab.forge("attacker", bth(WRITE), bth(READ)) == [READ]


def test_a_veth_without_rules_passes_nothing(lab: Lab) -> None:
    """As directly after a pod's start, when it may have the address of a deleted pod."""
    node = lab.nodes[1]
    names = ("tsr-late", "tsr-late-p")
    in_network_of(node, "ip", "link", "add", names[0], "type", "veth", "peer", "name", names[1])
    try:
        guard = in_network_of(node, "nft", "list", "table", "inet", TABLE)
        assert names[0] not in guard
        assert 'iifname != @known counter name "stranger" drop' in guard
    finally:
        in_network_of(node, "ip", "link", "del", names[0])


@pytest.mark.alone("hcas")
def test_linkd_removes_its_rules_on_sigterm_and_the_next_one_starts_anew(lab: Lab) -> None:
    node = lab.nodes[1]
    assert rules_on(node).count("tessera_segments") >= 2
    old = linkd_on(node)
    before = SYSTEM.kubectl("logs", old)
    assert "rules of generation" in before
    with subprocess.Popen(
        ["kubectl", "-n", SYSTEM.namespace, "logs", "-f", old], stdout=subprocess.PIPE, text=True
    ) as follows:
        assert follows.stdout is not None
        assert follows.stdout.readline()  # from here on no line is missed
        SYSTEM.kubectl("delete", "pod", old)
        assert "no rule is left" in follows.stdout.read()

    def again() -> bool:
        return rules_on(node).count("tessera_segments") >= 2

    until(again, 60)
    assert lab.forge("attacker", bth(WRITE), bth(READ)) == [READ]
