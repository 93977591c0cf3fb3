"""Detects the version of control groups that this node has and gpud may use."""

import logging
from collections.abc import Callable
from pathlib import Path

from vgpu_sim.gpud.limits.cgroups import joining
from vgpu_sim.gpud.limits.cgroups.base import SliceCgroups
from vgpu_sim.gpud.limits.cgroups.none import NoCgroups
from vgpu_sim.gpud.limits.cgroups.v1 import CgroupsV1
from vgpu_sim.gpud.limits.cgroups.v2 import CgroupsV2

logger = logging.getLogger("tessera.gpud")

DEFAULT_ROOT = Path("/sys/fs/cgroup")
PARENT = "tessera"


def detect(cpu_count: int, root: Path = DEFAULT_ROOT, parent: str = PARENT) -> SliceCgroups:
    """Return an object that manages control groups of the version (1 or 2) that this node has.

    If no group can be created, or no process can join one, return a ``NoCgroups`` with the reason.
    """
    make: Callable[[Path, str, int], SliceCgroups]
    if (root / "cgroup.controllers").is_file():
        version, make = "v2", CgroupsV2
    elif (root / "memory" / "cgroup.procs").is_file():
        version, make = "v1", CgroupsV1
    else:
        return NoCgroups(f"{root} holds no cgroup hierarchy")
    try:
        groups = make(root, parent, cpu_count)
        if version == "v2":  # version 1 knows no namespaces in which joining is refused
            joining.check(groups)
    except OSError as err:
        return NoCgroups(f"cgroup {version}: {err.strerror or err}: {err.filename or root}")
    logger.info("cgroups version=%s root=%s parent=%s", version, root, parent)
    return groups
