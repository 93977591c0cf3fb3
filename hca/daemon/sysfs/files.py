"""Write the files that tools read below ``/sys/class/infiniband/DEVICE``, as plain files."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from hca.binding.addresses import Address
from hca.binding.links import DEFAULT_LINK, Link
from hca.contract.hca import HCA_PKEYS
from hca.daemon.objects.client import DEFAULT_PKEY
from hca.daemon.sysfs import hw_counters

# Classes whose content depends on the network namespace in which sysfs was mounted.
_NET_CLASSES = {"net": "../devices/virtual/net"}
_NEVER = frozenset({"infiniband", "ieee80211"})


def _groups(value: bytes) -> str:
    return ":".join(value[i : i + 2].hex() for i in range(0, len(value), 2))


def files(
    address: Address, firmware: str, board: str, link: Link = DEFAULT_LINK
) -> Mapping[str, str]:
    """Return the contents of a device's files, by each file's path in the device's folder."""
    guid = _groups(address.guid)
    port = {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "link_layer": "Ethernet",
        "rate": link.text,
        "lid": "0x0",
        "lid_mask_count": "0",
        "sm_lid": "0x0",
        "sm_sl": "0",
        "cap_mask": "0x04010000",
    }
    for index in range(HCA_PKEYS):
        port[f"pkeys/{index}"] = f"{(DEFAULT_PKEY if index == 0 else 0):#06x}"
    for index, gid in enumerate(address.gids):
        port[f"gids/{index}"] = _groups(gid)
        port[f"gid_attrs/types/{index}"] = "RoCE v2"
    return {
        "node_type": "1: CA",
        "node_guid": guid,
        "sys_image_guid": guid,
        "node_desc": "Tessera virtual HCA",
        "fw_ver": firmware,
        "hw_rev": "0",
        "board_id": board,
        "hca_type": board,
        **{f"ports/1/{name}": text for name, text in port.items()},
        **{
            f"{hw_counters.FOLDER}/{name}": text
            for name, text in hw_counters.counter_texts().items()
        },
    }


def write(
    directory: Path,
    address: Address,
    firmware: str,
    board: str,
    link: Link = DEFAULT_LINK,
) -> None:
    """Write a device's folder with its files. Raises OSError."""
    for name, text in files(address, firmware, board, link).items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", encoding="ascii")


def write_classes(directory: Path, system: Path) -> None:
    """Make a container's /sys/class: the system's classes, and a folder for HCAs.

    No folder can be added to sysfs, so all of /sys/class is replaced. In the replacement, a class
    is a folder of relative links, which are valid in every container. The class of network
    interfaces is different: it is a link to the virtual interfaces, because a pod's interfaces are
    virtual. Raises OSError.
    """
    for entry in system.iterdir():
        target = directory / entry.name
        if entry.name in _NEVER or not entry.is_dir() or target.is_symlink():
            continue
        if entry.name in _NET_CLASSES:
            directory.mkdir(parents=True, exist_ok=True)
            target.symlink_to(_NET_CLASSES[entry.name])
            continue
        target.mkdir(parents=True, exist_ok=True)
        for link in entry.iterdir():
            if link.is_symlink() and not (target / link.name).is_symlink():
                (target / link.name).symlink_to(os.readlink(link))


def remove(directory: Path) -> None:
    """Remove a device's folder with its files."""
    shutil.rmtree(directory, ignore_errors=True)
