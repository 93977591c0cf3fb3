"""The real node agent and a real hcad: functions are offered, bound, kept in restarts, released."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from device_plugin.backends.hcad import FunctionState, Hcad
from device_plugin.errors import HcadUnreachable
from device_plugin.proto import deviceplugin_pb2 as dp, deviceplugin_pb2_grpc as dp_grpc
from support.processes.agent_process import OWN_POD, AgentProcess
from support.processes.api_server import ApiServer
from support.processes.gpud_process import gpud, wait_until
from support.processes.kubelet import FakeKubelet

RESOURCE = "rdma.tessera.dev/hca"
POD_UID = "22222222-2222-4222-8222-222222222222"


@dataclass
class Node:
    kubelet: FakeKubelet
    api: ApiServer
    agent: AgentProcess
    directory: Path
    admin: Hcad
    hcad: subprocess.Popen[bytes] | None = None

    def start_hcad(self) -> None:
        self.directory.mkdir(exist_ok=True)
        command = ["-m", "hca.daemon.serving.node", f"--directory={self.directory}"]
        self.hcad = subprocess.Popen([sys.executable, *command], stderr=subprocess.DEVNULL)

    def end_hcad(self) -> None:
        assert self.hcad is not None
        self.hcad.kill()
        self.hcad.wait(60)

    def functions(self) -> dict[str, FunctionState]:
        try:
            return self.admin.functions()
        except HcadUnreachable:
            return {}

    def stub(self, channel: grpc.Channel) -> dp_grpc.DevicePluginStub:
        return dp_grpc.DevicePluginStub(channel)

    def channel(self) -> grpc.Channel:
        (path,) = (self.kubelet.dir / "plugins" / "gpu.tessera.dev").glob("tessera-hca-*.sock")
        return grpc.insecure_channel(f"unix:{path}")

    def hold(self, function: str, address: str) -> None:
        self.kubelet.log_directory("team", "train", POD_UID)
        self.kubelet.pods.append(("team", "train", {RESOURCE: [function]}))
        self.api.pods["train"] = {
            "metadata": {"name": "train", "uid": POD_UID},
            "spec": {"nodeName": "node-1"},
            "status": {"podIPs": [{"ip": address}]},
        }

    def bound_functions(self) -> dict[str, FunctionState]:
        return {name: one for name, one in self.functions().items() if one.pod_uid}


@pytest.fixture
def node() -> Iterator[Node]:
    with gpud() as daemon, ApiServer() as api, FakeKubelet(daemon.root) as kubelet:
        agent = AgentProcess(daemon.root, daemon.run_dir, kubelet, api)
        agent.more = {"TESSERA_HCAS": "1", "TESSERA_FUNCTIONS_PER_HCA": "2"}
        kubelet.pods = [("tessera-system", OWN_POD, {})]
        api.put_gpu(
            "gpu-1",
            {
                "nodeName": "node-1",
                "index": 0,
                "board": "h100-80gb",
                "uuid": "GPU-11111111-1111-4111-8111-111111111111",
                "pool": "demo",
                "instances": [],
            },
        )
        directory = daemon.run_dir / "hca"
        made = Node(kubelet, api, agent, directory, Hcad(directory / "admin.sock", 5.0))
        made.start_hcad()
        agent.start()
        try:
            yield made
        finally:
            agent.end()
            made.end_hcad()
            made.admin.close()


def test_functions_are_offered_bound_kept_over_restarts_and_released(node: Node) -> None:
    wait_until(lambda: len(node.functions()) == 2)
    wait_until(lambda: any(node.agent.sockets()))
    with node.channel() as channel:
        stream = node.stub(channel).ListAndWatch(dp.Empty(), timeout=60)
        first, second = (one.ID for one in next(stream).devices)
        assert {first, second} == set(node.functions())
        wanted = [dp.ContainerAllocateRequest(devices_ids=[first])]
        answer = node.stub(channel).Allocate(
            dp.AllocateRequest(container_requests=wanted), timeout=60
        )
        (container,) = answer.container_responses
        assert [d.name for d in container.cdi_devices] == [f"rdma.tessera.dev/function={first}"]
        stream.cancel()
    written = (node.agent.root / "cdi" / "tessera-rdma.json").read_text()
    assert first in written
    assert str(node.directory / "functions") in written
    assert not node.bound_functions()

    node.hold(first, "10.0.0.7")
    wait_until(lambda: node.bound_functions().keys() == {first})
    assert node.bound_functions()[first].addresses == ("10.0.0.7",)

    node.agent.end(signal.SIGKILL)
    assert node.bound_functions().keys() == {first}, "the agent's end is nothing to hcad"
    node.agent.start()

    node.end_hcad()
    node.start_hcad()
    wait_until(lambda: node.bound_functions().keys() == {first})
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.settimeout(60)
        client.connect(str(node.directory / "functions" / first / "hca.sock"))

    node.kubelet.pods = [("tessera-system", OWN_POD, {})]
    wait_until(lambda: not node.bound_functions())

    node.api.delete_gpu("gpu-1")  # the node leaves its pool
    wait_until(lambda: not (node.agent.root / "cdi" / "tessera-rdma.json").exists())
