"""Persistent log of a node's Xids: one JSON line each, in a file next to the journal.

Programs cause Xids, so writing one must be cheap: lines are appended without fsync. No line is
lost when gpud ends; a power failure may lose the last lines. When the file has grown to several
times the size of the Xids that gpud remembers, a file with only those replaces it.
"""

import json
import logging
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Final

from vgpu_sim.gpud.model import GpuUuid, parse_gpu_uuid
from vgpu_sim.hal.management import admin

FILE_NAME: Final = "xids.jsonl"
MAX_LINES: Final = 4096
_MAX_FILE_BYTES: Final = 8 << 20

logger = logging.getLogger("tessera.gpud")
Entry = tuple[GpuUuid, admin.Xid]


class XidLog:
    """The log of Xids, for use on gpud's event loop only. A failure to write is logged once."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / FILE_NAME
        self._lines = 0
        self._failed = False

    def load(self) -> list[Entry]:
        """Return the recorded Xids, oldest first; invalid lines are skipped."""
        try:
            with self._path.open("rb") as file:
                lines = file.read(_MAX_FILE_BYTES).splitlines()
        except OSError:
            return []
        self._lines = len(lines)
        entries = []
        for line in lines:
            try:
                entries.append(_decode(line))
            except (ValueError, TypeError, KeyError, RecursionError):
                logger.warning("xid_unreadable file=%s", self._path)
        return entries

    def append(self, gpu: GpuUuid, xid: admin.Xid, remembered: Iterable[Entry]) -> None:
        """Append an Xid to the log; ``remembered`` are all recorded Xids, including this one."""
        try:
            if self._lines >= MAX_LINES:
                self._replace(list(remembered))
                return
            with self._path.open("a", encoding="ascii") as file:
                file.write(_encode((gpu, xid)))
            self._lines += 1
        except OSError as err:
            if not self._failed:
                logger.error("xids_not_written error=%s", err)  # noqa: TRY400
            self._failed = True

    def _replace(self, entries: list[Entry]) -> None:
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text("".join(map(_encode, entries)), encoding="ascii")
        temporary.rename(self._path)
        self._lines = len(entries)


def _encode(entry: Entry) -> str:
    gpu, xid = entry
    return json.dumps({"gpu": gpu, **asdict(xid)}, separators=(",", ":")) + "\n"


def _decode(line: bytes) -> Entry:
    row = json.loads(line)
    gpu = parse_gpu_uuid(row.pop("gpu"))
    xid = admin.Xid(**row)
    texts, numbers = (xid.instance, xid.message), (xid.sequence, xid.xid, xid.time_ns, xid.pid)
    if not all(type(field) is str for field in texts) or not all(
        type(field) is int for field in numbers
    ):
        raise TypeError("a field has the wrong type")
    return gpu, xid
