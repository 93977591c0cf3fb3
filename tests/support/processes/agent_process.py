"""The real node agent as a separate process, with a gpud and stand-ins for the kubelet and the API
server.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import grpc

from device_plugin.proto import (
    deviceplugin_pb2 as dp,
    deviceplugin_pb2_grpc as dp_grpc,
    dra_pb2 as dra,
    dra_pb2_grpc as dra_grpc,
    registration_pb2 as reg,
    registration_pb2_grpc as reg_grpc,
)
from support.processes.api_server import NODE, ApiServer
from support.processes.gpud_process import wait_until
from support.processes.kubelet import FakeKubelet

REPOSITORY = Path(__file__).resolve().parents[3]
OWN_POD = "tessera-node-demo-agent"
LISTED_WITHIN = "TESSERA_LISTED_WITHIN_SECONDS"
LISTED_WITHIN_S = 60.0


class AgentProcess:
    """A node agent; ``root`` is the node's file system as the agent sees it."""

    def __init__(self, root: Path, run_dir: Path, kubelet: FakeKubelet, api: ApiServer) -> None:
        self.root = root
        self.kubelet = kubelet
        self._run_dir = run_dir
        self._port = _free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.more: dict[str, str] = {}
        """Settings in addition to those of every agent."""
        (root / "kubeconfig").write_text(json.dumps(api.kubeconfig()))

    @property
    def cdi_file(self) -> Path:
        return self.root / "cdi" / "tessera.json"

    @property
    def log(self) -> str:
        return (self.root / "agent.log").read_text(errors="replace")

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            **self.more,
            "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'operator'}",
            "NODE_NAME": NODE,
            "POD_NAME": OWN_POD,
            "KUBECONFIG": str(self.root / "kubeconfig"),
            "TESSERA_RUN_DIR": str(self._run_dir),
            "KUBELET_DIR": str(self.kubelet.dir),
            "CDI_DIR": str(self.root / "cdi"),
            "POD_LOGS_DIR": str(self.kubelet.pod_logs),
            "TESSERA_LIBRARIES_DIR": str(self.root / "lib"),
            "TESSERA_HEALTH_PORT": str(self._port),
            LISTED_WITHIN: os.environ.get(LISTED_WITHIN, str(LISTED_WITHIN_S)),
            "TESSERA_LEAVE_SECONDS": "2",
            "TMPDIR": str(self.root),  # a killed agent leaves its directory behind
        }

    def start(self) -> None:
        with (self.root / "agent.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "device_plugin.app"],
                env=self.environment(),
                stdout=log,
                stderr=log,
            )
        wait_until(lambda: self.probe("/healthz") == 200)

    def start_standby(self) -> subprocess.Popen[bytes]:
        """Start the processes of the pod's container that stands by; needs TESSERA_LINK_DIR."""
        with (self.root / "standby.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "device_plugin.app"],
                env={**self.environment(), "TESSERA_STANDBY": "true"},
                stdout=log,
                stderr=log,
            )

    def probe(self, path: str) -> int:
        """Return a probe's HTTP status; 0: no answer."""
        assert self.process is not None
        assert self.process.poll() is None, self.log
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self._port}{path}", timeout=60
            ) as found:
                return int(found.status)
        except urllib.error.HTTPError as err:
            return err.code
        except OSError:
            return 0

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(60)

    def child(self, name: str) -> int:
        """Return the process ID of one of its two processes; 0 while that does not run."""
        assert self.process is not None
        return child_of(self.process.pid, name)

    def sockets(self) -> list[str]:
        """Return the sockets of resources and of the driver."""
        return sorted(path.name for path in self._plugins_dir.glob("*.sock"))

    @property
    def _plugins_dir(self) -> Path:
        return self.kubelet.dir / "plugins" / "gpu.tessera.dev"

    def devices(self, profile: str) -> dict[str, str]:
        """Return the devices of a resource and their health, as a kubelet that connects now
        receives them.
        """
        with self._channel(profile) as channel:
            stream = dp_grpc.DevicePluginStub(channel).ListAndWatch(dp.Empty(), timeout=60)
            return {device.ID: device.health for device in next(stream).devices}

    @contextlib.contextmanager
    def following(self, profile: str) -> Iterator[Iterator[dict[str, str]]]:
        """Follow a resource's list as the kubelet does: devices and their health at each change."""
        with self._channel(profile) as channel:
            stream = dp_grpc.DevicePluginStub(channel).ListAndWatch(dp.Empty(), timeout=60)
            yield ({device.ID: device.health for device in each.devices} for each in stream)
            stream.cancel()

    def answers(self, profile: str) -> bool:
        """Return whether a resource is served."""
        try:
            return bool(self.devices(profile))
        except (grpc.RpcError, ValueError):
            return False

    def allocate(self, profile: str, device: str) -> list[str]:
        """Allocate as the kubelet does; return the CDI devices."""
        wanted = [dp.ContainerAllocateRequest(devices_ids=[device])]
        request = dp.AllocateRequest(container_requests=wanted)
        with self._channel(profile) as channel:
            response = dp_grpc.DevicePluginStub(channel).Allocate(request, timeout=60)
        return [d.name for d in response.container_responses[0].cdi_devices]

    def prepare(self, name: str, uid: str) -> dra.NodePrepareResourceResponse:
        """Prepare a claim of the namespace ``team``, as the kubelet does."""
        claim = dra.Claim(namespace="team", name=name, uid=uid)
        with self.driver() as channel:
            response = dra_grpc.DRAPluginStub(channel).NodePrepareResources(
                dra.NodePrepareResourcesRequest(claims=[claim]), timeout=60
            )
        return response.claims[uid]

    def unprepare(self, name: str, uid: str) -> str:
        """Unprepare a claim; return the error, if any."""
        claim = dra.Claim(namespace="team", name=name, uid=uid)
        with self.driver() as channel:
            response = dra_grpc.DRAPluginStub(channel).NodeUnprepareResources(
                dra.NodeUnprepareResourcesRequest(claims=[claim]), timeout=60
            )
        return str(response.claims[uid].error)

    def driver(self) -> grpc.Channel:
        """Return a channel to the DRA driver, at the address that its registration states."""
        registry = self.kubelet.dir / "plugins_registry"
        (path,) = registry.glob("gpu.tessera.dev-*-reg.sock")
        with grpc.insecure_channel(f"unix:{path}") as channel:
            info = reg_grpc.RegistrationStub(channel).GetInfo(
                reg.InfoRequest(), timeout=60, wait_for_ready=True
            )
        assert (info.type, info.name) == ("DRAPlugin", "gpu.tessera.dev")
        return grpc.insecure_channel(f"unix:{info.endpoint}")

    def _channel(self, profile: str) -> grpc.Channel:
        name = profile if profile == "gpu" else f"mig-{profile}"
        (path,) = self._plugins_dir.glob(f"tessera-{name}-*.sock")
        return grpc.insecure_channel(f"unix:{path}")


def child_of(parent: int, name: str) -> int:
    """Return the process ID of a child by its name; 0 while it does not run."""
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text()
        for pid in children.split():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                    return int(pid)
    return 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
