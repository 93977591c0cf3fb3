"""Checks of a Kubernetes node: control groups, the container runtime and gpud's folders."""

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from diagnosis.findings import FAIL, OK, WARN, Finding
from vgpu_sim import config
from vgpu_sim.cli.doctor.host import is_noexec

_AREA: Final = "node"
_CONTROLLERS: Final = ("memory", "cpu")
_KUBELET: Final = Path("/var/lib/kubelet")
_CDI_FOLDERS: Final = (Path("/etc/cdi"), Path("/var/run/cdi"))
_CDI_PLUGINS: Final = ("io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime")


def is_node() -> bool:
    """Return whether a kubelet or gpud uses this machine."""
    return _KUBELET.is_dir() or config.run_dir().is_dir() or shutil.which("kubelet") is not None


def check_all() -> list[Finding]:
    """Return the findings about a node."""
    return [check_cgroups(), check_containerd(), check_cdi(), check_state_folder(), check_gpud()]


def check_cgroups(root: Path = Path("/sys/fs/cgroup"), *, is_root: bool | None = None) -> Finding:
    """Check for the control groups that limit the memory and CPUs of slices."""
    remedy = "without control groups, only gpud's accounting limits slices: mount cgroup2 at "
    if (root / "cgroup.controllers").is_file():
        controllers = (root / "cgroup.controllers").read_text(encoding="ascii").split()
        missing = [name for name in _CONTROLLERS if name not in controllers]
        if missing:
            text = f"version 2 without {', '.join(missing)}"
            return Finding(
                _AREA,
                "cgroups",
                WARN,
                text,
                "remove cgroup_disable= from the kernel's command line",
            )
        text = "version 2"
    elif (root / "memory" / "cgroup.procs").is_file():
        text = "version 1"
    else:
        return Finding(_AREA, "cgroups", WARN, f"none at {root}", f"{remedy}{root}")
    as_root = os.geteuid() == 0 if is_root is None else is_root
    folder = root if text == "version 2" else root / "memory"
    if as_root and not os.access(folder, os.W_OK):
        return Finding(
            _AREA,
            "cgroups",
            WARN,
            f"{text}, but {folder} is read-only",
            "gpud's pod needs /sys/fs/cgroup writable; the chart mounts it",
        )
    return Finding(_AREA, "cgroups", OK, text)


def check_containerd(
    version: str | None = None, file: Path = Path("/etc/containerd/config.toml")
) -> Finding:
    """Check that containerd adds CDI devices: by default from 2.0 on, else if it is configured."""
    text = version if version is not None else _containerd_version()
    match = re.search(r"\bv?(\d+)\.(\d+)\.\d+", text)
    if match is None:
        return Finding(
            _AREA,
            "containerd",
            OK,
            "not on PATH: another runtime, such as CRI-O, has CDI on",
        )
    release = match[0].lstrip("v")
    set_to = _enable_cdi(file)
    if set_to is False or (int(match[1]) < 2 and set_to is None):
        return Finding(
            _AREA,
            "containerd",
            FAIL,
            f"{release} with CDI off",
            f'set enable_cdi = true and cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"] in {file} and'
            " restart containerd, or install with devicePlugin.deviceListStrategy=mounts",
        )
    return Finding(_AREA, "containerd", OK, f"{release} with CDI on")


def check_cdi(folders: tuple[Path, ...] = _CDI_FOLDERS) -> Finding:
    """Report the CDI files of Tessera, and whether its folder can be written."""
    files = [file for folder in folders for file in folder.glob("tessera*.json")]
    if files:
        return Finding(_AREA, "CDI", OK, f"{len(files)} files, such as {files[0]}")
    existing_folder = next(path for path in (folders[-1], *folders[-1].parents) if path.exists())
    if os.geteuid() == 0 and not os.access(existing_folder, os.W_OK):
        text = f"{existing_folder} is read-only"
        return Finding(_AREA, "CDI", FAIL, text, f"make {folders[-1]} writable for the node agent")
    text = f"no file of Tessera in {folders[-1]}: this node is in no pool, or uses mounts"
    return Finding(_AREA, "CDI", OK, text)


def check_state_folder(folder: Path = config.DEFAULT_STATE_DIR) -> Finding:
    """Check the folder from which containers get the client libraries."""
    if is_noexec(folder):
        return Finding(
            _AREA,
            "state",
            FAIL,
            f"{folder} is on a file system that is mounted noexec",
            "containers load Tessera's libraries from there: mount it without noexec",
        )
    free = shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free
    if free < 1 << 30:
        text = f"{free >> 20} MiB free at {folder}"
        return Finding(_AREA, "state", WARN, text, "free 1 GiB for libraries and compiled kernels")
    return Finding(_AREA, "state", OK, f"{folder}, {free >> 30} GiB free")


def check_gpud(folder: Path | None = None) -> Finding:
    """Report whether a gpud of this node has its socket."""
    socket = (folder or config.run_dir()) / "gpud.sock"
    if socket.exists():
        return Finding(_AREA, "gpud", OK, f"serves {socket}")
    if (folder or config.run_dir()).is_dir():
        return Finding(
            _AREA,
            "gpud",
            WARN,
            f"no {socket}",
            "see `kubectl -n tessera-system get pods -o wide` and the log of tessera-gpud-POOL",
        )
    return Finding(_AREA, "gpud", OK, "this node is in no pool")


def _containerd_version() -> str:
    program = shutil.which("containerd")
    if program is None:
        return ""
    try:
        process = subprocess.run(
            [program, "--version"], capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return process.stdout


def _enable_cdi(file: Path) -> bool | None:
    """Return the value of ``enable_cdi`` in containerd's configuration; None if it is not set."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return None
    plugins = document.get("plugins")
    for name in _CDI_PLUGINS:
        table: Any = plugins.get(name) if isinstance(plugins, Mapping) else None
        if isinstance(table, Mapping) and isinstance(table.get("enable_cdi"), bool):
            return bool(table["enable_cdi"])
    return None
