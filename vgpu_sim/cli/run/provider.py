"""The files that ``tessera run --system-verbs`` shows to the system's libibverbs.

rdma-core looks for a device in /sys/class/infiniband_verbs and for its character device in
/dev/infiniband; both only have to exist. The provider in ``hca/clients/provider`` does the rest;
ADR 65 lists its limits.
"""

import os
from pathlib import Path
from typing import Final

from vgpu_sim.cli.clients.fabric import FabricFailed
from vgpu_sim.system import calls

CLASS: Final = "infiniband_verbs"
_CLASSES: Final = Path("/sys/class")
_DEVICES: Final = Path("/dev")
_NAME: Final = "uverbs0"
_STAND_IN: Final = "null"  # a character device that every user may open
_OLD: Final = ".system"
_ABI: Final = 6  # ABI version of uverbs, which rdma-core reads
_MS_BIND_REC: Final = 4096 | 16384


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
    number = os.stat(_DEVICES / _STAND_IN).st_rdev
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
    names = [entry.name for entry in _DEVICES.iterdir() if entry.name != "infiniband"]
    scratch.mkdir(exist_ok=True)
    calls.mount("none", str(scratch), "tmpfs", 0, "size=64k,mode=0755")
    old = scratch / _OLD
    old.mkdir()
    calls.mount(str(_DEVICES), str(old), "", _MS_BIND_REC)
    for name in names:
        (scratch / name).symlink_to(f"{_OLD}/{name}")
    place = scratch / "infiniband" / _NAME
    place.parent.mkdir()
    place.touch()
    calls.mount(str(old / _STAND_IN), str(place), "", _MS_BIND_REC)
    calls.mount(str(scratch), str(_DEVICES), "", _MS_BIND_REC)
    calls.unmount_detached(str(scratch))
