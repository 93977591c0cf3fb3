"""The ResourceSlices of this node (resource.k8s.io/v1): listed, watched, applied, deleted."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from kubernetes.client.api_client import ApiClient
from kubernetes.dynamic.resource import Resource

from device_plugin.errors import ClusterError
from device_plugin.kube.client import FIELD_MANAGER, Kube

_WATCH_S: Final = 600  # at least; up to twice as long


class SliceKube(Kube):
    """Reads and writes ResourceSlices. Every method raises ClusterError."""

    def __init__(self, node_name: str, driver: str, client: ApiClient | None = None) -> None:
        """Handle the slices of one driver on one node only.

        Raises ClusterError as ``Kube`` does.
        """
        super().__init__(node_name, client)
        self._selector = f"spec.nodeName={node_name},spec.driver={driver}"
        self._slices = Resource(
            prefix="apis",
            group="resource.k8s.io",
            api_version="v1",
            kind="ResourceSlice",
            name="resourceslices",
            client=self._client,
        )

    def list(self) -> tuple[list[dict[str, Any]], str]:
        """Return the slices as the API server sent them, and the version of the list."""
        answer = self._sent(self._client.get, self._slices, field_selector=self._selector)
        version = (answer.get("metadata") or {}).get("resourceVersion") or ""
        return list(answer.get("items") or ()), str(version)

    def watch(self, version: str, accepted: Callable[[], None]) -> Iterator[dict[str, Any]]:
        """Watch for changes of the slices since the version ``version`` of their list.

        Yield events (``type``, ``object``) until the watch ends. ``accepted`` is called when the
        API server has accepted the watch.
        """
        return self._watch(self._slices, _WATCH_S, version, accepted, field_selector=self._selector)

    def apply(self, document: dict[str, Any]) -> dict[str, Any]:
        """Apply a slice's document; return the slice as the API server has it."""
        return self._write(
            self._client.server_side_apply,
            self._slices,
            document,
            field_manager=FIELD_MANAGER,
            force_conflicts=True,
        )

    def delete(self, name: str) -> None:
        """Delete a slice; a slice that does not exist is not an error."""
        try:
            self._sent(self._client.delete, self._slices, name=name)
        except ClusterError as err:
            if err.status != 404:
                raise
