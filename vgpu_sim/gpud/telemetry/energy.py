"""The energy that GPUs have drawn since the node started, kept in a file across gpud's restarts.

Like NVML's counter, which runs since the driver was loaded, the energy never decreases, because
the file is replaced before a new value is published. The file covers one boot only, so it need
not survive a power failure.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from vgpu_sim.gpud.model import GpuUuid
from vgpu_sim.records import dataclass

logger = logging.getLogger("tessera.gpud")

NAME: Final = "energy.json"
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Drawn:
    """The energy in mJ that each GPU had drawn up to ``at_ns`` (CLOCK_MONOTONIC)."""

    at_ns: int = 0
    energies_mj: Mapping[GpuUuid, float] = field(default_factory=dict)


class EnergyFile:
    """The file in a state directory that stores how much energy the GPUs have drawn. An unreadable
    file counts as absent.
    """

    def __init__(self, state_dir: Path, boot_id: Path = BOOT_ID) -> None:
        self._path = state_dir / NAME
        self._boot_id = boot_id
        self._failed = False

    def load(self) -> Drawn:
        """Return the energy of each GPU as last saved since the machine booted. If nothing was
        saved since then, the result has no GPUs.
        """
        try:
            document = json.loads(self._path.read_text(encoding="ascii"))
            if document["boot"] != self._boot():
                return Drawn()
            energies = {GpuUuid(uuid): float(mj) for uuid, mj in document["mj"].items()}
            if not all(0 <= mj < float("inf") for mj in energies.values()):
                raise ValueError("the energy is negative or not finite")
            return Drawn(int(document["at_ns"]), energies)
        except FileNotFoundError:
            return Drawn()
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as err:
            logger.warning("energy_unreadable path=%s error=%s", self._path, err)
            return Drawn()

    def save(self, drawn: Drawn) -> None:
        """Replace the file by this reading. A failure is logged once and does not stop the
        metering.
        """
        document = {"boot": self._boot(), "at_ns": drawn.at_ns, "mj": dict(drawn.energies_mj)}
        temporary = self._path.with_suffix(".tmp")
        try:
            temporary.write_text(json.dumps(document), encoding="ascii")
            temporary.rename(self._path)
        except OSError as err:
            if not self._failed:
                logger.warning("energy_unwritten path=%s error=%s", self._path, err)
            self._failed = True

    def _boot(self) -> str:
        try:
            return self._boot_id.read_text(encoding="ascii").strip()
        except OSError:
            return ""
