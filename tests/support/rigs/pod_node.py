"""A node's hcad for tests, which treats clients in this process as programs of a pod."""

import asyncio
import ipaddress
import socket
from pathlib import Path

from hca.binding.engine import Engine
from hca.contract import hca
from hca.contract.hca import HcaDevice, HcaHello, HcaMessage
from hca.daemon.common.functions import Doorkeeper, IpAddress
from hca.daemon.serving.node_server import NodeServer
from hca.daemon.wires.pod_wires import Netd
from vgpu_sim.hal import messages
from vgpu_sim.hal.messages import Header
from vgpu_sim.system.peers import PodUid

ONE, OTHER = PodUid("1" * 32), PodUid("2" * 32)
IP = ipaddress.ip_address("10.244.1.5")
A = "HCA-6b2f1e0c-6c0e-5f0e-9a2b-3d1c5a7e4f10"
B = "HCA-6b2f1e0c-6c0e-5f0e-9a2b-3d1c5a7e4f11"


class Node:
    """A server that treats all clients, which are in this process, as programs of ``pod``."""

    def __init__(
        self,
        directory: Path,
        engine: Engine,
        ip: IpAddress = IP,
        netd: Netd | None = None,
    ) -> None:
        self.pod = ONE
        self.directory = directory
        keeper = Doorkeeper(lambda _: self.pod, lambda _: frozenset({ip}))
        self.server = NodeServer(directory, engine, 1 << 20, keeper, netd=netd)
        self.server.enforcer.managed = False  # test_hcad_policy_admin.py covers tables

    def connect(self, name: str) -> socket.socket:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        client.setblocking(False)
        client.connect(str(self.directory / "functions" / name / "hca.sock"))
        return client

    async def open(self, name: str, version: int = hca.HCA_VERSION) -> tuple[socket.socket, bytes]:
        client = self.connect(name)
        say_hello(client, version)
        return client, await receive(client)


def say_hello(client: socket.socket, version: int = hca.HCA_VERSION) -> None:
    """Request the function, as a program does first when it opens its device."""
    hello = bytes(HcaHello(version))
    header = Header(messages.MAGIC, messages.PROTOCOL_VERSION, HcaMessage.OPEN, 1, 0, len(hello), 0)
    client.send(bytes(header) + hello)


async def receive(client: socket.socket) -> bytes:
    return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 4096), 10)


def status(reply: bytes) -> int:
    return int(Header.from_buffer_copy(reply).status)


def device(reply: bytes) -> HcaDevice:
    assert status(reply) == 0
    return HcaDevice.from_buffer_copy(reply[len(bytes(Header())) :])
