"""Writes the node's CDI files: one per kind, replaced atomically, rewritten at every start.

The directory is a tmpfs on most nodes, so a node restart loses the files. If two files named the
same device, it could not be resolved, so there is only ever one file per kind.
"""

import json
import os
from pathlib import Path
from typing import Any

FILE_NAME = "tessera.json"


def write(directory: Path, document: dict[str, Any], name: str = FILE_NAME) -> bool:
    """Replace a CDI file if its content differs; return whether it did.

    A file without devices is deleted.

    Raises:
        OSError: the directory cannot be written.
    """
    path = directory / name
    if not document["devices"]:
        path.unlink(missing_ok=True)
        return True
    directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, indent=2, sort_keys=True)
    try:
        if path.read_text(encoding="utf-8") == text:
            return False
    except OSError:
        pass
    temporary = directory / f"{name}.tmp"
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
    return True
