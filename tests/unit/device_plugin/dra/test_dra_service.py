"""The DRA driver's sockets and its stream of health, as a kubelet uses them."""

import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from device_plugin.dra import health as health_module
from device_plugin.dra.health import SILENT_S, HealthService
from device_plugin.dra.service import DraServer, DraService
from device_plugin.proto import (
    drahealth_pb2 as pb,
    registration_pb2,
    registration_pb2_grpc,
)

NODE = "node-1"


def serve(root: Path, pod: str) -> DraServer:
    preparer: Any = SimpleNamespace()
    service = DraService(preparer)
    made = DraServer(service, HealthService(NODE), root / "registry", root / "driver", pod)
    made.start()
    return made


def registered_endpoints(root: Path) -> list[str]:
    """Return the endpoints of the drivers that a kubelet finds."""
    found = []
    for path in sorted((root / "registry").iterdir()):
        with grpc.insecure_channel(f"unix:{path}") as channel:
            stub = registration_pb2_grpc.RegistrationStub(channel)
            info = stub.GetInfo(registration_pb2.InfoRequest(), timeout=60)
        assert (info.type, info.name) == ("DRAPlugin", "gpu.tessera.dev")
        assert list(info.supported_versions) == ["v1.DRAPlugin", "v1alpha1.DRAResourceHealth"]
        assert Path(info.endpoint).is_socket()
        assert Path(info.endpoint).stat().st_mode & 0o777 == 0o600
        found.append(Path(info.endpoint).name)
    return found


def test_an_old_and_a_new_driver_overlap(tmp_path: Path) -> None:
    old = serve(tmp_path, "tessera-node-demo-aaaaa")
    new = serve(tmp_path, "tessera-node-demo-bbbbb")
    assert registered_endpoints(tmp_path) == ["dra-e-demo-aaaaa.sock", "dra-e-demo-bbbbb.sock"]
    old.begin_stop()()
    assert registered_endpoints(tmp_path) == ["dra-e-demo-bbbbb.sock"]
    new.begin_stop()()
    assert registered_endpoints(tmp_path) == []


def test_sockets_of_a_killed_driver_are_removed_and_served_ones_stay(tmp_path: Path) -> None:
    other = serve(tmp_path, "tessera-node-demo-aaaaa")
    for name in ("registry/gpu.tessera.dev-x-reg.sock", "driver/dra-x.sock"):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(tmp_path / name))
    made = serve(tmp_path, "tessera-node-demo-bbbbb")
    assert len(registered_endpoints(tmp_path)) == 2
    assert not (tmp_path / "driver" / "dra-x.sock").exists()
    for one in (other, made):
        one.begin_stop()()


def test_health_is_repeated_until_the_agent_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kubelet treats a health that is not repeated as unknown."""
    monkeypatch.setattr(health_module, "AGAIN_S", 0.0)
    now = [100.0]
    service = HealthService(NODE, clock=lambda: now[0])
    context: Any = SimpleNamespace(is_active=lambda: True, add_callback=lambda _: None)
    stream: Iterator[pb.NodeWatchResourcesResponse] = service.NodeWatchResources(
        pb.NodeWatchResourcesRequest(), context
    )
    assert list(next(stream).devices) == []  # no health was reported yet
    service.update({"gpu-0": "Healthy", "gpu-1": "Unhealthy: Xid 79", "gpu-2": "Suspect: Xid 48"})
    for _ in range(2):
        reported = {one.device.device_name: one for one in next(stream).devices}
        assert {name: one.health for name, one in reported.items()} == {
            "gpu-0": pb.HEALTHY,
            "gpu-1": pb.UNHEALTHY,
            "gpu-2": pb.HEALTHY,
        }
        assert reported["gpu-1"].message == "Unhealthy: Xid 79"
        assert {one.device.pool_name for one in reported.values()} == {NODE}
    now[0] += SILENT_S
    assert list(next(stream).devices) == []
    service.stop()
    assert list(stream) == []
