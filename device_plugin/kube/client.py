"""A narrow client: GPU objects of one node, their status, events. Nothing else is permitted."""

import contextlib
import datetime
import hashlib
import logging
from collections.abc import Iterator
from typing import Any, cast

import httpx2  # lightkube's transport; its errors are not lightkube's own
from lightkube import Client
from lightkube.core.exceptions import ApiError, ConfigError
from lightkube.generic_resource import create_global_resource
from lightkube.models.core_v1 import EventSource, ObjectReference
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Event

from device_plugin.errors import ClusterError
from device_plugin.inventory.model import HolderPod
from device_plugin.kube.gpu_object import GpuObject, read
from gpu_operator.api.v1alpha1 import GROUP, NODE_LABEL, VERSION
from gpu_operator.api.v1alpha1.gpu import GPUStatus

FIELD_MANAGER = "tessera-node-agent"
_WATCH_TIMEOUT_S = 240
_GPU: Any = create_global_resource(GROUP, VERSION, "GPU", "gpus")
_log = logging.getLogger(__name__)


@contextlib.contextmanager
def _cluster_errors() -> Iterator[None]:
    try:
        yield
    except (ApiError, httpx2.HTTPError) as err:
        raise ClusterError(f"API server: {err}") from err


class Kube:
    """Talks to the API server with the pod's service account."""

    def __init__(self, node_name: str, client: Client | None = None) -> None:
        """Use the pod's service account, or ``client``.

        Raises:
            ClusterError: there is neither a service account nor a kubeconfig.
        """
        self._node = node_name
        try:
            self._client = client or Client(field_manager=FIELD_MANAGER)
        except ConfigError as err:
            raise ClusterError(f"no way to the API server: {err}") from err

    def gpus(self) -> list[GpuObject]:
        """Return the GPU objects of this node, by name.

        Raises:
            ClusterError: the API server did not answer. So do all methods of this class.
        """
        with _cluster_errors():
            listed = list(self._client.list(_GPU, labels={NODE_LABEL: self._node}))
        return sorted((read(raw.to_dict()) for raw in listed), key=lambda gpu: gpu.name)

    def changes(self) -> Iterator[None]:
        """Yield once for every change of this node's GPU objects; ends when the watch does."""
        with _cluster_errors():
            for _ in self._client.watch(
                _GPU, labels={NODE_LABEL: self._node}, server_timeout=_WATCH_TIMEOUT_S
            ):
                yield None

    def apply_status(self, name: str, status: GPUStatus) -> None:
        """Write a GPU's status by server-side apply; a GPU deleted meanwhile is not an error."""
        document = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        resource = _GPU.Status(
            apiVersion=f"{GROUP}/{VERSION}",
            kind="GPU",
            metadata=ObjectMeta(name=name),
            status=document,
        )
        with _cluster_errors():
            try:
                self._client.apply(resource, name, field_manager=FIELD_MANAGER, force=True)
            except ApiError as err:
                if err.status.code != 404:
                    raise
                _log.info("gpu %s is gone", name)

    def pod_event(self, pod: HolderPod, reason: str, message: str, warning: bool = True) -> None:
        """Put an event on a user's own pod; repeated ones are counted, not multiplied."""
        key = hashlib.blake2s(f"{pod.uid}/{reason}/{message}".encode(), digest_size=8).hexdigest()
        name = f"{pod.name[:180]}.{key}"
        now = datetime.datetime.now(datetime.UTC)
        event = Event(
            metadata=ObjectMeta(name=name, namespace=pod.namespace),
            involvedObject=ObjectReference(
                apiVersion="v1", kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid
            ),
            reason=reason,
            message=message[:1024],
            type="Warning" if warning else "Normal",
            source=EventSource(component="tessera", host=self._node),
            firstTimestamp=now,
            lastTimestamp=now,
            count=1,
        )
        with _cluster_errors():
            try:
                self._client.create(event)
            except ApiError as err:
                if err.status.code != 409:
                    raise
                self._count_again(name, pod.namespace, now)

    def _count_again(self, name: str, namespace: str, now: datetime.datetime) -> None:
        known = self._client.get(Event, name, namespace=namespace)
        self._client.patch(
            Event,
            name,
            cast(Any, {"count": (known.count or 1) + 1, "lastTimestamp": _rfc3339(now)}),
            namespace=namespace,
        )


def _rfc3339(moment: datetime.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
