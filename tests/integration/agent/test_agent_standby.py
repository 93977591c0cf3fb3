"""The agent's container and the one that stands by: one of them serves, however the other ends.

The kubelet's side of the registration is that of the simulated kubelet, with its connections.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from device_plugin.proto import deviceplugin_pb2 as dp, deviceplugin_pb2_grpc as dp_grpc
from kubelet_conformance.kubelet import SimulatedKubelet
from support.processes.agent_process import OWN_POD, AgentProcess, child_of
from support.processes.api_server import NODE, ApiServer, wait_for
from support.processes.gpud_process import gpud, wait_until
from support.processes.kubelet import FakeKubelet
from vgpu_sim.gpud.model import new_gpu_uuid

RESOURCE = "gpu.tessera.dev/mig-1g.10gb"
GPU = new_gpu_uuid()


@dataclass
class Pod:
    """The two containers, and the kubelet that they serve."""

    api: ApiServer
    agent: AgentProcess
    standby: subprocess.Popen[bytes]
    kubelet: SimulatedKubelet
    ended: int = 0
    """How often the process that served has ended."""

    def is_served(self) -> bool:
        resource = self.kubelet.resources().get(RESOURCE)
        return resource is not None and len(resource.healthy()) == 1

    @property
    def log(self) -> str:
        return self.agent.log + (self.agent.root / "standby.log").read_text()

    def serving(self) -> list[int]:
        """Return the process that serves the kubelet, as its supervisor's child."""
        assert self.agent.process is not None
        parents = (self.agent.process.pid, self.standby.pid)
        return [pid for one in parents if (pid := child_of(one, "tessera-kubelet"))]

    def standing_by(self) -> list[int]:
        assert self.agent.process is not None
        parents = (self.agent.process.pid, self.standby.pid)
        return [pid for one in parents if (pid := child_of(one, "tessera-standby"))]

    def endpoints(self) -> dict[Path, dict[str, str]]:
        """Return the devices and their health at each socket of the resource, as a kubelet that
        connects now receives them.
        """
        lists = {}
        for path in self.kubelet.plugins.rglob("*-mig-1g.10gb-*.sock"):
            with grpc.insecure_channel(f"unix:{path}") as channel:
                stream = dp_grpc.DevicePluginStub(channel).ListAndWatch(dp.Empty(), timeout=60)
                lists[path] = {device.ID: device.health for device in next(stream).devices}
        return lists

    def kill(self, victim: int) -> float:
        """Kill the process that serves; return the seconds until the other one serves.

        The other one takes its name after it has registered, because that is more urgent.
        """
        replaced = self.kubelet.resources()[RESOURCE].endpoint
        began = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        self.ended += 1
        wait_until(lambda: self.serving() not in ([], [victim]))
        assert self.kubelet.resources()[RESOURCE].endpoint != replaced
        wait_until(self.is_served)
        return time.monotonic() - began

    def settle(self) -> None:
        """Wait until one process serves and the other stands by, with the agent's lists."""
        wait_until(lambda: len(self.serving()) == len(self.standing_by()) == 1)
        wait_until(self.is_served)
        wait_for(self.api, self.is_ready)
        # Each process writes this once, when it has bound the resource's socket.
        wait_until(lambda: self.log.count(f"{RESOURCE}: serving") == self.ended + 2)

    def is_ready(self) -> bool:
        return self.api.condition("gpu-1", "Ready")[0] == "True"


@pytest.fixture
def pod() -> Iterator[Pod]:
    with gpud() as daemon, ApiServer() as api, FakeKubelet(daemon.root) as lists:
        registry = SimulatedKubelet(lists.dir)
        registry.pod_resources = daemon.root / "unused"  # FakeKubelet answers there
        registry.pod_resources.mkdir()
        registry.start()
        agent = AgentProcess(daemon.root, daemon.run_dir, lists, api)
        agent.more["TESSERA_LINK_DIR"] = str(daemon.root / "link")
        lists.pods = [("tessera-system", OWN_POD, {})]
        spec = {"nodeName": NODE, "index": 0, "board": "h100-80gb", "uuid": GPU, "pool": "demo"}
        api.put_gpu("gpu-1", {**spec, "instances": [{"profile": "1g.10gb", "start": 0}]})
        agent.start()
        standby = agent.start_standby()
        yield Pod(api, agent, standby, registry)
        standby.kill()
        standby.wait(60)
        agent.end(signal.SIGKILL)
        registry.stop()


def test_the_process_that_stands_by_serves_when_the_other_one_is_killed(pod: Pod) -> None:
    gaps = []
    for _ in range(4):  # they take turns
        pod.settle()
        (victim,) = pod.serving()
        gaps.append(pod.kill(victim))
    print("gaps, s:", [f"{gap:.3f}" for gap in gaps])
    assert not pod.kubelet.refused


def test_the_process_that_stands_by_already_serves_at_a_socket_of_its_own(pod: Pod) -> None:
    pod.settle()
    lists = pod.endpoints()
    assert len(lists) == 2
    first, second = lists.values()
    assert first == second
    assert list(first.values()) == ["Healthy"]
    registered = pod.kubelet.resources()[RESOURCE].endpoint
    (unregistered,) = lists.keys() - {registered}
    inode = unregistered.stat().st_ino
    pod.kill(*pod.serving())
    assert pod.kubelet.resources()[RESOURCE].endpoint == unregistered
    assert unregistered.stat().st_ino == inode  # its turn began without another socket


def test_it_serves_when_the_agent_s_container_ends(pod: Pod) -> None:
    pod.settle()
    assert pod.agent.process is not None
    if child_of(pod.agent.process.pid, "tessera-kubelet") == 0:  # it stands by
        pod.kill(pod.serving()[0])
        pod.settle()
    pod.agent.end(signal.SIGKILL)
    wait_until(lambda: child_of(pod.standby.pid, "tessera-kubelet"))
    wait_until(pod.is_served)
    pod.ended += 1
    pod.agent.start()
    pod.settle()


def test_a_process_that_hangs_is_killed_and_the_node_is_not_ready_meanwhile(pod: Pod) -> None:
    """Its neighbours, the agent and the supervisors, stay."""
    pod.settle()
    agent = pod.agent.child("tessera-agent")
    (victim,) = pod.serving()
    os.kill(victim, signal.SIGSTOP)
    wait_for(pod.api, lambda: not pod.is_ready())
    assert "does not answer: it hangs" in str(pod.api.status("gpu-1")["conditions"])
    wait_until(lambda: not Path(f"/proc/{victim}").exists())
    pod.ended += 1
    pod.settle()
    assert pod.agent.child("tessera-agent") == agent
    assert pod.standby.poll() is None
