"""Reads and writes the API objects for RDMA tables: RDMANodeTables, its status, a heartbeat."""

import datetime
from collections.abc import Iterator
from typing import Any

from kubernetes.client.api_client import ApiClient
from kubernetes.dynamic.resource import Resource
from kubernetes.watch import Watch

from device_plugin.errors import ClusterError
from device_plugin.kube.client import FIELD_MANAGER, Kube, convert_to_cluster_errors
from gpu_operator.api.v1alpha1 import rdma
from gpu_operator.api.v1alpha1.rdma.packing import Encoding
from gpu_operator.api.v1alpha1.rdma.tables import RDMANodeTablesStatus
from vgpu_sim.records import dataclass

KIND = "RDMANodeTables"
LEASE_S = 10  # the period that the operator expects
_WATCH_TIMEOUT_S = 60  # a dead connection is detected after this time
_CONNECT_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Tables:
    """RDMA tables as the operator wrote them.

    ``owners`` are the owner references of the API object that contains the tables.
    """

    uid: str
    generation: int
    text: str
    owners: tuple[dict[str, Any], ...] = ()
    encoding: str = Encoding.PLAIN.value


class TablesKube(Kube):
    """Reads tables and writes their status. Every method raises ClusterError."""

    def __init__(self, node_name: str, namespace: str, client: ApiClient | None = None) -> None:
        """Initialize; heartbeats are written in ``namespace``.

        Raises ClusterError as ``Kube`` does.
        """
        super().__init__(node_name, client)
        self._namespace = namespace
        self._tables = Resource(
            prefix="apis",
            group=rdma.GROUP,
            api_version=rdma.VERSION,
            kind=KIND,
            name="rdmanodetables",
            client=self._client,
            subresources={"status": {"kind": KIND, "name": "rdmanodetables/status"}},
        )
        self._leases = Resource(
            prefix="apis",
            group="coordination.k8s.io",
            api_version="v1",
            kind="Lease",
            name="leases",
            namespaced=True,
            client=self._client,
        )

    def tables(self) -> Iterator[Tables | None]:
        """Yield this node's tables now and after each change, until the watch ends.

        None means that the object with the tables was deleted. Each watch begins with the
        existing object.
        """
        with convert_to_cluster_errors():
            for event in Watch().stream(
                self._tables.get,
                field_selector=f"metadata.name={self._node}",
                timeout_seconds=_WATCH_TIMEOUT_S,
                serialize=False,
                _request_timeout=(_CONNECT_TIMEOUT_S, _WATCH_TIMEOUT_S + 10.0),
            ):
                document = event["raw_object"]
                yield None if event["type"] == "DELETED" else _read(document)

    def acknowledge(self, uid: str, status: RDMANodeTablesStatus) -> bool:
        """Write the enforced state to the tables' status.

        Return False if the object no longer has this UID.
        """
        document = {
            "apiVersion": rdma.API_VERSION,
            "kind": KIND,
            "metadata": {"name": self._node, "uid": uid},
            "status": status.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
        try:
            self._write(
                self._client.server_side_apply,
                self._tables.subresources["status"],
                document,
                field_manager=FIELD_MANAGER,
                force_conflicts=True,
            )
        except ClusterError as err:
            if err.status not in (404, 409):
                raise
            return False
        return True

    def renew_lease(self, owners: tuple[dict[str, Any], ...]) -> None:
        """Renew the Lease that shows that this node's agent and hcad are alive."""
        renew_time = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
        document = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": rdma.LEASE_PREFIX + self._node,
                "namespace": self._namespace,
                "labels": {rdma.LEASE_LABEL: self._node},
                "ownerReferences": list(owners),
            },
            "spec": {
                "holderIdentity": self._node,
                "leaseDurationSeconds": LEASE_S,
                "renewTime": renew_time.replace("+00:00", "Z"),
            },
        }
        self._write(
            self._client.server_side_apply,
            self._leases,
            document,
            field_manager=FIELD_MANAGER,
            force_conflicts=True,
        )


def _read(document: dict[str, Any]) -> Tables:
    metadata, spec = document["metadata"], document.get("spec") or {}
    owners = tuple(metadata.get("ownerReferences") or ())
    encoding = str(spec.get("encoding") or Encoding.PLAIN.value)
    return Tables(metadata["uid"], int(spec["generation"]), str(spec["tables"]), owners, encoding)
