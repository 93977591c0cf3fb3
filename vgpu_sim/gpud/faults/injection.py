"""Injected faults, as values."""

from enum import StrEnum
from typing import Final

from vgpu_sim.records import dataclass


class Kind(StrEnum):
    """The kinds of faults. Faults of the last three kinds last until they are cleared or their
    duration ends.
    """

    XID = "xid"
    ECC_CORRECTED = "ecc_corrected"
    ECC_UNCORRECTED = "ecc_uncorrected"
    THERMAL = "thermal"
    HANG = "hang"
    OFF_BUS = "off_bus"


LASTING: Final = frozenset({Kind.THERMAL, Kind.HANG, Kind.OFF_BUS})
OF_GPUS: Final = frozenset({Kind.THERMAL, Kind.OFF_BUS})


@dataclass(frozen=True, slots=True)
class Injection:
    """A request to inject a fault. If ``instance`` is empty, the fault concerns the whole GPU."""

    id: str
    gpu: str
    instance: str
    kind: Kind
    xid: int
    count: int
    duration_ms: int

    def __str__(self) -> str:
        """Return the fault in the form of gpud's log: fields with their names."""
        xid = f" xid={self.xid}" if self.kind is Kind.XID else ""
        lasts = f" duration_ms={self.duration_ms}" if self.kind in LASTING else ""
        of = f" instance={self.instance}" if self.instance else ""
        count = f" count={self.count}" if self.kind not in LASTING else ""
        return f"id={self.id} kind={self.kind.value} gpu={self.gpu}{of}{xid}{count}{lasts}"
