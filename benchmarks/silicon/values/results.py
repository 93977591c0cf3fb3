"""The archive of results: a report of each case, and the outputs that it contains."""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read(archive: Path) -> Iterator[tuple[dict[str, Any], list[bytes]]]:
    """Return each report, and the outputs whose contents were kept, in the report's order."""
    with tarfile.open(archive) as file:
        for member in file:
            stream = file.extractfile(member)
            if stream is None:
                continue
            for line in iter(stream.readline, b""):
                report = json.loads(line)
                yield report, [stream.read(size) for size in report["kept"]]
