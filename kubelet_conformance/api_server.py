"""A minimal API server for a DRA driver: objects in memory, list, watch and write.

It stores any resource of any group, and validates, converts and defaults nothing. It answers in
JSON, even if a client prefers another encoding, and reads protobuf where Go's clients send
nothing else (``protobuf``).
"""

import http.server
import json
import threading
import urllib.parse
import uuid
from collections.abc import Iterator
from typing import Any, Self

import yaml

from kubelet_conformance import protobuf

_WATCH_S = 30.0
_END_S = 0.02  # until the server notices that it must stop
_CORE, _GROUP = 2, 3  # number of path parts before the namespace or the resource: /api/v1
_LISTS = {
    "nodes": "NodeList",
    "resourceclaims": "ResourceClaimList",
    "resourceslices": "ResourceSliceList",
    "deviceclasses": "DeviceClassList",
    "pods": "PodList",
}
"""The ``kind`` of the list of each resource; a Go client accepts no other."""
Key = tuple[str, str, str]
"""The key of an object: its resource with group and version, its namespace, its name."""


class ApiServer:
    """A running API server; ``url`` serves without TLS and without authentication.

    The object is a context manager, which starts and stops the server.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._objects: dict[Key, dict[str, Any]] = {}
        self._events: list[tuple[int, str, Key, dict[str, Any]]] = []
        self._version = 1
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(_END_S,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Return the server's URL."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def kubeconfig(self) -> dict[str, Any]:
        """Return the content of a kubeconfig file for a client of this server."""
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
            "current-context": "c",
        }

    def put(self, resource: str, body: dict[str, Any], namespace: str = "") -> dict[str, Any]:
        """Create an object of a resource, or replace the existing one; return what is stored."""
        with self._changed:
            meta = dict(body.get("metadata", {}))
            if "name" not in meta:
                meta["name"] = meta.get("generateName", "object-") + uuid.uuid4().hex[:5]
            key = resource, namespace, meta["name"]
            old = self._objects.get(key)
            was = {} if old is None else old["metadata"]
            meta["uid"] = was.get("uid") or meta.get("uid") or str(uuid.uuid4())
            changed = old is None or old.get("spec") != body.get("spec")
            meta["generation"] = was.get("generation", 0) + changed
            meta.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
            if namespace:
                meta["namespace"] = namespace
            return self._note(
                "ADDED" if old is None else "MODIFIED", key, {**body, "metadata": meta}
            )

    def get(self, resource: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        """Return the object with this name, or None if there is none."""
        with self._changed:
            return self._objects.get((resource, namespace, name))

    def delete(self, resource: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        """Delete the object with this name and return it; return None if there is none."""
        with self._changed:
            gone = self._objects.pop((resource, namespace, name), None)
            return gone and self._note("DELETED", (resource, namespace, name), dict(gone))

    def all(self, resource: str, namespace: str = "") -> list[dict[str, Any]]:
        """Return all objects of a resource; with a namespace, only that namespace's objects."""
        with self._changed:
            return [
                body
                for (kind, where, _), body in sorted(self._objects.items())
                if kind == resource and (not namespace or where == namespace)
            ]

    def version(self) -> int:
        """Return the resource version of the newest change."""
        with self._changed:
            return self._version

    def watch(self, resource: str, namespace: str, since: int) -> Iterator[dict[str, Any]]:
        """Yield the changes to a resource's objects after version ``since``.

        The watch ends after a time without changes.
        """
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._version > since, _WATCH_S):  # noqa: B023
                    return
                later_events = [event for event in self._events if event[0] > since]
                since = self._version
            for _, kind, (of, where, _), body in later_events:
                if of == resource and (not namespace or where == namespace):
                    yield {"type": kind, "object": body}

    def _note(self, kind: str, key: Key, body: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        body["metadata"] = {**body["metadata"], "resourceVersion": str(self._version)}
        if kind != "DELETED":
            self._objects[key] = body
        self._events.append((self._version, kind, key, body))
        self._changed.notify_all()
        return body


def _merge(old: Any, new: Any) -> Any:
    """Return ``old`` with a JSON merge patch applied to it (RFC 7386)."""
    if not isinstance(new, dict):
        return new
    base = dict(old) if isinstance(old, dict) else {}
    for name, value in new.items():
        if value is None:
            base.pop(name, None)
        else:
            base[name] = _merge(base.get(name), value)
    return base


def _matches(body: dict[str, Any], selector: str) -> bool:
    """Return whether an object matches a field selector (equality only)."""
    for term in filter(None, selector.split(",")):
        path, _, value = term.partition("=")
        field_value: Any = body
        for part in path.split("."):
            field_value = field_value.get(part, "") if isinstance(field_value, dict) else ""
        if str(field_value) != value.lstrip("="):
            return False
    return True


def _handler(api: ApiServer) -> type[http.server.BaseHTTPRequestHandler]:  # noqa: C901 (a class)
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            resource, namespace, name, _ = self._where()
            query = self._query()
            if name:
                self._answer_or_404(api.get(resource, name, namespace))
            elif query.get("watch") in ("true", "1"):
                self._watch(resource, namespace, query)
            else:
                version = str(api.version())
                items = api.all(resource, namespace)
                items = [o for o in items if _matches(o, query.get("fieldSelector", ""))]
                group, _, plural = resource.rpartition("/")
                head = {"kind": _LISTS.get(plural, "List"), "apiVersion": group}
                self._answer(
                    200, {**head, "metadata": {"resourceVersion": version}, "items": items}
                )

        def do_POST(self) -> None:
            resource, namespace, _, _ = self._where()
            self._answer(201, api.put(resource, self._body(), namespace))

        def do_PUT(self) -> None:
            resource, namespace, name, part = self._where()
            body = self._body()
            old = api.get(resource, name, namespace)
            if old is None:
                self._answer_or_404(None)
                return
            if part == "status":
                body = {**old, "status": body.get("status", {})}
            self._answer(200, api.put(resource, body, namespace))

        def do_PATCH(self) -> None:
            resource, namespace, name, part = self._where()
            body = self._body()
            if part == "status":
                body = {"status": body.get("status", {})}
            old = api.get(resource, name, namespace)
            applied = "apply-patch" in self.headers.get("Content-Type", "")
            if old is None and (not applied or part):
                self._answer_or_404(None)
                return
            merged = _merge(old or {"metadata": {"name": name}}, body)
            self._answer(200, api.put(resource, merged, namespace))

        def do_DELETE(self) -> None:
            resource, namespace, name, _ = self._where()
            self._body()
            self._answer_or_404(api.delete(resource, name, namespace))

        def _where(self) -> tuple[str, str, str, str]:
            """Return resource, namespace, name and subresource of the path."""
            parts = urllib.parse.urlparse(self.path).path.strip("/").split("/")
            begin = _CORE if parts[0] == "api" else _GROUP
            group, path_tail = "/".join(parts[1:begin]), parts[begin:]
            namespace = ""
            if len(path_tail) > 2 and path_tail[0] == "namespaces":
                namespace, path_tail = path_tail[1], path_tail[2:]
            path_tail += ["", "", ""]
            return f"{group}/{path_tail[0]}", namespace, path_tail[1], path_tail[2]

        def _query(self) -> dict[str, str]:
            return dict(urllib.parse.parse_qsl(urllib.parse.urlparse(self.path).query))

        def _body(self) -> dict[str, Any]:
            text = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            if self.headers.get("Content-Type", "") == protobuf.CONTENT_TYPE:
                return protobuf.decode(text)
            document = yaml.safe_load(text) if text else {}
            return document if isinstance(document, dict) else {}

        def _watch(self, resource: str, namespace: str, query: dict[str, str]) -> None:
            if "sendInitialEvents" in query:  # not a streaming list: the client lists instead
                self._answer(422, _status(422, "Invalid", "sendInitialEvents is not supported"))
                return
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            since = int(query.get("resourceVersion") or api.version())
            for event in api.watch(resource, namespace, since):
                if _matches(event["object"], query.get("fieldSelector", "")):
                    line = json.dumps(event).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                    self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")

        def _answer_or_404(self, body: dict[str, Any] | None) -> None:
            if body is None:
                self._answer(404, _status(404, "NotFound", f"{self.path} not found"))
            else:
                self._answer(200, body)

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except OSError:  # the client closed the connection, which is not an error
                self.close_connection = True
            except ValueError as err:
                self._answer(400, _status(400, "BadRequest", str(err)))

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    return Handler


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
