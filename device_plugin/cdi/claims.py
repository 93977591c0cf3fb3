"""What containers get with a ResourceClaim: a CDI file for each claim that is prepared.

A device of it is named after the claim and the slice's UUID, so that the kubelet's pod resources,
which list the names, tell which pod has which slice, and no two files name the same device.
"""

import json
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from device_plugin.cdi import spec, writer
from device_plugin.cdi.spec import Mount
from device_plugin.inventory.claims import KIND, ClaimRef, device_name, is_claim_uid
from device_plugin.inventory.model import MigSlice

_PREFIX = "tessera-claim-"
_log = logging.getLogger(__name__)


def file_name(claim_uid: str) -> str:
    """Return the name of a claim's CDI file."""
    return f"{_PREFIX}{claim_uid}.json"


def write(
    directory: Path,
    claim: ClaimRef,
    slices: Iterable[MigSlice],
    libraries_dir: str,
    programs: Iterable[Mount] = (),
) -> None:
    """Write a claim's file; without a slice there is none. Raises OSError."""
    devices = {device_name(claim.uid, s.uuid): (spec.slice_mount(s),) for s in slices}
    document = spec.document(KIND, (*spec.library_mounts(libraries_dir), *programs), devices)
    document["annotations"] = {KIND: str(claim)}
    writer.write(directory, document, file_name(claim.uid))


def written(directory: Path) -> Iterator[ClaimRef]:
    """Yield the claims that have a file; one that cannot be read is nobody's."""
    for path in directory.glob(file_name("*")):
        uid = path.name.removeprefix(_PREFIX).removesuffix(".json")
        try:
            name = str(json.loads(path.read_text(encoding="utf-8"))["annotations"][KIND])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if is_claim_uid(uid):
            namespace, _, name = name.partition("/")
            yield ClaimRef(namespace, name, uid)


def remove(directory: Path, claim_uid: str) -> None:
    """Remove a claim's file if there is one. Raises OSError."""
    (directory / file_name(claim_uid)).unlink(missing_ok=True)


def refresh(directory: Path, libraries_dir: str, programs: Iterable[Mount] = ()) -> None:
    """Have all claims' files name the libraries of this build: those of another may be removed.

    Raises:
        OSError: one cannot be written.
    """
    edits = spec.document(KIND, (*spec.library_mounts(libraries_dir), *programs), {})
    for path in sorted(directory.glob(file_name("*"))):
        try:
            document: Any = json.loads(path.read_text(encoding="utf-8"))
            document["containerEdits"] = edits["containerEdits"]
            writer.write(directory, document, path.name)
        except (ValueError, KeyError, TypeError) as err:  # not ours, or cut short by a crash
            _log.warning("%s is no CDI file of a claim: %s", path, err)
