"""Reads the parameters of administration requests, strictly."""

import re
from typing import Any

from mig.errors import UnknownBoardError
from mig.geometry import board
from vgpu_sim.gpud.errors import InvalidRequest
from vgpu_sim.gpud.model import (
    Gpu,
    Holder,
    InstanceUuid,
    parse_gpu_uuid,
    parse_instance_uuid,
)
from vgpu_sim.system.peers import PodUid, is_pod_uid

MAX_HOLDERS = 64  # of one instance; a force delete makes two for a few seconds
MAX_BUDGET_BYTES = 1 << 50
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)


def fields(params: dict[str, Any], kinds: dict[str, type]) -> dict[str, Any]:
    """Return the parameters when just these are there, of these types.

    Raises:
        InvalidRequest: otherwise.
    """
    missing, unknown = set(kinds) - set(params), set(params) - set(kinds)
    if missing or unknown:
        raise InvalidRequest(
            f"parameters {sorted(kinds)}: missing {sorted(missing)}, unknown {sorted(unknown)}"
        )
    for name, value in params.items():
        if type(value) is not kinds[name]:
            raise InvalidRequest(f"{name} is not {kinds[name].__name__}")
    return params


def gpus(entries: list[Any]) -> list[Gpu]:
    """Read the GPUs of ``configure``. Raises InvalidRequest."""
    return [_gpu(entry) for entry in entries]


def budget_bytes(value: int) -> int:
    """Check a budget; 0 is the default's. Raises InvalidRequest."""
    if not 0 <= value <= MAX_BUDGET_BYTES:
        raise InvalidRequest("budget_bytes is out of range")
    return value


def instance_uuid(text: object) -> InstanceUuid:
    """Read an instance's UUID. Raises InvalidRequest."""
    try:
        return parse_instance_uuid(text)
    except ValueError as err:
        raise InvalidRequest(str(err)) from err


def holders(document: dict[str, Any]) -> dict[InstanceUuid, list[Holder]]:
    """Read the holders of ``set_holders``. Raises InvalidRequest."""
    result = {}
    for uuid, entries in document.items():
        if not isinstance(entries, list) or len(entries) > MAX_HOLDERS:
            raise InvalidRequest(f"holders of {uuid!r} are a list of at most {MAX_HOLDERS}")
        result[instance_uuid(uuid)] = [_holder(entry) for entry in entries]
    return result


def _gpu(entry: object) -> Gpu:
    if not isinstance(entry, dict):
        raise InvalidRequest("a gpu is {uuid, index, board}")
    values = fields(entry, {"uuid": str, "index": int, "board": str})
    try:
        board(values["board"])
        return Gpu(parse_gpu_uuid(values["uuid"]), values["index"], values["board"])
    except (ValueError, UnknownBoardError) as err:
        raise InvalidRequest(str(err)) from err


def _holder(entry: object) -> Holder:
    if not isinstance(entry, dict):
        raise InvalidRequest("a holder is {pod_uid, namespace, name}")
    values = fields(entry, {"pod_uid": str, "namespace": str, "name": str})
    if not is_pod_uid(values["pod_uid"]):
        raise InvalidRequest("pod_uid is not a pod's UID")
    for name in ("namespace", "name"):
        if not _NAME.fullmatch(values[name]):
            raise InvalidRequest(f"a holder's {name} is not a Kubernetes name")
    return Holder(PodUid(values["pod_uid"]), values["namespace"], values["name"])
