"""gpud's state across restarts: GPUs, instances and the budget, in one JSON file.

The file is replaced as a whole: gpud writes and syncs a temporary file, renames it, and syncs
the directory. The file is read strictly. If it cannot be parsed or violates a rule of geometry,
gpud moves it aside and names it in the error, because instances may be in use and a typing
mistake must not remove them.
"""

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from facts.document import GpuFacts
from mig.errors import MigError
from mig.planner import rules
from vgpu_sim.gpud.errors import JournalError
from vgpu_sim.gpud.model import (
    ClaimShare,
    Gpu,
    InstanceUuid,
    MigInstance,
    check_owner,
    parse_gpu_uuid,
    parse_instance_uuid,
)
from vgpu_sim.hal.compute.address_map import MAX_GPUS
from vgpu_sim.records import dataclass
from vgpu_sim.system import durable

VERSION = 1
FILE_NAME = "gpud.json"
LOCK_NAME = "lock"
MAX_JOURNAL_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class NodeState:
    """The node's state as the journal stores it. ``budget_bytes`` 0 means the default."""

    gpus: tuple[Gpu, ...] = ()
    instances: tuple[MigInstance, ...] = ()
    budget_bytes: int = 0


def load(state_dir: Path) -> NodeState:
    """Read the journal; a missing file means an empty node.

    Raises:
        JournalError: the file is not a valid journal and has been moved aside.
    """
    path = state_dir / FILE_NAME
    try:
        with path.open("rb") as file:
            data = file.read(MAX_JOURNAL_BYTES + 1)
    except FileNotFoundError:
        return NodeState()
    try:
        if len(data) > MAX_JOURNAL_BYTES:
            raise ValueError(f"the file is longer than {MAX_JOURNAL_BYTES} bytes")
        return decode(json.loads(data))
    except (ValueError, KeyError, TypeError, RecursionError, MigError) as err:
        aside = _move_aside(path)
        raise JournalError(
            f"{path} is not a journal of version {VERSION} ({err}); moved to {aside}: repair it and"
            " move it back, or start again to begin with no GPUs"
        ) from err


def save(state_dir: Path, state: NodeState) -> None:
    """Replace the journal durably. Raises OSError; the old file is then intact."""
    durable.write_json(state_dir / FILE_NAME, encode(state))


def try_lock(state_dir: Path) -> bool:
    """Try to become the only gpud of a state directory until this process ends.

    Returns False if another gpud holds the lock. Raises OSError.
    """
    descriptor = os.open(state_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    return True  # the descriptor stays open: it is the lock


def encode(state: NodeState) -> dict[str, Any]:
    """Return the journal's JSON document."""
    return {
        "version": VERSION,
        "budget_bytes": state.budget_bytes,
        "gpus": [
            {"uuid": gpu.uuid, "index": gpu.index, "board": gpu.board_key, **gpu.facts.to_json()}
            for gpu in state.gpus
        ],
        "instances": [
            {
                "uuid": instance.uuid,
                "gpu_uuid": instance.gpu.uuid,
                "profile": instance.device_profile,
                "start": instance.start,
                "slot": instance.slot,
                "admit": instance.admit,
                **({} if instance.compute else {"compute": False}),
                **_compute_start(instance),
                **_made_for(instance),
            }
            for instance in state.instances
        ],
    }


def _compute_start(instance: MigInstance) -> dict[str, int]:
    """Return the journal's ``compute_start`` field for an instance. An instance of full width has
    no such field, so that older gpuds can read it.
    """
    return {} if instance.compute_start is None else {"compute_start": instance.compute_start}


def _made_for(instance: MigInstance) -> dict[str, Any]:
    """Return the journal's owner fields for an instance. A layout's instance has no such fields, so
    that an older gpud can read the file.
    """
    if instance.shares:
        return {"shares": [asdict(share) for share in instance.shares]}
    if not instance.owner:
        return {}
    return {"owner": instance.owner, "owner_name": instance.owner_name}


def decode(document: object) -> NodeState:
    """Rebuild the state from a JSON document.

    Raises:
        ValueError: the document has another shape, unknown or missing fields, or duplicate UUIDs.
        MigError: an unknown board or profile, or instances that conflict with each other.
    """
    root = _fields(document, {"version": int, "budget_bytes": int, "gpus": list, "instances": list})
    if root["version"] != VERSION:
        raise ValueError(f"expected version {VERSION}, found {root['version']}")
    if root["budget_bytes"] < 0:
        raise ValueError("budget_bytes must not be negative")
    gpus = tuple(_gpu(entry) for entry in root["gpus"])
    by_uuid: dict[str, Gpu] = {gpu.uuid: gpu for gpu in gpus}
    instances = tuple(_instance(entry, by_uuid) for entry in root["instances"])
    _unique("gpu uuid", [gpu.uuid for gpu in gpus])
    _unique("gpu index", [gpu.index for gpu in gpus])
    _unique("instance uuid", [instance.uuid for instance in instances])
    _unique("instance slot", [instance.slot for instance in instances])
    for gpu in gpus:
        rules.check(
            gpu.board,
            [instance.placed for instance in instances if instance.gpu == gpu],
        )
    return NodeState(gpus, instances, root["budget_bytes"])


def _gpu(entry: object) -> Gpu:
    if not isinstance(entry, dict):
        raise ValueError("expected an object")
    own_fields, facts = GpuFacts.split(entry)
    fields = _fields(own_fields, {"uuid": str, "index": int, "board": str})
    if not 0 <= fields["index"] < MAX_GPUS:
        raise ValueError(f"gpu index {fields['index']} must be below {MAX_GPUS}")
    uuid = parse_gpu_uuid(fields["uuid"])
    gpu = Gpu(uuid, fields["index"], fields["board"], facts)
    _ = gpu.board, gpu.place  # raise for an unknown one
    return gpu


def _instance(entry: object, gpus: Mapping[str, Gpu]) -> MigInstance:
    kinds = {
        "uuid": str,
        "gpu_uuid": str,
        "profile": str,
        "start": int,
        "slot": int,
        "admit": bool,
    }
    if isinstance(entry, dict) and "compute" in entry:  # omitted if true
        kinds["compute"] = bool
    if isinstance(entry, dict) and "compute_start" in entry:
        kinds["compute_start"] = int
    if isinstance(entry, dict) and "owner" in entry:
        kinds |= {"owner": str, "owner_name": str}
    if isinstance(entry, dict) and "shares" in entry:
        kinds["shares"] = list
    fields = _fields(entry, kinds)
    gpu = gpus.get(fields["gpu_uuid"])
    if gpu is None:
        raise ValueError(f"instance {fields['uuid']} names the unknown gpu {fields['gpu_uuid']}")
    if fields["slot"] < 0:
        raise ValueError("an instance's slot is negative")
    uuid = parse_instance_uuid(fields["uuid"])
    placed = gpu.board.instance(fields["profile"], fields["start"], fields.get("compute_start"))
    profile, compute = placed.profile, fields.get("compute", True)
    if not compute and placed.compute is not None:
        raise ValueError(
            f"instance {uuid} is placed as {placed.device}, but has no compute instance"
        )
    own = uuid == InstanceUuid(gpu.uuid) if profile.is_whole else uuid.startswith("MIG-")
    if not own:
        expected = "the GPU's" if profile.is_whole else "MIG-…"
        raise ValueError(
            f"instance {uuid} is {profile.name} of {gpu.uuid}: its uuid must be {expected}"
        )
    owner, owner_name = fields.get("owner", ""), fields.get("owner_name", "")
    check_owner(owner, owner_name)
    shares = tuple(_share(share) for share in fields.get("shares", ()))
    _unique("share owner", [share.owner for share in shares])
    if shares and (owner or not compute or placed.compute is not None):
        raise ValueError(
            f"instance {uuid} is shared by claims: it must have no owner, and one compute instance"
            " of full width"
        )
    if sum(share.memory_bytes for share in shares) > profile.memory_bytes:
        raise ValueError(f"instance {uuid} has less memory than the sum of its shares")
    return MigInstance(
        uuid=uuid,
        gpu=gpu,
        profile=profile,
        start=fields["start"],
        slot=fields["slot"],
        admit=fields["admit"],
        compute=compute,
        owner=owner,
        owner_name=owner_name,
        within=placed.compute,
        shares=shares,
    )


def _share(entry: object) -> ClaimShare:
    kinds = {"owner": str, "owner_name": str, "memory_bytes": int, "admit": bool}
    share = ClaimShare(**_fields(entry, kinds))
    check_owner(share.owner, share.owner_name)
    if not share.owner or share.memory_bytes <= 0:
        raise ValueError("a share must have an owner and more than 0 bytes of memory")
    return share


def _fields(value: object, kinds: Mapping[str, type]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("expected an object")
    if set(value) != set(kinds):
        raise ValueError(f"expected the fields {sorted(kinds)}, found {sorted(map(str, value))}")
    for name, kind in kinds.items():
        if type(value[name]) is not kind:
            raise ValueError(f"{name} is not {kind.__name__}")
    return value


def _unique(label: str, values: list[Any]) -> None:
    if len(set(values)) != len(values):
        raise ValueError(f"{label} is not unique")


def _move_aside(path: Path) -> Path:
    for number in range(1, 1000):
        aside = path.with_name(f"{path.name}.corrupt-{number}")
        if not aside.exists():
            path.rename(aside)
            return aside
    raise JournalError(f"{path}: too many corrupt journals beside it")
