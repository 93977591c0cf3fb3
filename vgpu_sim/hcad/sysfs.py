"""The files that tools read below ``/sys/class/infiniband/DEVICE``, as plain files."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from vgpu_sim.fabric.addresses import Address
from vgpu_sim.hal.hca import HCA_PKEYS
from vgpu_sim.hcad.client import DEFAULT_PKEY


def _groups(value: bytes) -> str:
    return ":".join(value[i : i + 2].hex() for i in range(0, len(value), 2))


def files(address: Address, firmware: str, board: str) -> Mapping[str, str]:
    """Return paths below a device's folder, and what they hold."""
    guid = _groups(address.guid)
    port = {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "link_layer": "Ethernet",
        "rate": "100 Gb/sec (4X EDR)",
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
    }


def write(directory: Path, address: Address, firmware: str, board: str) -> None:
    """Write a device's folder. Raises OSError."""
    for name, text in files(address, firmware, board).items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", encoding="ascii")


def remove(directory: Path) -> None:
    """Remove it."""
    shutil.rmtree(directory, ignore_errors=True)
