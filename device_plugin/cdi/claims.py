"""A CDI file for each prepared ResourceClaim: the mounts that its containers get.

Each device is named after the claim and the slice's UUID. So no two files name the same device,
and the kubelet's pod resources, which list these names, show which pod has which slice.
"""

import json
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from device_plugin.cdi import spec, writer
from device_plugin.cdi.spec import Mount
from device_plugin.inventory.claims import KIND, ClaimRef, device_name, is_claim_uid, slice_of
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
    """Write a claim's CDI file; without slices, write none. Raises OSError."""
    devices = {device_name(claim.uid, s.uuid): (spec.slice_mount(s),) for s in slices}
    document = spec.document(KIND, (*spec.library_mounts(libraries_dir), *programs), devices)
    document["annotations"] = {KIND: str(claim)}
    writer.write(directory, document, file_name(claim.uid))


def list_claims(directory: Path) -> Iterator[ClaimRef]:
    """Yield the claims that have a CDI file; skip files that cannot be read."""
    return (claim for claim, _ in list_slices(directory))


def list_slices(directory: Path) -> Iterator[tuple[ClaimRef, frozenset[str]]]:
    """Yield the claims that have a CDI file, each with the UUIDs of its slices.

    Files that cannot be read are skipped.
    """
    for path in directory.glob(file_name("*")):
        uid = path.name.removeprefix(_PREFIX).removesuffix(".json")
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            name = str(document["annotations"][KIND])
            devices = [f"{KIND}={device['name']}" for device in document["devices"]]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if is_claim_uid(uid):
            namespace, _, name = name.partition("/")
            slices = frozenset(
                slice_uuid for device_name in devices if (slice_uuid := slice_of(device_name))
            )
            yield ClaimRef(namespace, name, uid), slices


def remove(directory: Path, claim_uid: str) -> None:
    """Remove a claim's CDI file if there is one. Raises OSError."""
    (directory / file_name(claim_uid)).unlink(missing_ok=True)


def refresh(directory: Path, libraries_dir: str, programs: Iterable[Mount] = ()) -> None:
    """Rewrite the CDI files of all claims to mount the libraries of this build.

    Raises:
        OSError: a file cannot be written.
    """
    edits = spec.document(KIND, (*spec.library_mounts(libraries_dir), *programs), {})
    for path in sorted(directory.glob(file_name("*"))):
        try:
            document: Any = json.loads(path.read_text(encoding="utf-8"))
            document["containerEdits"] = edits["containerEdits"]
            writer.write(directory, document, path.name)
        except (
            ValueError,
            KeyError,
            TypeError,
        ) as err:  # not a claim's file, or incomplete after a crash
            _log.warning("%s is not a CDI file of a claim: %s", path, err)
