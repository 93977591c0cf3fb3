"""ResourceClaims as the DRA driver reads them."""

import re
from collections.abc import Mapping
from typing import Any

from kubernetes.client.api_client import ApiClient
from kubernetes.dynamic.resource import Resource

from device_plugin.errors import ClusterError
from device_plugin.inventory.claims import ClaimRef
from device_plugin.kube.client import Kube
from gpu_operator.api import claim_devices as names
from gpu_operator.api.v1alpha1 import quantity
from vgpu_sim.records import dataclass

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}", re.ASCII)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Allocated:
    """One device that the scheduler has allocated to a claim (DeviceRequestAllocationResult).

    ``request`` is the request's name, without the name of the chosen alternative. ``share_id`` is
    set if several claims can have the device (consumable capacity); ``memory_bytes`` is then the
    part of the device's memory that this claim consumes.
    """

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool = False
    share_id: str = ""
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Config:
    """Opaque parameters for a driver, from the claim or its class.

    ``kind`` is the API kind that the parameters state, if any.
    """

    driver: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim, with its allocated devices and parameters for drivers.

    ``allocated`` is None while the scheduler has allocated nothing to the claim. ``pod_uids`` are
    the UIDs of the pods for which the claim is reserved: no other pod may use it.
    """

    ref: ClaimRef
    allocated: tuple[Allocated, ...] | None
    configs: tuple[Config, ...] = ()
    pod_uids: frozenset[str] = frozenset()


def is_name(namespace: str, name: str) -> bool:
    """Return whether a claim can have this namespace and name, which go into a request's path."""
    return bool(_NAMESPACE.fullmatch(namespace) and _NAME.fullmatch(name))


def read(document: Mapping[str, Any]) -> Claim:
    """Read a ResourceClaim.

    Raises:
        KeyError: a required field is missing.
        ValueError: a capacity is not a quantity of memory.
    """
    metadata = document["metadata"]
    status = document.get("status") or {}
    allocation = status.get("allocation")
    allocated: tuple[Allocated, ...] | None = None
    configs: tuple[Config, ...] = ()
    if allocation is not None:
        devices = allocation.get("devices") or {}
        allocated = tuple(_result(device_result) for device_result in devices.get("results") or ())
        configs = tuple(
            _config(device_config["opaque"]) for device_config in devices.get("config") or ()
        )
    ref = ClaimRef(metadata["namespace"], metadata["name"], metadata["uid"])
    consumers = status.get("reservedFor") or ()
    pod_uids = frozenset(
        consumer["uid"] for consumer in consumers if consumer["resource"] == "pods"
    )
    return Claim(ref, allocated, configs, pod_uids)


def _config(opaque: Mapping[str, Any]) -> Config:
    """Read parameters, which are user input; a kind that is not a valid name is left out.

    The kind appears in messages to the kubelet and in logs, which cannot hold every JSON string.
    """
    parameters = opaque.get("parameters")
    kind = parameters.get("kind") if isinstance(parameters, dict) else None
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        kind = ""
    return Config(opaque["driver"], kind)


def _result(device_result: Mapping[str, Any]) -> Allocated:
    consumed = (device_result.get("consumedCapacity") or {}).get(names.MEMORY)
    return Allocated(
        request=device_result["request"].partition("/")[0],
        driver=device_result["driver"],
        pool=device_result["pool"],
        device=device_result["device"],
        admin_access=bool(device_result.get("adminAccess")),
        share_id=device_result.get("shareID") or "",
        memory_bytes=quantity.parse_api_quantity(consumed) if isinstance(consumed, str) else 0,
    )


class ClaimsKube(Kube):
    """Reads claims by name from the API server, for the DRA driver."""

    def __init__(self, node_name: str, client: ApiClient | None = None) -> None:
        """Initialize as ``Kube`` does."""
        super().__init__(node_name, client)
        self._claims = Resource(
            prefix="apis",
            group="resource.k8s.io",
            api_version="v1",
            kind="ResourceClaim",
            name="resourceclaims",
            client=self._client,
            namespaced=True,
        )

    def claim(self, namespace: str, name: str) -> Claim | None:
        """Return a claim; None if there is no claim with that name.

        Raises:
            ClusterError: the API server did not answer.
        """
        if not is_name(namespace, name):
            raise ClusterError(f"not a claim's name: {namespace[:70]!r}/{name[:260]!r}")
        try:
            document = self._sent(self._client.get, self._claims, name=name, namespace=namespace)
            return read(document)
        except KeyError as err:
            raise ClusterError(f"claim {namespace}/{name} has no {err}") from err
        except ValueError as err:
            raise ClusterError(f"claim {namespace}/{name}: {err}") from err
        except ClusterError as err:
            if err.status != 404:
                raise
            return None
