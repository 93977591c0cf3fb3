"""Multicast groups between hcads of two network namespaces that a bridge joins."""

import contextlib
import ipaddress
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from hca.binding.wire import WireAddress
from hca.contract.hca import HCA_MULTICAST_QPN
from hca.contract.verbs import VerbsOpcode as Op, VerbsQpType
from support.processes import hcad_process
from support.processes.hcad_client import ProcessClient, membership
from support.programs.wire_nodes import NAMES, BridgedNodes, needs_namespaces
from support.rigs.hca_rig import BASE, Cq, Qp

pytestmark = needs_namespaces
QKEY = 0x01234567
GRH = 40


@pytest.fixture(scope="module")
def nodes() -> Iterator[BridgedNodes]:
    with BridgedNodes(mtu=1500) as made:
        yield made


class Program:
    """A program on a node, with a datagram queue pair."""

    def __init__(self, directory: Path) -> None:
        self.client = ProcessClient(directory, secrets.token_bytes(32))
        self.sent: Cq = self.client.cq()
        self.received: Cq = self.client.cq()
        self.qp: Qp = self.client.qp(self.sent, self.received, kind=VerbsQpType.UD)
        self.qp.listen(QKEY)
        self.region = self.client.region()

    def send(self, group: bytes, data: bytes) -> None:
        """Send to a group, and wait for the completion."""
        ah = self.client.ah(group, sgid_index=self.client.index_of(group))
        self.qp.send(
            *(Op.SEND, (), data),
            address_handle=ah,
            remote_qpn=HCA_MULTICAST_QPN,
            remote_key=QKEY,
        )
        assert self.sent.poll().status == 0

    def receive(self) -> bytes:
        """Wait for a datagram; return its data."""
        came = self.received.poll()
        assert came.status == 0
        return bytes(self.region.view[GRH : came.bytes])

    def post(self) -> None:
        """Post a receive request."""
        self.qp.receive((BASE, 256, self.region.key))


@pytest.fixture
def programs(nodes: BridgedNodes) -> Iterator[list[Program]]:
    """Yield two programs on node 0, of one fabric, and one on node 1."""
    with contextlib.ExitStack() as stack:
        folders = []
        for node, name in enumerate(NAMES):
            folder = nodes.homes[node] / secrets.token_hex(4)
            folder.mkdir()
            within = nodes.inside(node)
            process = hcad_process.start(folder, "--wire", name, within=within)
            stack.callback(process.wait)
            stack.callback(process.kill)
            folders.append(folder)
        made = [Program(folder) for folder in (folders[0], folders[0], folders[1])]
        for one in made:
            stack.callback(one.client.close)
        yield made


def gid(group: str) -> bytes:
    return WireAddress(ipaddress.ip_address(group)).gid


def is_member(nodes: BridgedNodes, node: int, group: str) -> bool:
    """Return whether a node's kernel reports a membership in a group (IGMP, MLD)."""
    table = Path(f"/proc/{nodes._holders[node].pid}/net")
    if ipaddress.ip_address(group).version == 4:
        number = bytes(reversed(ipaddress.ip_address(group).packed)).hex().upper()
        return number in (table / "igmp").read_text().split()
    return ipaddress.ip_address(group).packed.hex() in (table / "igmp6").read_text().split()


@pytest.mark.parametrize("group", ["239.1.2.3", "ff0e::77", "ff02::4791"])
def test_datagrams_to_a_group_reach_the_other_node(
    nodes: BridgedNodes, programs: list[Program], group: str
) -> None:
    """hcad, in its sandbox, joins the group itself, and leaves it with its last member."""
    here, beside, there = programs
    for one in programs:
        one.post()
    for one in (beside, there):
        one.client.objects.attach(membership(one.qp.number, gid(group)))
    assert [is_member(nodes, node, group) for node in (0, 1)] == [True, True]
    here.send(gid(group), b"to all")
    assert [one.receive() for one in (beside, there)] == [b"to all"] * 2
    for one in (beside, there):
        one.post()
    there.send(gid(group), b"back")  # its sender is in the group, too
    assert [one.receive() for one in (there, beside)] == [b"back"] * 2
    for one in (beside, there):
        one.client.objects.detach(membership(one.qp.number, gid(group)))
    assert [is_member(nodes, node, group) for node in (0, 1)] == [False, False]
    assert [one.received.page.head for one in programs] == [0, 2, 2], "once, and members alone"
