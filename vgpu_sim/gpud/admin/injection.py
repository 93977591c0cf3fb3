"""Strict parsing of requests that inject and clear faults."""

import re
import uuid
from typing import Any, Final

from vgpu_sim.gpud.faults.classes import XIDS, Scope, known_xids
from vgpu_sim.gpud.faults.injection import LASTING, OF_GPUS, Injection, Kind
from vgpu_sim.system.admin_socket.errors import InvalidRequest
from vgpu_sim.system.admin_socket.parameters import fields

MAX_COUNT: Final = 1000
MAX_DURATION_MS: Final = 7 * 24 * 3600 * 1000
_ID = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?", re.ASCII)


def parse(params: dict[str, Any]) -> Injection:
    """Parse the parameters of an ``inject_fault`` request. A fault with an empty ``id`` gets a
    random one.

    Raises:
        InvalidRequest: a parameter is invalid, for example an unknown Xid, a GPU-wide Xid for a
            single instance, or a number out of range; the message names it.
    """
    kinds = {
        "id": str,
        "gpu_uuid": str,
        "instance": str,
        "kind": str,
        "xid": int,
        "count": int,
        "duration_ms": int,
    }
    values = fields(params, kinds)
    if values["id"] and not _ID.fullmatch(values["id"]):
        raise InvalidRequest("'id' must be 1 to 63 letters, digits and dashes")
    if values["kind"] not in set(Kind):
        raise InvalidRequest(f"kind {values['kind']!r} is not one of {', '.join(Kind)}")
    kind, xid, instance = Kind(values["kind"]), values["xid"], values["instance"]
    if (kind is Kind.XID) != (xid != 0):
        raise InvalidRequest("'xid' must be set for the kind 'xid', and 0 for other kinds")
    if xid and xid not in XIDS:
        raise InvalidRequest(f"unknown Xid {xid}; known: {known_xids()}")
    whole = kind in OF_GPUS or (xid != 0 and XIDS[xid].scope is Scope.GPU)
    if whole and instance:
        subject = f"Xid {xid}" if xid else kind.value
        raise InvalidRequest(f"{subject} concerns a whole GPU: 'instance' must be empty")
    if not 1 <= values["count"] <= MAX_COUNT or (kind in LASTING and values["count"] != 1):
        raise InvalidRequest(f"'count' must be 1 to {MAX_COUNT}, and 1 for a lasting fault")
    if not 0 <= values["duration_ms"] <= MAX_DURATION_MS:
        raise InvalidRequest(f"duration_ms must be 0 to {MAX_DURATION_MS}")
    if values["duration_ms"] and kind not in LASTING:
        raise InvalidRequest(f"{kind} ends at once: 'duration_ms' must be 0")
    return Injection(
        values["id"] or str(uuid.uuid4()),
        values["gpu_uuid"],
        instance,
        kind,
        xid,
        values["count"],
        values["duration_ms"],
    )
