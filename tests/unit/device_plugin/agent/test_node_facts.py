"""The facts that an agent reports about its node."""

from pathlib import Path

import pytest

from device_plugin.agent.reporting import node_facts
from device_plugin.agent.reporting.reporter import Reporter
from device_plugin.agent.steps import Steps
from device_plugin.inventory.model import Gpu, Inventory
from device_plugin.inventory.resources import OfferedResources
from device_plugin.kube.client import Kube
from mig import geometry
from support.processes.api_server import ApiServer
from vgpu_sim.hal.management.nvml import DRIVER_RELEASE

BOARD = geometry.board("a30")
SPEC = {"nodeName": "node-1", "index": 0, "board": BOARD.key, "uuid": "GPU-1", "pool": "p"}


@pytest.mark.parametrize(
    ("content", "found"),
    [(b"Standard PC (Q35)\n", "Standard PC (Q35)"), (b"\xff", "\ufffd"), (b"x" * 999, "x" * 256)],
)
def test_the_machine_is_named_by_its_firmware(tmp_path: Path, content: bytes, found: str) -> None:
    file = tmp_path / "product_name"
    file.write_bytes(content)
    assert node_facts.machine_product(file) == found


def test_an_unknown_machine_type_is_left_empty(tmp_path: Path) -> None:
    assert node_facts.machine_product(tmp_path / "none") == ""


def test_each_gpu_has_the_versions_and_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_facts, "machine_product", lambda: "KVM")
    gpus = (Gpu("GPU-1", 0, BOARD, "Healthy", ()),)
    inventory = Inventory("1", "/lib", 1 << 30, 0, True, "", (), gpus)
    with ApiServer() as api:
        api.put_gpu("gpu-1", SPEC)
        kube = Kube("node-1", api.client())
        reporter = Reporter(kube)
        reporter.report(
            kube.gpus(), inventory, {"GPU-1": Steps()}, {}, set(), {}, OfferedResources(), {}
        )
        said = api.status("gpu-1")
    assert (said["machine"], said["cudaVersion"]) == ("KVM", "13.0")
    assert said["driverVersion"] == DRIVER_RELEASE
