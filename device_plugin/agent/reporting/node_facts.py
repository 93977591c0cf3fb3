"""Facts about the node, the same for each of its GPUs: versions, and the machine's type.

The operator makes node labels from these facts, as GPU Feature Discovery does.
"""

from pathlib import Path
from typing import Final

from vgpu_sim.gpud.devices.device_info import DRIVER_VERSION
from vgpu_sim.hal.management.nvml import DRIVER_RELEASE

_MACHINE_FILE: Final = Path("/sys/class/dmi/id/product_name")
_MACHINE_LENGTH: Final = 256  # longest SMBIOS string that is kept


def cuda_version() -> str:
    """Return the CUDA version that ``cuDriverGetVersion`` returns, such as 13.0."""
    return f"{DRIVER_VERSION // 1000}.{DRIVER_VERSION % 1000 // 10}"


def driver_version() -> str:
    """Return the driver version that ``nvmlSystemGetDriverVersion`` returns."""
    return DRIVER_RELEASE


def machine_product(path: Path = _MACHINE_FILE) -> str:
    """Return the machine's product name from its firmware (SMBIOS type 1); empty if unknown."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MACHINE_LENGTH).strip()
    except OSError:
        return ""
