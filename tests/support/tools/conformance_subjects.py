"""The plugins that kubelet_conformance checks, with their requirements: Tessera's, NVIDIA's,
Intel's.
"""

import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_operator.api.v1alpha1 import GROUP, NODE_LABEL, VERSION
from kubelet_conformance import matrix
from support.kept import native_parts
from support.processes import nvml_views
from support.processes.api_server import GPUS, NODE, ApiServer
from support.processes.gpud_process import gpud
from support.programs.go_programs import program
from vgpu_sim.gpud.model import new_gpu_uuid
from vgpu_sim.hal.management.nvml import MANAGEMENT_SOCKET_NAME
from vgpu_sim.native import build

REPOSITORY = Path(__file__).resolve().parents[3]
RUN_S = 400
_TESSERA = str(Path(sys.executable).with_name("tessera"))


@dataclass(frozen=True)
class Subject:
    """The pytest options for one plugin, and the environment of its command."""

    plugin: str = ""
    driver: str = ""
    resources: str = ""
    breaks: str = ""
    recovery: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


def _agent(root: Path, run_dir: Path) -> dict[str, str]:
    """Return settings of Tessera's node agent whose files of the node are below ``root``."""
    return {
        "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'operator'}",
        "POD_NAME": "conformance",
        "TESSERA_RUN_DIR": str(run_dir),
        "CDI_DIR": str(root / "cdi"),
        "POD_LOGS_DIR": str(root / "pods"),
        "TESSERA_LIBRARIES_DIR": str(root / "lib"),
        "TESSERA_HEALTH_PORT": "0",
        "TESSERA_LEAVE_SECONDS": "2",
    }


@contextlib.contextmanager
def ours(root: Path) -> Iterator[Subject]:
    """Yield our node agent, on a gpud with two slices of one profile and one of another."""
    with gpud("--health-seconds", "2", "2", "2") as daemon, ApiServer() as api:
        places = [("1g.10gb", 0), ("1g.10gb", 1), ("2g.20gb", 2)]
        spec = {"nodeName": NODE, "index": 0, "board": "h100-80gb", "uuid": new_gpu_uuid()}
        instances = [{"profile": profile, "start": start} for profile, start in places]
        api.put_gpu("gpu-1", {**spec, "pool": "demo", "instances": instances})
        (root / "kubeconfig").write_text(json.dumps(api.kubeconfig()))
        (root / "pods").mkdir()
        here = {"NODE_NAME": NODE, "KUBECONFIG": str(root / "kubeconfig")}
        fault = [_TESSERA, "fault", "inject", "--xid", "79"]
        yield Subject(
            plugin=f"exec {shlex.quote(sys.executable)} -m device_plugin.app",
            resources="gpu.tessera.dev/mig-1g.10gb,gpu.tessera.dev/mig-2g.20gb",
            breaks=shlex.join([*fault, "--gpu", "0", "--run-dir", str(daemon.run_dir)]),
            recovery="true",  # it recovers once faults stop
            environment=_agent(root, daemon.run_dir) | here,
        )


@contextlib.contextmanager
def nvidia(root: Path) -> Iterator[Subject]:
    """Yield NVIDIA's device plugin, on our NVML and a gpud with two GPUs, one of them
    partitioned.
    """
    command = program("kubernetes", "nvidia-device-plugin")
    native_parts.build_once("libnvidia-ml.so.1")
    with nvml_views.rig(root) as rig:
        fault = [_TESSERA, "fault", "inject", "--xid", "79"]
        yield Subject(
            plugin=f"exec {command} --mig-strategy=none",
            resources="nvidia.com/gpu",
            breaks=shlex.join([*fault, "--gpu", "1", "--run-dir", str(rig.node.run_dir)]),
            recovery="true",
            environment={
                "LD_LIBRARY_PATH": str(build.LIBRARIES),
                "TESSERA_MANAGEMENT_SOCKET": str(rig.node.run_dir / MANAGEMENT_SOCKET_NAME),
            },
        )


@contextlib.contextmanager
def intel(root: Path) -> Iterator[Subject]:
    """Yield Intel's GPU plugin, on files that replace two cards' sysfs entries and device nodes."""
    command = program("kubernetes", "gpu_plugin")
    for card, render in (("card0", "renderD128"), ("card1", "renderD129")):
        device = root / "sys/class/drm" / card / "device"
        (device / "drm" / card).mkdir(parents=True)
        (device / "drm" / render).mkdir()
        (device / "vendor").write_text("0x8086\n")
        (root / "dev/dri").mkdir(parents=True, exist_ok=True)
        for node in (card, render):
            (root / "dev/dri" / node).touch()
    yield Subject(
        plugin=f"exec {command} -prefix {root} -shared-dev-num 2",
        resources="gpu.intel.com/i915",
    )


@contextlib.contextmanager
def our_driver(root: Path) -> Iterator[Subject]:
    """Yield our node agent with DRA enabled, for one GPU that claims partition."""
    with gpud() as daemon:
        spec = {"nodeName": "conformance", "index": 0, "board": "h100-80gb", "pool": "demo"}
        gpu = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "GPU",
            "metadata": {"name": "gpu-1", "labels": {NODE_LABEL: "conformance"}},
            "spec": {**spec, "uuid": new_gpu_uuid(), "instances": [], "allocation": "DRA"},
        }
        (root / "pods").mkdir()
        put = [sys.executable, str(Path(__file__).parents[1] / "scripts" / "put_object.py"), GPUS]
        yield Subject(
            driver=f"{shlex.join([*put, json.dumps(gpu)])} &&"
            f" exec {shlex.quote(sys.executable)} -m device_plugin.app",
            environment={**_agent(root, daemon.run_dir), "TESSERA_DRA": "true"},
        )


@contextlib.contextmanager
def example_driver(root: Path) -> Iterator[Subject]:
    """Yield the example driver of Kubernetes SIG Node, whose GPUs do not exist."""
    command = program("kubernetes", "dra-example-kubeletplugin")
    yield Subject(driver=f"exec {command} --cdi-root {root / 'cdi'} --num-devices 4")


SUBJECTS: Mapping[str, Callable[[Path], AbstractContextManager[Subject]]] = {
    "Tessera": ours,
    "NVIDIA k8s-device-plugin v0.19.3": nvidia,
    "Intel GPU plugin v0.36.0": intel,
    "Tessera, DRA": our_driver,
    "dra-example-driver v0.4.0": example_driver,
}


def check_subject(name: str, timeout_s: float = 60.0, recover: bool = True) -> list[dict[str, str]]:
    """Return the results of a subject's checks.

    Raises:
        AssertionError: no check ran; the message is pytest's output.
    """
    with tempfile.TemporaryDirectory(prefix="cs-", dir="/tmp") as room:
        root = Path(room)
        with SUBJECTS[name](root) as subject:
            report = root / "report.json"
            given = {
                "plugin": subject.plugin,
                "driver": subject.driver,
                "resource": subject.resources,
                "break": subject.breaks,
                "mend": subject.recovery if recover else "",
                "timeout": str(timeout_s),
                "report": str(report),
            }
            done = subprocess.run(
                [
                    *(sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", room, "-q"),
                    *("-p", "no:cacheprovider"),
                    *(f"--kubelet-conformance-{key}={value}" for key, value in given.items()),
                ],
                cwd=root,
                env={**os.environ, "PYTHONPATH": str(REPOSITORY), **subject.environment},
                capture_output=True,
                text=True,
                timeout=RUN_S,
            )
            assert report.exists(), f"{done.stdout}\n{done.stderr}"
            found: dict[str, Any] = json.loads(report.read_text())
            assert found["results"], done.stdout
            return list(found["results"])


def main() -> None:
    """Check all subjects and write the table into docs/conformance.md."""
    document = REPOSITORY / "docs/conformance.md"
    begin, end = "<!-- results -->\n", "<!-- end of results -->"
    head, _, rest = document.read_text().partition(begin)
    reports = {name: check_subject(name) for name in SUBJECTS}
    document.write_text(head + begin + matrix.table(reports) + end + rest.partition(end)[2])


if __name__ == "__main__":
    main()
