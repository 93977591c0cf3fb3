"""The operations of hcad's administration socket by which the node agent manages functions and
pods.
"""

import ipaddress
import re
from typing import Any

from hca.binding.links import LINKS
from hca.daemon.common.functions import Binding, IpAddress
from hca.daemon.serving.pods import PodServer
from vgpu_sim.system.admin_socket.errors import InvalidRequest
from vgpu_sim.system.admin_socket.parameters import fields
from vgpu_sim.system.admin_socket.server import Operation
from vgpu_sim.system.peers import PodUid, is_pod_uid

MAX_TEXT = 512
MAX_ADDRESSES = 2  # status.podIPs: one of each family
_FUNCTION = re.compile(r"HCA-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_POD = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?(/[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?")


def operations(server: PodServer) -> dict[str, Operation]:
    """Return the operations of the administration socket, by name."""

    async def add(params: dict[str, Any]) -> dict[str, Any]:
        values = fields(params, {"function": str, "rate_gbps": int})
        link = LINKS.get(values["rate_gbps"])
        if link is None:
            raise InvalidRequest(f"rate_gbps must be one of {', '.join(map(str, LINKS))}")
        server.add(_function(values["function"]), link)
        return {}

    async def bind(params: dict[str, Any]) -> dict[str, Any]:
        kinds: dict[str, type] = {
            "function": str,
            "pod_uid": str,
            "pod": str,
            "addresses": list,
            "refused": str,
        }
        values = fields(params, kinds)
        await server.bind(_function(values["function"]), _binding(values))
        return {}

    async def release(params: dict[str, Any]) -> dict[str, Any]:
        await server.release(_function(fields(params, {"function": str})["function"]))
        return {}

    async def status(params: dict[str, Any]) -> dict[str, Any]:
        fields(params, {})
        return {"functions": server.status()}

    return {
        "function-add": add,
        "function-bind": bind,
        "function-release": release,
        "status": status,
    }


def _function(name: str) -> str:
    if not _FUNCTION.fullmatch(name):  # it becomes the name of a folder
        raise InvalidRequest("a function's name must be HCA- followed by a UUID")
    return name


def _binding(values: dict[str, Any]) -> Binding:
    if not is_pod_uid(values["pod_uid"]):
        raise InvalidRequest("'pod_uid' is not a pod's UID")
    if not _POD.fullmatch(values["pod"]):
        raise InvalidRequest("'pod' must have the form namespace/name")
    listed = values["addresses"]
    if len(listed) > MAX_ADDRESSES or len(values["refused"]) > MAX_TEXT:
        raise InvalidRequest(
            f"'addresses' must have at most {MAX_ADDRESSES} entries,"
            f" and 'refused' at most {MAX_TEXT} characters"
        )
    if not listed and not values["refused"]:
        raise InvalidRequest(
            "'addresses' is empty: 'refused' must state why the pod may not use the function"
        )
    return Binding(
        PodUid(values["pod_uid"]),
        values["pod"],
        tuple(_address(address) for address in listed),
        values["refused"],
    )


def _address(text: object) -> IpAddress:
    try:
        if not isinstance(text, str):
            raise ValueError("an address must be a string")
        return ipaddress.ip_address(text)
    except ValueError as err:
        raise InvalidRequest(f"not an IP address: {err}") from err
