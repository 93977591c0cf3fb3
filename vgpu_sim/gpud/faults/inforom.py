"""A GPU's InfoROM: its counts of memory errors, kept across resets and restarts.

The InfoROMs of all GPUs are stored in one JSON file next to the journal. The file keeps the
InfoROMs of GPUs that have left the node, so that a GPU with the same UUID resumes its history
when it returns.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, Final

from vgpu_sim.gpud.model import GpuUuid, parse_gpu_uuid
from vgpu_sim.records import dataclass
from vgpu_sim.system import durable

FILE_NAME: Final = "inforom.json"
MAX_COUNT: Final = (1 << 63) - 1
MAX_REMAPPED_ROWS: Final = 512  # per GPU since the A100 (NVIDIA's memory error management)
_VERSION: Final = 1
_MAX_FILE_BYTES: Final = 1 << 20

logger = logging.getLogger("tessera.gpud")


@dataclass(frozen=True, slots=True)
class Inforom:
    """One GPU's counts of memory errors. The rows counted by ``pending_rows`` are remapped at the
    next reset; ``failed`` is set if no spare rows are left.
    """

    corrected: int = 0
    uncorrected: int = 0
    remapped_rows: int = 0
    pending_rows: int = 0
    failed: bool = False

    def after(self, corrected: int = 0, uncorrected: int = 0) -> "Inforom":
        """Return the InfoROM after memory errors. Each uncorrected error takes a row out of use."""
        pending = min(uncorrected, MAX_REMAPPED_ROWS - self.remapped_rows - self.pending_rows)
        return replace(
            self,
            corrected=min(self.corrected + corrected, MAX_COUNT),
            uncorrected=min(self.uncorrected + uncorrected, MAX_COUNT),
            pending_rows=self.pending_rows + pending,
            failed=self.failed or pending < uncorrected,
        )

    def after_reset(self) -> "Inforom":
        """Return the InfoROM after a reset of the GPU, which remaps the pending rows."""
        rows = self.remapped_rows + self.pending_rows
        return replace(self, remapped_rows=rows, pending_rows=0)


def load(state_dir: Path) -> dict[GpuUuid, Inforom]:
    """Read the InfoROMs of all GPUs.

    An unreadable file is moved aside, and all counts start at 0. This is acceptable because the
    counts do not restrict programs.
    """
    path = state_dir / FILE_NAME
    try:
        with path.open("rb") as file:
            return _decode(json.loads(file.read(_MAX_FILE_BYTES)))
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, RecursionError) as err:
        aside = path.with_suffix(".corrupt")
        path.rename(aside)
        logger.error("inforom_unreadable moved_to=%s error=%s", aside, err)  # noqa: TRY400
        return {}


def save(state_dir: Path, roms: Mapping[GpuUuid, Inforom]) -> None:
    """Replace the file of InfoROMs. Raises OSError."""
    gpus = {uuid: asdict(rom) for uuid, rom in roms.items()}
    durable.write_json(state_dir / FILE_NAME, {"version": _VERSION, "gpus": gpus})


def _decode(document: Any) -> dict[GpuUuid, Inforom]:
    if not isinstance(document, dict) or set(document) != {"version", "gpus"}:
        raise ValueError("expected the fields 'version' and 'gpus'")
    if document["version"] != _VERSION or not isinstance(document["gpus"], dict):
        raise ValueError(f"expected version {_VERSION}")
    return {parse_gpu_uuid(uuid): _rom(entry) for uuid, entry in document["gpus"].items()}


def _rom(entry: Any) -> Inforom:
    names = {field.name for field in fields(Inforom)}
    if not isinstance(entry, dict) or set(entry) != names:
        raise ValueError(f"expected the fields {sorted(names)}")
    for name, value in entry.items():
        kind = bool if name == "failed" else int
        if type(value) is not kind or not 0 <= value <= MAX_COUNT:
            raise ValueError(f"{name} is not a count")
    return Inforom(**entry)
