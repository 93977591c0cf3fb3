"""The types of a board's record, and what boards share: architectures, MIG shapes, sources."""

from boards.record.architectures import ARCHITECTURES, Architecture
from boards.record.board import BoardRecord, Device
from boards.record.figures import Figure, Source
from boards.record.geometry import Geometry, ProfileRow
from boards.record.performance import CublasException, Performance
from boards.record.provenance import Provenance
from boards.record.silicon import Sensors, Silicon

__all__ = [
    "ARCHITECTURES",
    "Architecture",
    "BoardRecord",
    "CublasException",
    "Device",
    "Figure",
    "Geometry",
    "Performance",
    "ProfileRow",
    "Provenance",
    "Sensors",
    "Silicon",
    "Source",
]
