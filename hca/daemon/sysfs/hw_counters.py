"""The counters below ``ports/1/hw_counters`` of a device, by the names that mlx5 has for them.

Files cannot be made when they are read, so they are written when what they say has changed, at most
every ``REFRESH_SECONDS``: ``lifespan`` says so, as it does of hardware.
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


def texts(wires: Sequence[HcaWireCounts] = ()) -> dict[str, str]:
    """Return files and what they say of some wires together."""
    sums = {
        name: str(sum(int(getattr(counts, field)) for counts in wires))
        for name, field in _FIELDS.items()
    }
    return {**sums, "lifespan": str(int(REFRESH_SECONDS * 1000))}


class Shown:
    """What the files of a device say."""

    def __init__(self, device: Path) -> None:
        self._folder = device / FOLDER
        self._said: Mapping[str, str] = {}

    def show(self, wires: Sequence[HcaWireCounts]) -> None:
        """Write what has changed; who reads meanwhile sees the one or the other. Raises OSError."""
        said = texts(wires)
        for name, text in said.items():
            if text == self._said.get(name):
                continue
            fd = os.open(self._folder / name, os.O_WRONLY | os.O_NOFOLLOW)
            try:
                line = f"{text}\n".encode("ascii")
                os.write(fd, line)
                os.ftruncate(fd, len(line))
            finally:
                os.close(fd)
        self._said = said
