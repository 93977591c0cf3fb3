"""Strict parsing of administration requests' parameters."""

import re
from typing import Any

from facts.document import GpuFacts
from mig.errors import UnknownBoardError
from mig.geometry import board
from vgpu_sim.gpud.limits.sharing import MAX_REPLICAS, Kind, Sharing
from vgpu_sim.gpud.model import (
    Gpu,
    GpuUuid,
    Holder,
    InstanceUuid,
    check_owner,
    is_owner,
    parse_gpu_uuid,
    parse_instance_uuid,
)
from vgpu_sim.system.admin_socket.errors import InvalidRequest
from vgpu_sim.system.admin_socket.parameters import fields
from vgpu_sim.system.peers import PodUid, is_pod_uid

MAX_HOLDERS = 1024  # per instance: more than the pods that a kubelet runs
MAX_CLAIMS = 256  # per holder of an instance: more than can share it
MAX_BUDGET_BYTES = 1 << 50
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)


def gpus(entries: list[Any]) -> list[Gpu]:
    """Parse the GPUs in the parameters of a ``configure`` request. Raises InvalidRequest."""
    return [_gpu(entry) for entry in entries]


def budget_bytes(value: int) -> int:
    """Validate a memory budget in bytes; 0 selects the default. Raises InvalidRequest."""
    if not 0 <= value <= MAX_BUDGET_BYTES:
        raise InvalidRequest(f"budget_bytes must be 0 to {MAX_BUDGET_BYTES}")
    return value


def instance_uuid(text: object) -> InstanceUuid:
    """Parse an instance's UUID. Raises InvalidRequest."""
    try:
        return parse_instance_uuid(text)
    except ValueError as err:
        raise InvalidRequest(str(err)) from err


def compute_start(params: dict[str, Any]) -> int | None:
    """Parse ``compute_start``: the number of the first compute slice of an instance that is
    narrower than its GPU instance. Return None if the parameter is absent.

    Raises:
        InvalidRequest: the parameter is not an integer.
    """
    start = params.get("compute_start")
    if start is not None and type(start) is not int:
        raise InvalidRequest("compute_start is not an integer")
    return start


def new_instance(params: dict[str, Any]) -> dict[str, Any]:
    """Parse the parameters of a ``create_instance`` request, as arguments of
    ``Inventory.create_instance``.

    Raises:
        InvalidRequest: a parameter is missing, unknown or invalid.
    """
    optional = ("owner", "owner_name", "compute_start", "memory_bytes")
    required_params = {name: value for name, value in params.items() if name not in optional}
    values = fields(required_params, {"gpu_uuid": str, "profile": str, "start": int})
    owner, owner_name = parse_owner(params)
    memory_bytes = params.get("memory_bytes")
    if memory_bytes is not None and type(memory_bytes) is not int:
        raise InvalidRequest("memory_bytes is not an integer")
    return {
        "gpu_uuid": GpuUuid(values["gpu_uuid"]),
        "profile_name": values["profile"],
        "start": values["start"],
        "owner": owner,
        "owner_name": owner_name,
        "compute_start": compute_start(params),
        "memory_bytes": memory_bytes,
    }


def parse_owner(params: dict[str, Any]) -> tuple[str, str]:
    """Parse an instance's owner and the owner's name; both are empty if absent.

    Raises:
        InvalidRequest: the values are not the UID and the name of a claim.
    """
    owner, name = params.get("owner", ""), params.get("owner_name", "")
    if not isinstance(owner, str) or not isinstance(name, str):
        raise InvalidRequest("'owner' and 'owner_name' must be strings")
    try:
        check_owner(owner, name)
    except ValueError as err:
        raise InvalidRequest(str(err)) from err
    return owner, name


def holders(document: dict[str, Any]) -> dict[InstanceUuid, list[Holder]]:
    """Parse the holders of each instance in a ``set_holders`` request. Raises InvalidRequest."""
    result = {}
    for uuid, entries in document.items():
        if not isinstance(entries, list) or len(entries) > MAX_HOLDERS:
            raise InvalidRequest(f"holders of {uuid!r} must be a list of at most {MAX_HOLDERS}")
        result[instance_uuid(uuid)] = [_holder(entry) for entry in entries]
    return result


def shares(document: dict[str, Any]) -> dict[InstanceUuid, Sharing]:
    """Parse a ``set_sharing`` request, which says how each instance is shared. Raises
    InvalidRequest.
    """
    result = {}
    for uuid, entry in document.items():
        if not isinstance(entry, dict):
            raise InvalidRequest("a share must be an object with 'kind' and 'replicas'")
        values = fields(entry, {"kind": str, "replicas": int})
        if values["kind"] not in set(Kind):
            raise InvalidRequest(f"kind {values['kind']!r} is not one of {', '.join(Kind)}")
        if not 2 <= values["replicas"] <= MAX_REPLICAS:
            raise InvalidRequest(f"'replicas' must be 2 to {MAX_REPLICAS}")
        result[instance_uuid(uuid)] = Sharing(Kind(values["kind"]), values["replicas"])
    return result


def _gpu(entry: object) -> Gpu:
    if not isinstance(entry, dict):
        raise InvalidRequest(
            "a gpu must be an object with 'uuid', 'index', 'board' and optionally 'facts'"
        )
    try:
        own_fields, facts = GpuFacts.split(entry)
        values = fields(own_fields, {"uuid": str, "index": int, "board": str})
        board(values["board"])
        uuid = parse_gpu_uuid(values["uuid"])
        return Gpu(uuid, values["index"], values["board"], facts)
    except (ValueError, UnknownBoardError) as err:
        raise InvalidRequest(str(err)) from err


def _holder(entry: object) -> Holder:
    if not isinstance(entry, dict):
        raise InvalidRequest("a holder must be an object with 'pod_uid', 'namespace' and 'name'")
    kinds: dict[str, type] = dict.fromkeys(("pod_uid", "namespace", "name", "container"), str)
    values = fields({"container": "", "claims": [], **entry}, kinds | {"claims": list})
    if not is_pod_uid(values["pod_uid"]):
        raise InvalidRequest("pod_uid is not a pod's UID")
    for name in ("namespace", "name"):
        if not _NAME.fullmatch(values[name]):
            raise InvalidRequest(f"a holder's {name} is not a Kubernetes name")
    container = values["container"]
    if container and not _NAME.fullmatch(container):
        raise InvalidRequest("a holder's container is not a Kubernetes name")
    claims = tuple(values["claims"])
    if len(claims) > MAX_CLAIMS or not all(
        isinstance(c, str) and c and is_owner(c) for c in claims
    ):
        raise InvalidRequest(
            f"a holder's claims must be at most {MAX_CLAIMS} strings of the form claim:<uid>"
        )
    pod_uid = PodUid(values["pod_uid"])
    return Holder(pod_uid, values["namespace"], values["name"], container, claims)
