"""The fault records of a node's GPUs: the last Xids, and counts of memory errors."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

from vgpu_sim.gpud.events import ascii_text
from vgpu_sim.gpud.faults import inforom
from vgpu_sim.gpud.faults.inforom import Inforom
from vgpu_sim.gpud.faults.xid_log import XidLog
from vgpu_sim.gpud.model import GpuUuid
from vgpu_sim.hal.management import admin
from vgpu_sim.records import dataclass

MAX_XIDS: Final = 64  # per GPU


@dataclass(slots=True)
class Volatile:
    """Counts of a GPU's memory errors since its last reset."""

    corrected: int = 0
    uncorrected: int = 0


class Records:
    """The fault records of all GPUs of a node. The constructor raises OSError if the file cannot be
    read.
    """

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._roms = inforom.load(state_dir)
        self._volatile: defaultdict[GpuUuid, Volatile] = defaultdict(Volatile)
        self._xids: defaultdict[GpuUuid, list[admin.Xid]] = defaultdict(list)
        self._log = XidLog(state_dir)
        self._sequence = 0
        for gpu, entry in self._log.load():
            self._keep(gpu, entry)
            self._sequence = max(self._sequence, entry.sequence)

    def record_xid(
        self, gpu: GpuUuid, xid: int, instance: str, pid: int, message: str, time_ns: int
    ) -> admin.Xid:
        """Record an Xid.

        If there are too many records, drop the oldest one of the instance with the most records,
        so that a program that faults in a loop does not displace another program's records.
        """
        self._sequence += 1
        entry = admin.Xid(self._sequence, xid, time_ns, instance, pid, ascii_text(message, 256))
        self._keep(gpu, entry)
        everything = ((uuid, record) for uuid, entries in self._xids.items() for record in entries)
        self._log.append(gpu, entry, everything)
        return entry

    def _keep(self, gpu: GpuUuid, entry: admin.Xid) -> None:
        entries = self._xids[gpu]
        entries.append(entry)
        if len(entries) > MAX_XIDS:
            noisiest, _ = Counter(record.instance for record in entries).most_common(1)[0]
            entries.remove(next(record for record in entries if record.instance == noisiest))

    def xids(self, gpu: GpuUuid) -> tuple[admin.Xid, ...]:
        """Return a GPU's recorded Xids, oldest first."""
        return tuple(self._xids.get(gpu, ()))

    def count_errors(self, gpu: GpuUuid, corrected: int = 0, uncorrected: int = 0) -> None:
        """Count memory errors of a GPU. Each uncorrected error takes a row out of use at the next
        reset.

        Raises:
            OSError: the counts could not be saved; they are then unchanged.
        """
        rom = self._rom(gpu).after(corrected, uncorrected)
        self._store(gpu, rom)
        volatile = self._volatile[gpu]
        volatile.corrected = min(volatile.corrected + corrected, inforom.MAX_COUNT)
        volatile.uncorrected = min(volatile.uncorrected + uncorrected, inforom.MAX_COUNT)

    def reset(self, gpu: GpuUuid) -> None:
        """Apply a reset of a GPU: clear its volatile counts and remap its pending rows."""
        self._volatile.pop(gpu, None)
        self._store(gpu, self._rom(gpu).after_reset())

    def ecc(self, gpu: GpuUuid) -> admin.Ecc:
        """Return a GPU's counts of memory errors."""
        rom, volatile = self._rom(gpu), self._volatile.get(gpu, Volatile())
        return admin.Ecc(
            corrected_volatile=volatile.corrected,
            uncorrected_volatile=volatile.uncorrected,
            corrected_aggregate=rom.corrected,
            uncorrected_aggregate=rom.uncorrected,
            remapped_rows=rom.remapped_rows,
            pending_rows=rom.pending_rows,
            remapping_failed=rom.failed,
        )

    def _rom(self, gpu: GpuUuid) -> Inforom:
        return self._roms.get(gpu, Inforom())

    def _store(self, gpu: GpuUuid, rom: Inforom) -> None:
        if rom == self._rom(gpu):
            return
        roms = {**self._roms, gpu: rom}
        inforom.save(self._state_dir, roms)
        self._roms = roms
