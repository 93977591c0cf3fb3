"""Writes the node's CDI files: one a kind, replaced atomically, rewritten at every start.

The directory is a tmpfs on most nodes, so a node restart loses it; two files that name the same
device would make it unresolvable, so there is only ever one of a kind.
"""

import json
import os
from pathlib import Path
from typing import Any

FILE_NAME = "tessera.json"


def write(directory: Path, document: dict[str, Any], name: str = FILE_NAME) -> bool:
    """Replace a CDI file if it differs; return whether it did. Without a device there is no file.

    Raises:
        OSError: when the directory cannot be written.
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
