"""A small Kubernetes API server for the node agent: GPUs, their status, events, slices, its node.

It implements the few verbs that the agent may use (list, watch, apply of status, events), keeps
objects in memory and counts writes. Its contents are what kubectl would show.
"""

import contextlib
import http.server
import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Self
from urllib.parse import parse_qs, urlparse

from kubernetes.client import ApiClient, Configuration

from gpu_operator.api.v1alpha1 import GROUP, NODE_LABEL, VERSION

GPUS = f"/apis/{GROUP}/{VERSION}/gpus"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
NODE = "node-1"


class _Server(http.server.ThreadingHTTPServer):
    """Closes all connections when it ends, because clients keep theirs open for further
    requests.
    """

    def __init__(self, *args: Any) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class ApiServer:
    """``gpus``, ``pods``, ``claims`` and ``events`` by name; ``broken``: every answer is a 500."""

    def __init__(self) -> None:
        self.gpus: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.claims: dict[str, dict[str, Any]] = {}
        self.events: dict[str, dict[str, Any]] = {}
        self.node: dict[str, Any] = {"metadata": {"name": NODE}, "status": {"allocatable": {}}}
        self.status_writes = 0
        self.broken = False
        self._changed = threading.Condition()
        self.lists = 0
        self.node_reads = 0
        self.refused = 0
        """Reads while ``broken`` was set."""
        self.watches = 0
        self.forgotten = 0
        """Watches from an older version than this are answered with 410 Gone."""
        self._version = 0
        self._history: list[tuple[int, str, dict[str, Any]]] = []
        self.slices: dict[str, dict[str, Any]] = {}
        self._slice_history: list[tuple[int, str, dict[str, Any]]] = []
        self._clients: list[ApiClient] = []
        self.over = False
        self._server = _Server(("127.0.0.1", 0), _handler(self))

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        for client in self._clients:
            client.close()
        self.over = True  # ends the watches
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def client(self) -> ApiClient:
        made = ApiClient(Configuration(host=self.url))
        self._clients.append(made)
        return made

    def kubeconfig(self) -> dict[str, Any]:
        """Return a configuration file for a client in another process."""
        return {
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
            "current-context": "c",
        }

    def put_gpu(self, name: str, spec: dict[str, Any]) -> None:
        """Create a GPU object, or change its spec."""
        with self._changed:
            old = self.gpus.get(name, {"metadata": {"generation": 0}})
            self.gpus[name] = {
                "apiVersion": f"{GROUP}/{VERSION}",
                "kind": "GPU",
                "metadata": {
                    "name": name,
                    "labels": {NODE_LABEL: NODE},
                    "uid": old["metadata"].get("uid") or f"uid-{name}-{self._version}",
                    "generation": old["metadata"]["generation"] + 1,
                },
                "spec": spec,
                "status": old.get("status"),
            }
            self._bump(self.gpus[name])

    def delete_gpu(self, name: str) -> None:
        with self._changed:
            gone = self.gpus.pop(name)
            self._bump(gone, "DELETED")

    def put_claim(
        self, name: str, uid: str, *devices: str, pod_uids: Sequence[str] = (), **result: Any
    ) -> None:
        """Create a ResourceClaim of the namespace ``team`` to which these devices were
        allocated, and which is reserved for pods.
        """
        results = [
            {
                "request": f"r{number}",
                "driver": "gpu.tessera.dev",
                "pool": NODE,
                "device": device,
                **result,
            }
            for number, device in enumerate(devices)
        ]
        reserved = [{"resource": "pods", "name": f"pod-{pod}", "uid": pod} for pod in pod_uids]
        status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
        self.claims[name] = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"namespace": "team", "name": name, "uid": uid},
            "status": status if devices else {},
        }

    def status(self, name: str) -> dict[str, Any]:
        return self.gpus[name].get("status") or {}

    def condition(self, name: str, kind: str) -> tuple[str, str]:
        """Return (status, reason) of a condition."""
        for condition in self.status(name).get("conditions", ()):
            if condition["type"] == kind:
                return condition["status"], condition["reason"]
        return "", ""

    def apply_status(self, name: str, status: dict[str, Any]) -> dict[str, Any] | None:
        with self._changed:
            if name not in self.gpus:
                return None
            self.gpus[name] = {**self.gpus[name], "status": status}
            self.status_writes += 1
            self._bump(self.gpus[name])
            return self.gpus[name]

    def wait_for_change(self, version: int, timeout_s: float) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self._version != version, timeout_s)
            return self._version

    @property
    def version(self) -> int:
        return self._version

    def since(self, version: int, path: str = GPUS) -> list[tuple[int, str, dict[str, Any]]]:
        """Return the changes after a version: version, type of event, object."""
        with self._changed:
            history = self._slice_history if path == SLICES else self._history
            return [entry for entry in history if entry[0] > version]

    def put_slice(self, slice_: dict[str, Any]) -> dict[str, Any]:
        """Create or replace a ResourceSlice."""
        with self._changed:
            self._version += 1
            name, version = slice_["metadata"]["name"], str(self._version)
            kind = "MODIFIED" if name in self.slices else "ADDED"
            metadata = {"uid": f"uid-{version}"} | slice_["metadata"] | {"resourceVersion": version}
            self.slices[name] = {**slice_, "metadata": metadata}
            self._slice_history.append((self._version, kind, self.slices[name]))
            self._changed.notify_all()
            return self.slices[name]

    def delete_slice(self, name: str) -> None:
        with self._changed:
            if (gone := self.slices.pop(name, None)) is not None:
                self._version += 1
                gone["metadata"]["resourceVersion"] = str(self._version)
                self._slice_history.append((self._version, "DELETED", gone))
                self._changed.notify_all()

    def _bump(self, gpu: dict[str, Any], event: str = "MODIFIED") -> None:
        self._version += 1
        gpu["metadata"] = {**gpu["metadata"], "resourceVersion": str(self._version)}
        self._history.append((self._version, event, dict(gpu)))
        self._changed.notify_all()


def _handler(api: ApiServer) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlparse(self.path)
            query = parse_qs(url.query)
            if api.broken:
                api.refused += 1
                self._answer(500, {"kind": "Status", "code": 500, "message": "etcd is away"})
            elif url.path == GPUS and query.get("labelSelector") != [f"{NODE_LABEL}={NODE}"]:
                self._answer(403, {"kind": "Status", "code": 403, "message": "not your node"})
            elif url.path == GPUS and "watch" in query:
                api.watches += 1
                self._watch(
                    float(query["timeoutSeconds"][0]), int(query["resourceVersion"][0] or 0)
                )
            elif url.path == GPUS:
                api.lists += 1
                items = list(api.gpus.values())
                self._answer(
                    200,
                    {
                        "kind": "GPUList",
                        "metadata": {"resourceVersion": str(api.version)},
                        "items": items,
                    },
                )
            elif url.path == SLICES and "watch" in query:
                timeout_s, version = query["timeoutSeconds"][0], query["resourceVersion"][0]
                self._watch(float(timeout_s), int(version or 0), SLICES)
            elif url.path == SLICES:
                assert query["fieldSelector"][0].startswith(f"spec.nodeName={NODE},")
                metadata = {"resourceVersion": str(api.version)}
                self._answer(200, {"metadata": metadata, "items": list(api.slices.values())})
            elif "/namespaces/team/resourceclaims/" in url.path:
                self._find(api.claims, url.path.rsplit("/", 1)[1])
            elif url.path == f"/api/v1/nodes/{NODE}":
                api.node_reads += 1
                self._answer(200, api.node)
            elif "/pods/" in url.path:
                self._find(api.pods, url.path.rsplit("/", 1)[1])
            else:
                self._find(api.events, url.path.rsplit("/", 1)[1])

        def do_PATCH(self) -> None:
            body = self._body()
            if api.broken:
                self._answer(500, {"kind": "Status", "code": 500, "message": "etcd is away"})
                return
            path = urlparse(self.path).path
            if path.startswith(GPUS) and path.endswith("/status"):
                made = api.apply_status(body["metadata"]["name"], body["status"])
                self._answer(*((200, made) if made else (404, {"kind": "Status", "code": 404})))
                return
            if path.startswith(SLICES):
                self._answer(200, api.put_slice(body))
                return
            name = path.rsplit("/", 1)[1]
            api.events[name] |= body
            self._find(api.events, name)

        def do_DELETE(self) -> None:
            api.delete_slice(urlparse(self.path).path.rsplit("/", 1)[1])
            self._answer(200, {"kind": "Status", "status": "Success"})

        def do_POST(self) -> None:
            body = self._body()
            name = body["metadata"]["name"]
            if api.broken:
                self._answer(500, {"kind": "Status", "code": 500, "message": "etcd is away"})
            elif name in api.events:
                self._answer(409, {"kind": "Status", "code": 409, "reason": "AlreadyExists"})
            else:
                api.events[name] = body
                self._answer(201, body)

        def _find(self, objects: dict[str, dict[str, Any]], name: str) -> None:
            if name in objects:
                self._answer(200, objects[name])
            else:
                self._answer(404, {"kind": "Status", "code": 404})

        def _watch(self, timeout_s: float, version: int, path: str = GPUS) -> None:
            if version < api.forgotten:
                self._answer(410, {"kind": "Status", "code": 410, "message": "too old"})
                return
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            deadline = time.monotonic() + timeout_s
            try:
                while time.monotonic() < deadline and not api.broken and not api.over:
                    for at, kind, gpu in api.since(version, path):
                        self._chunk({"type": kind, "object": gpu})
                        version = at
                    api.wait_for_change(version, 0.2)
                self.wfile.write(b"0\r\n\r\n")
            except OSError:
                self.close_connection = True

        def _chunk(self, document: dict[str, Any]) -> None:
            line = json.dumps(document).encode() + b"\n"
            self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))

        def _body(self) -> dict[str, Any]:
            return dict(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, status: int, document: dict[str, Any]) -> None:
            text = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    return Handler


def wait_for(api: ApiServer, condition: Callable[[], Any], timeout_s: float = 30.0) -> Any:
    """Return the condition's first true value; evaluate it again at every change."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"timed out; GPUs: {json.dumps(api.gpus, indent=1)}"
        api.wait_for_change(api.version, 0.05)
    return value
