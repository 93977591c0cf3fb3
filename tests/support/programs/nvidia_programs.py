"""NVIDIA's own programs for Kubernetes, run on Tessera's NVML and a gpud."""

import os
import subprocess
from pathlib import Path

from support.kept import native_parts
from support.processes.nvml_views import Rig
from support.programs import driver_files
from support.programs.go_programs import program
from vgpu_sim.hal.management.nvml import MANAGEMENT_SOCKET_NAME
from vgpu_sim.native import build

H100 = "0x2330"
"""PCI device id of the H100 SXM5 80 GB."""
_RUN_S = 60


class Programs:
    """``root`` is a directory to work in."""

    def __init__(self, rig: Rig, root: Path) -> None:
        native_parts.build_once("libnvidia-ml.so.1")
        self._rig = rig
        self._root = root
        self._runs = 0

    def line(self, *command: str) -> list[str]:
        """Return a command line that also provides the files of a kernel module."""
        self._runs += 1
        room = self._root / f"driver-{self._runs}"
        return driver_files.command(room, self._rig.inventory().gpus, H100, command)

    def environment(self) -> dict[str, str]:
        """Return an environment that locates Tessera's NVML and gpud."""
        return {
            "LD_LIBRARY_PATH": str(build.LIBRARIES),
            "TESSERA_MANAGEMENT_SOCKET": str(self._rig.node.run_dir / MANAGEMENT_SOCKET_NAME),
        }

    def run(self, *command: str, status: int = 0) -> str:
        """Return the output of a program."""
        done = subprocess.run(
            self.line(*command),
            env=os.environ | self.environment(),
            capture_output=True,
            text=True,
            timeout=_RUN_S,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    def features(self, strategy: str) -> dict[str, str]:
        """Return GPU Feature Discovery's labels, without their prefix."""
        discovery = str(program("kubernetes", "gpu-feature-discovery"))
        options = ["--oneshot", "--output-file=", "--use-node-feature-api=false"]
        printed = self.run(discovery, *options, f"--mig-strategy={strategy}")
        labels = [line.partition("=") for line in printed.splitlines() if "=" in line]
        assert all(name.startswith("nvidia.com/") for name, _, _ in labels)
        return {name.removeprefix("nvidia.com/"): value for name, _, value in labels}

    def run_mig_parted(self, *arguments: str, status: int = 0) -> str:
        """Run mig-parted; return its output."""
        return self.run(str(program("kubernetes", "nvidia-mig-parted")), *arguments, status=status)
