"""A function that programs open: the function's address, its device and its owner."""

import ctypes
import os
from pathlib import Path
from typing import Final

from hca.binding.addresses import Address
from hca.binding.links import DEFAULT_LINK, Link
from hca.contract import hca
from hca.contract.hca import HcaDevice, HcaFeature
from hca.daemon.common.quotas import Share
from hca.daemon.objects.client import DEFAULT_PKEY
from hca.daemon.policy.parties import Party
from vgpu_sim.records import dataclass

DEVICE_NAME: Final = "tessera_0"
FIRMWARE: Final = "1.0.0"
BOARD: Final = "TESSERA_VHCA"
FEATURES: Final = int(HcaFeature.SHARED_RANGES | HcaFeature.BATCHES)


@dataclass(frozen=True, slots=True)
class OpenedFunction:
    """State shared by all programs of one function: the function's address, device and owner."""

    index: int
    address: Address
    directory: Path
    share: Share
    party: Party
    link: Link = DEFAULT_LINK
    mtu: int = hca.HCA_MAX_MTU

    def device(self) -> HcaDevice:
        device = HcaDevice(
            name=DEVICE_NAME.encode(),
            firmware=FIRMWARE.encode(),
            board=BOARD.encode(),
            sysfs=os.fsencode(self.directory / DEVICE_NAME),
            width=self.link.width,
            speed=self.link.speed,
            mtu=self.mtu,
            features=FEATURES,
        )
        device.pkeys[0] = DEFAULT_PKEY
        ctypes.memmove(device.guid, self.address.guid, hca.HCA_GUID_BYTES)
        ctypes.memmove(device.gids, b"".join(self.address.gids), ctypes.sizeof(device.gids))
        return device
