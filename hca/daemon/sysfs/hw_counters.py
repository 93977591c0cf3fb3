"""The counters below ``ports/1/hw_counters`` of a device, with mlx5's names.

Plain files cannot compute their content when they are read. So hcad writes a file when its
counter has changed, at most every ``REFRESH_SECONDS``. As with hardware, the file ``lifespan``
contains that interval.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hca.contract.hca_engine import HcaWireCounts

REFRESH_SECONDS: Final = 1.0
FOLDER: Final = "ports/1/hw_counters"
_FIELDS: Final[Mapping[str, str]] = {
    "duplicate_request": "duplicates",
    "local_ack_timeout_err": "timeouts",
    "np_cnp_sent": "np_cnp_sent",
    "np_ecn_marked_roce_packets": "np_ecn_marked",
    "out_of_sequence": "gaps",
    "rp_cnp_handled": "rp_cnp_handled",
    "rp_cnp_ignored": "rp_cnp_ignored",
    "rx_icrc_encapsulated": "bad_icrc",
}


def counter_texts(wires: Sequence[HcaWireCounts] = ()) -> dict[str, str]:
    """Return the content of each counter file, by the file's name.

    Counts are summed over ``wires``.
    """
    sums = {
        name: str(sum(int(getattr(counts, field)) for counts in wires))
        for name, field in _FIELDS.items()
    }
    return {**sums, "lifespan": str(int(REFRESH_SECONDS * 1000))}


class Shown:
    """Writes the counter files of a device, and remembers what it wrote last."""

    def __init__(self, device: Path) -> None:
        self._folder = device / FOLDER
        self._said: Mapping[str, str] = {}

    def write_changed(self, wires: Sequence[HcaWireCounts]) -> None:
        """Write the counter files whose content has changed. Raises OSError."""
        texts = counter_texts(wires)
        for name, text in texts.items():
            if text == self._said.get(name):
                continue
            fd = os.open(self._folder / name, os.O_WRONLY | os.O_NOFOLLOW)
            try:
                line = f"{text}\n".encode("ascii")
                os.write(fd, line)
                os.ftruncate(fd, len(line))
            finally:
                os.close(fd)
        self._said = texts
