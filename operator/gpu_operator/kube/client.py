"""Adapter to the Kubernetes client. No other module of this package sends requests.

The dynamic client is used without its discovery, which would query every resource of the API
server and cache them in a file: the table of kinds has the paths.
"""

import datetime
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Self

from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.dynamic.client import DynamicClient
from kubernetes.aio.dynamic.resource import Resource

from gpu_operator import errors, kinds, metrics
from gpu_operator.api import events
from gpu_operator.api.v1alpha1 import FINALIZER
from gpu_operator.kube import connection, proxy, responses, taints
from gpu_operator.kube.actions import (
    Action,
    Annotate,
    Apply,
    Delete,
    DropFinalizer,
    Evict,
    PatchNode,
    Record,
    SetTaints,
)
from gpu_operator.kube.connection import translate_errors
from gpu_operator.kube.port import Chosen, Document

_COMPONENT = "tessera-operator"
_LONGEST_MESSAGE = 1024  # characters of an event's message
_TIMEOUT_S = 10.0  # for each request, including the complete response
_ENDED = ("Succeeded", "Failed")  # phases of pods that hold no slices any more
_WATCH_S = 60  # a dead connection is detected after this time
_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"


class KubernetesCluster:
    """A connection to a cluster's API server. Used by one event loop."""

    def __init__(self, client: ApiClient, page: int = kinds.PAGE) -> None:
        """Use ``client``, which this object closes; ``page`` is how many objects one response of
        ``page`` has at most, of kinds with large objects fewer.
        """
        self._page = page
        proxy.refuse_redirections(client)
        self._client = client
        self._dynamic = DynamicClient(client)

    @classmethod
    async def connect(cls) -> Self:
        """Connect with the pod's service account or KUBECONFIG.

        Raises ConfigError if neither exists.
        """
        return cls(await connection.api_client())

    async def close(self) -> None:
        """Close the connections to the API server."""
        await self._client.close()

    async def list(self, kind: str, namespace: str | None = None) -> list[Document]:
        """Return all objects of a kind, requested page by page."""
        resource = self._resource(kind)
        with translate_errors(f"list {kind}"):
            try:
                items = [item async for item in self._iterate_pages(kind, namespace)]
            except ApiException as err:
                if err.status != 410:
                    raise
                # The state of the pages is no longer in etcd: request all objects at once.
                whole = await self._send(self._dynamic.get, resource, namespace=namespace)
                items = whole.get("items") or []
            return [_document(item, kind) for item in items]

    async def page(self, kind: str, chosen: Chosen, token: str = "") -> Document:
        """Return one page of a kind's list; its ``metadata`` has the token for the next page.

        Raises NotFound.
        """
        with translate_errors(f"list {kind}"):
            return await self._send(
                self._dynamic.get,
                self._resource(kind),
                namespace=chosen.namespace or None,
                field_selector=chosen.fields or None,
                label_selector=chosen.labels or None,
                limit=min(self._page, kinds.find_kind(kind).page),
                _continue=token or None,
            )

    async def watch(self, kind: str, chosen: Chosen, version: str) -> AsyncIterator[Document]:
        """Yield the events (``type`` and ``object``) of a watch that starts after ``version``.

        Ends when the watch ends.
        """
        with translate_errors(f"watch {kind}"):
            answer = await self._dynamic.get(
                self._resource(kind),
                namespace=chosen.namespace or None,
                field_selector=chosen.fields or None,
                label_selector=chosen.labels or None,
                resource_version=version,
                watch="true",
                timeout_seconds=_WATCH_S,
                query_params=[("allowWatchBookmarks", "true")],
                serialize=False,
                _request_timeout=_WATCH_S + _TIMEOUT_S,
            )
            try:
                async for event in responses.parse_lines(answer.content.iter_any()):
                    yield event
            finally:
                answer.close()

    async def get(self, kind: str, name: str, namespace: str | None = None) -> Document:
        """Return one object. Raises NotFound."""
        with translate_errors(f"{kind} {name}"):
            response = await self._send(
                self._dynamic.get, self._resource(kind), name=name, namespace=namespace
            )
            return _document(response, kind)

    async def read_port(
        self, namespace: str, pod: str, port: int, path: str, most_bytes: int
    ) -> bytes:
        """Return what a pod answers to GET on one of its ports, through the API server's proxy.

        Raises Refused if that is not permitted, or if the answer has more than ``most_bytes``.
        """
        with translate_errors(f"read port {port} of pod {namespace}/{pod}"):
            return await proxy.read_port(self._client, namespace, pod, port, path, most_bytes)

    async def create(self, document: Document) -> Document:
        """Create one object. Raises Conflict if it exists."""
        kind, metadata = document["kind"], document["metadata"]
        with translate_errors(f"create {kind} {metadata['name']}"):
            created = await self._write(self._dynamic.create, self._resource(kind), document)
            return _document(created, kind)

    async def replace(self, document: Document) -> Document:
        """Replace one object. Raises Conflict unless the document's resourceVersion is current."""
        kind, metadata = document["kind"], document["metadata"]
        with translate_errors(f"replace {kind} {metadata['name']}"):
            replaced = await self._write(self._dynamic.replace, self._resource(kind), document)
            return _document(replaced, kind)

    async def perform(self, action: Action) -> Document | None:
        """Perform an action; return the resulting object, if there is one."""
        with translate_errors(action.what):
            match action:
                case Apply():
                    return await self._apply(action)
                case DropFinalizer():
                    return await self._drop_finalizer(action)
                case PatchNode():
                    node = self._resource("Node")
                    part = node.subresources["status"] if action.status else node
                    patched = await self._json_patch(part, action.name, action.operations)
                    return _document(patched, "Node")
                case SetTaints():
                    return await self._set_taints(action)
                case Delete():
                    await self._delete(action)
                case Evict():
                    await self._evict(action)
                case Annotate():
                    await self._annotate(action)
                case Record():
                    await self._record(action)
        return None

    async def _iterate_pages(self, kind: str, namespace: str | None) -> AsyncIterator[Document]:
        token = ""
        while True:
            page = await self._send(
                self._dynamic.get,
                self._resource(kind),
                namespace=namespace,
                limit=kinds.find_kind(kind).page,
                _continue=token or None,
            )
            for item in page.get("items") or ():
                # half of the object, and lists are kept in memory
                item["metadata"].pop("managedFields", None)
                yield item
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return

    async def _apply(self, action: Apply) -> Document:
        document = dict(action.document)
        resource = self._resource(document["kind"])
        applied = await self._write(
            self._dynamic.server_side_apply,
            resource.subresources["status"] if action.status else resource,
            document,
            field_manager=action.manager.value,
            force_conflicts=True,
        )
        return _document(applied, document["kind"])

    async def _drop_finalizer(self, action: DropFinalizer) -> Document:
        path = f"/metadata/finalizers/{action.index}"
        operations = (
            {"op": "test", "path": "/metadata/uid", "value": action.uid},
            {"op": "test", "path": path, "value": FINALIZER},
            {"op": "remove", "path": path},
        )
        patched = await self._json_patch(self._resource(action.kind), action.name, operations)
        return _document(patched, action.kind)

    async def _set_taints(self, action: SetTaints) -> Document:
        node = await self._send(self._dynamic.get, self._resource("Node"), name=action.name)
        if node["metadata"].get("uid") != action.uid:
            raise errors.Conflict(
                f"node {action.name} was replaced by another node of the same name"
            )
        operations = taints.patch(node, action.add, action.remove, action.noted)
        patched = await self._json_patch(self._resource("Node"), action.name, operations)
        return _document(patched, "Node")

    async def _json_patch(
        self, resource: Resource, name: str, operations: Sequence[Mapping[str, Any]]
    ) -> Document:
        """Send a JSON patch. Raise Conflict if a test in it fails (the API server responds with
        422).
        """
        try:
            return await self._write(
                self._dynamic.patch,
                resource,
                [dict(operation) for operation in operations],
                name=name,
                content_type=_JSON_PATCH,
            )
        except ApiException as err:
            if err.status == 422:
                why = connection.error_message(err)
                raise errors.Conflict(f"{name} has changed: {why}") from err
            raise

    async def _delete(self, action: Delete) -> None:
        try:
            await self._send(
                self._dynamic.delete,
                self._resource(action.kind),
                name=action.name,
                namespace=action.namespace,
            )
        except ApiException as err:
            if err.status != 404:
                raise

    async def _evict(self, action: Evict) -> None:
        version = await self._live_version(action)
        if not version:
            return
        # Only if the pod does not change: an eviction would delete an ended pod with its logs.
        preconditions = {"uid": action.uid, "resourceVersion": version}
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": action.name, "namespace": action.namespace},
            "deleteOptions": {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": preconditions,
            },
        }
        try:
            await self._write(self._resource("Pod").subresources["eviction"].create, eviction)
        except ApiException as err:
            if err.status == 429:
                raise errors.EvictionBlocked(connection.error_message(err)) from err
            # The pod is gone, was replaced, or is deleted with its namespace.
            if err.status not in (404, 409) and not _is_terminating(err):
                raise

    async def _live_version(self, action: Evict) -> str:
        """Return the pod's resourceVersion; empty if the pod has ended, is gone or was replaced."""
        try:
            pod = await self._send(
                self._dynamic.get,
                self._resource("Pod"),
                name=action.name,
                namespace=action.namespace,
            )
        except ApiException as err:
            if err.status != 404:
                raise
            return ""
        metadata = pod.get("metadata") or {}
        ended = (pod.get("status") or {}).get("phase") in _ENDED
        if ended or metadata.get("uid") != action.uid:
            return ""
        return str(metadata.get("resourceVersion") or "")

    async def _annotate(self, action: Annotate) -> None:
        metadata = {"uid": action.uid, "annotations": {action.key: action.value}}
        try:
            await self._write(
                self._dynamic.patch,
                self._resource("Pod"),
                {"metadata": metadata},
                name=action.name,
                namespace=action.namespace,
                content_type=_MERGE_PATCH,
            )
        except ApiException as err:
            if err.status not in (404, 409):  # the pod is gone or was replaced
                raise

    async def _record(self, action: Record) -> None:
        message = action.message[:_LONGEST_MESSAGE]
        key = f"{action.uid}/{action.reason}/{'' if action.latest else action.message}"
        timestamp = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        name = events.event_name(action.name, key)
        row = kinds.find_kind(action.kind)
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": action.namespace},
            "involvedObject": {
                "apiVersion": row.api_version,
                "kind": action.kind,
                **({"namespace": action.namespace} if row.namespaced else {}),
                "name": action.name,
                "uid": action.uid,
            },
            "reason": action.reason,
            "message": message,
            "type": "Warning" if action.warning else "Normal",
            "source": {"component": _COMPONENT},
            "firstTimestamp": timestamp,
            "lastTimestamp": timestamp,
            "count": 1,
        }
        resource = self._resource("Event")
        try:
            await self._write(self._dynamic.create, resource, event)
        except ApiException as err:
            if err.status != 409:
                raise
            await self._write(
                self._dynamic.patch,
                resource,
                {"lastTimestamp": timestamp} | ({"message": message} if action.latest else {}),
                name=name,
                namespace=action.namespace,
                content_type=_MERGE_PATCH,
            )

    def _resource(self, kind: str) -> Resource:
        row = kinds.find_kind(kind)
        parts = ("status", *row.subresources)
        return Resource(
            prefix="apis" if row.group else "api",
            group=row.group,
            api_version=row.version,
            kind=row.name,
            name=row.plural,
            namespaced=row.namespaced,
            client=self._dynamic,
            subresources={
                part: {
                    "kind": kind,
                    "name": f"{row.plural}/{part}",
                    "namespaced": row.namespaced,
                }
                for part in parts
            },
        )

    async def _write(self, verb: Any, *args: Any, **kwargs: Any) -> Document:
        """Send a write; the API server rejects unknown fields instead of dropping them."""
        return await self._send(verb, *args, query_params=[("fieldValidation", "Strict")], **kwargs)

    async def _send(self, verb: Any, *args: Any, **kwargs: Any) -> Document:
        code = metrics.NO_ANSWER
        try:
            answer = await verb(*args, serialize=False, _request_timeout=_TIMEOUT_S, **kwargs)
            code = str(answer.status)
        except ApiException as err:
            code = str(err.status)
            raise
        finally:
            metrics.REQUESTS.labels(getattr(verb, "__name__", "create"), code).inc()
        document: Document = await responses.parse(await answer.read())
        return document


def _is_terminating(err: ApiException) -> bool:
    """Return whether the request was refused because the namespace is being deleted."""
    causes = (connection.error_status(err).get("details") or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def _document(item: Document, kind: str) -> Document:
    item.setdefault("kind", kind)
    return item
