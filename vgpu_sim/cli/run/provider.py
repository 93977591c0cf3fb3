"""The files that ``tessera run --system-verbs`` shows to the system's libibverbs.

rdma-core looks for a device in /sys/class/infiniband_verbs and for its character device in
/dev/infiniband; both only have to exist. The provider in ``hca/clients/provider`` does the rest;
ADR 65 lists its limits.
"""

import os
from pathlib import Path
from typing import Final

from vgpu_sim.cli.clients.fabric import FabricFailed
from vgpu_sim.cli.run import devices
from vgpu_sim.cli.run.namespaces import MS_BIND_REC
from vgpu_sim.system import calls

CLASS: Final = "infiniband_verbs"
_CLASSES: Final = Path("/sys/class")
_FOLDER: Final = "infiniband"
_NAME: Final = "uverbs0"
_STAND_IN: Final = "null"  # a character device that every user may open
_ABI: Final = 6  # ABI version of uverbs, which rdma-core reads


def check() -> None:
    """Check that the system's libibverbs will find Tessera's device. Raises FabricFailed."""
    if (_CLASSES / CLASS).exists():
        raise FabricFailed(
            f"--system-verbs: this machine has RDMA drivers ({_CLASSES / CLASS}), so libibverbs"
            " takes its devices from the kernel and does not find Tessera's"
        )


def write_class_entry(classes: Path, device: str) -> None:
    """Write the device's entry into a folder that will be mounted on /sys/class. Raises OSError."""
    entry = classes / CLASS / _NAME
    entry.mkdir(parents=True)
    number = os.stat(devices.DEVICES / _STAND_IN).st_rdev
    (classes / CLASS / "abi_version").write_text(f"{_ABI}\n")
    (entry / "abi_version").write_text("1\n")
    (entry / "ibdev").write_text(f"{device}\n")
    (entry / "dev").write_text(f"{os.major(number)}:{os.minor(number)}\n")


def mount_device(scratch: Path) -> None:
    """Mount a folder over /dev in this process's mount namespace.

    The folder shows all devices of /dev, except that its subfolder ``infiniband`` has only
    Tessera's device.

    Raises:
        OSError: a step is not permitted.
    """
    devices.mount_over(scratch, _FOLDER, _place_device)


def _place_device(folder: Path, old: Path) -> None:
    place = folder / _FOLDER / _NAME
    place.parent.mkdir()
    place.touch()
    calls.mount(str(old / _STAND_IN), str(place), "", MS_BIND_REC)
