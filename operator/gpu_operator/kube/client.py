"""The adapter to lightkube. Nothing else in this package knows a client library."""

import contextlib
import datetime
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import httpx2  # lightkube's transport; its errors are not lightkube's own
from lightkube import AsyncClient
from lightkube.core.exceptions import ApiError, ConfigError as KubeconfigError
from lightkube.generic_resource import create_global_resource, create_namespaced_resource
from lightkube.models.meta_v1 import DeleteOptions, ObjectMeta, Preconditions
from lightkube.resources.core_v1 import Event, Node, Pod
from lightkube.types import PatchType

from gpu_operator import errors
from gpu_operator.api.v1alpha1 import API_VERSION, FINALIZER, GROUP, VERSION
from gpu_operator.kube.actions import (
    Action,
    Apply,
    Delete,
    DropFinalizer,
    Evict,
    PatchNodeStatus,
    Record,
)
from gpu_operator.kube.port import Document

_RESOURCES: Mapping[str, Any] = {
    "GPU": create_global_resource(GROUP, VERSION, "GPU", "gpus"),
    "GPUPool": create_global_resource(GROUP, VERSION, "GPUPool", "gpupools"),
    "MIGLayout": create_global_resource(GROUP, VERSION, "MIGLayout", "miglayouts"),
    "GPUPolicy": create_global_resource(GROUP, VERSION, "GPUPolicy", "gpupolicies"),
    "ClusterRole": create_global_resource(
        "rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles"
    ),
    "DaemonSet": create_namespaced_resource("apps", "v1", "DaemonSet", "daemonsets"),
    "Deployment": create_namespaced_resource("apps", "v1", "Deployment", "deployments"),
    "Lease": create_namespaced_resource("coordination.k8s.io", "v1", "Lease", "leases"),
    "Node": Node,
    "Pod": Pod,
}
_EVENT_NAMESPACE = "default"  # where events on cluster-scoped objects belong
_COMPONENT = "tessera-operator"


@contextlib.contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except ApiError as err:
        raise _error(err.status.code)(f"{what}: {err.status.message}") from err
    except httpx2.HTTPStatusError as err:  # without a Status: a kind that is not served, a proxy
        answer = f"{err.response.status_code} {err.response.text.strip()[:200]}"
        raise _error(err.response.status_code)(f"{what}: {answer}") from err
    except httpx2.HTTPError as err:
        raise errors.Unreachable(f"{what}: {err!r}") from err


def _error(code: int | None) -> type[errors.KubeError]:
    match code:
        case 404:
            return errors.NotFound
        case 409:
            return errors.Conflict
        case 400 | 401 | 403 | 405 | 422:
            return errors.Refused
        case _:
            return errors.Unreachable


class LightkubeCluster:
    """The cluster that the pod's service account, or KUBECONFIG, leads to."""

    def __init__(self, client: AsyncClient | None = None) -> None:
        """Connect lazily. Raises ConfigError where there is neither account nor kubeconfig."""
        try:
            self._client = client or AsyncClient(timeout=httpx2.Timeout(10))
        except KubeconfigError as err:
            raise errors.ConfigError(f"no access to a cluster: {err}") from err

    async def close(self) -> None:
        """Close connections."""
        await self._client.aclose()

    async def list(self, kind: str, namespace: str | None = None) -> list[Document]:
        """Return all objects of a kind."""
        with _translated(f"list {kind}"):
            found = self._client.list(_RESOURCES[kind], namespace=namespace)
            return [_document(item, kind) async for item in found]

    async def get(self, kind: str, name: str, namespace: str | None = None) -> Document:
        """Return one object. Raises NotFound."""
        with _translated(f"{kind} {name}"):
            return _document(
                await self._client.get(_RESOURCES[kind], name, namespace=namespace), kind
            )

    async def create(self, document: Document) -> Document:
        """Create one object. Raises Conflict if it exists."""
        kind, metadata = document["kind"], document["metadata"]
        with _translated(f"create {kind} {metadata['name']}"):
            created = await self._client.create(_RESOURCES[kind](document))
            return _document(created, kind)

    async def replace(self, document: Document) -> Document:
        """Replace one object; its resourceVersion must be current, else Conflict."""
        kind, metadata = document["kind"], document["metadata"]
        with _translated(f"replace {kind} {metadata['name']}"):
            replaced = await self._client.replace(_RESOURCES[kind](document))
            return _document(replaced, kind)

    async def perform(self, action: Action) -> Document | None:
        """Do it; return the object as it is afterwards, where there is one."""
        with _translated(action.what):
            match action:
                case Apply():
                    return await self._apply(action)
                case DropFinalizer():
                    return await self._drop_finalizer(action)
                case Delete():
                    await self._delete(action)
                case Evict():
                    await self._evict(action)
                case PatchNodeStatus():
                    await self._json_patch(Node.Status, action.name, action.operations)
                case Record():
                    await self._record(action)
        return None

    async def _apply(self, action: Apply) -> Document:
        document = dict(action.document)
        kind, metadata = document["kind"], document["metadata"]
        resource = _RESOURCES[kind]
        applied = await self._client.patch(
            resource.Status if action.status else resource,
            metadata["name"],
            cast(Any, document),
            namespace=metadata.get("namespace"),
            patch_type=PatchType.APPLY,
            field_manager=action.manager.value,
            force=True,
        )
        return _document(applied, kind)

    async def _drop_finalizer(self, action: DropFinalizer) -> Document:
        path = f"/metadata/finalizers/{action.index}"
        operations = (
            {"op": "test", "path": "/metadata/uid", "value": action.uid},
            {"op": "test", "path": path, "value": FINALIZER},
            {"op": "remove", "path": path},
        )
        patched = await self._json_patch(_RESOURCES[action.kind], action.name, operations)
        return _document(patched, action.kind)

    async def _json_patch(
        self, resource: Any, name: str, operations: Sequence[Mapping[str, str]]
    ) -> Any:
        """Patch; raise Conflict where a test in it fails, of which the API server says 422."""
        try:
            return await self._client.patch(
                resource, name, cast(Any, list(operations)), patch_type=PatchType.JSON
            )
        except ApiError as err:
            if err.status.code == 422:
                raise errors.Conflict(f"{name} has changed: {err.status.message}") from err
            raise

    async def _delete(self, action: Delete) -> None:
        try:
            await self._client.delete(
                _RESOURCES[action.kind], action.name, namespace=action.namespace
            )
        except ApiError as err:
            if err.status.code != 404:
                raise

    async def _evict(self, action: Evict) -> None:
        eviction = Pod.Eviction(
            apiVersion="policy/v1",
            kind="Eviction",
            metadata=ObjectMeta(name=action.name, namespace=action.namespace),
            deleteOptions=DeleteOptions(
                apiVersion="v1",
                kind="DeleteOptions",
                preconditions=Preconditions(uid=action.uid) if action.uid else None,
            ),
        )
        try:
            await self._client.create(eviction, action.name, namespace=action.namespace)
        except ApiError as err:
            if err.status.code == 429:
                raise errors.EvictionBlocked(str(err.status.message)) from err
            # Gone, or another pod of that name by now, or going with its namespace anyhow.
            if err.status.code not in (404, 409) and not _is_terminating(err):
                raise

    async def _record(self, action: Record) -> None:
        key = f"{action.uid}/{action.reason}/{action.message}"
        digest = hashlib.blake2s(key.encode(), digest_size=8).hexdigest()
        now = datetime.datetime.now(datetime.UTC)
        name = f"{action.name}.{digest}"
        event = Event.from_dict(
            {
                "metadata": {"name": name, "namespace": _EVENT_NAMESPACE},
                "involvedObject": {
                    "apiVersion": API_VERSION,
                    "kind": action.kind,
                    "name": action.name,
                    "uid": action.uid,
                },
                "reason": action.reason,
                "message": action.message[:1024],
                "type": "Warning" if action.warning else "Normal",
                "source": {"component": _COMPONENT},
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
            }
        )
        try:
            await self._client.create(cast(Event, event))
        except ApiError as err:
            if err.status.code != 409:
                raise
            patch = {"lastTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ")}
            await self._client.patch(Event, name, cast(Any, patch), namespace=_EVENT_NAMESPACE)


def _is_terminating(err: ApiError) -> bool:
    """Whether the refusal is that the namespace is being deleted, and all in it."""
    details = err.status.details
    causes = (details.causes or []) if details is not None else []
    return any(cause.reason == "NamespaceTerminating" for cause in causes)


def _document(item: Any, kind: str) -> Document:
    document: Document = item.to_dict()
    document.setdefault("kind", kind)
    return document
