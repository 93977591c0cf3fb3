"""PyTorch's wheel for pods: the manifests of ``examples/frameworks/pytorch`` with a folder of this
machine in the place of their installation.

Its Python is that of the variable TESSERA_TEST_TORCH_PYTHON. The workers see its packages if the
cluster was created with TESSERA_NODE_FOLDER.
"""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.cluster.kubectl import EXAMPLES, Cluster, gpu_nodes

VARIABLE = "TESSERA_TEST_TORCH_PYTHON"
FOLDER = EXAMPLES / "frameworks" / "pytorch"
PROGRAMS = ("metrics.py", "model.py", "train.py", "serve.py")
IMAGE = "tessera.local/python-gcc:1"
_VERSION = "3.13"  # of the image's Python


@dataclass(frozen=True, slots=True)
class Wheel:
    """A Python with PyTorch's wheel, and the folder of its packages."""

    python: str
    packages: Path

    def run(self, *arguments: str) -> str:
        """Run the Python with the examples' programs, on the CPU."""
        environment = {**os.environ, "PYTHONPATH": str(FOLDER)}
        done = subprocess.run(
            [self.python, *arguments], capture_output=True, text=True, env=environment, check=True
        )
        return done.stdout


def find_wheel() -> Wheel:
    """Return the wheel that the environment names. Skips the test if there is none."""
    python = os.environ.get(VARIABLE, "")
    if not Path(python).is_file():
        pytest.skip(f"{VARIABLE} names no Python with PyTorch")
    code = "import sysconfig as s; print(s.get_python_version(), s.get_path('purelib'))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    version, packages = done.stdout.split(maxsplit=1)
    if version != _VERSION or not Path(packages.strip(), "torch").is_dir():
        pytest.skip(f"{VARIABLE} names no Python {_VERSION}, which pods have, with PyTorch")
    return Wheel(python, Path(packages.strip()))


def require_in_nodes(cluster: Cluster, wheel: Wheel) -> None:
    """Skip the test unless the workers have the image and see the wheel."""
    for node in gpu_nodes(cluster):
        for command, remedy in (
            (f"ls -d {wheel.packages}/torch", "create the cluster with TESSERA_NODE_FOLDER"),
            (f"ctr -n k8s.io images ls -q name=={IMAGE}", "run deploy/images/python-gcc"),
        ):
            whole = ["docker", "exec", node, *command.split()]
            if not subprocess.run(whole, capture_output=True).stdout:
                pytest.skip(f"{node} lacks PyTorch or the image: {remedy}")


def programs() -> dict[str, Any]:
    """Return the ConfigMap that the kustomization generates."""
    data = {name: (FOLDER / name).read_text() for name in PROGRAMS}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "pytorch-programs"},
        "data": data,
    }


def manifest(file: str, wheel: Wheel, name: str) -> dict[str, Any]:
    """Return a manifest with another name, whose pod finds PyTorch in the wheel's folder."""
    found: dict[str, Any] = yaml.safe_load((FOLDER / file).read_text())
    found["metadata"]["name"] = name
    pod = found["spec"]["template"]["spec"]
    del pod["initContainers"]
    for container in pod["containers"]:
        container["image"] = IMAGE
        container["imagePullPolicy"] = "IfNotPresent"
    (volume,) = (one for one in pod["volumes"] if one["name"] == "pytorch")
    volume["hostPath"] = {"path": str(wheel.packages), "type": "Directory"}
    return found
