"""etcd and kube-apiserver as bare processes, with an audit log of requests by user."""

import contextlib
import json
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from ssl import CERT_NONE, SSLContext, create_default_context
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
USERS = ("admin", "operator", "agent", "kubelet")
PROGRAMS = ("etcd", "kube-apiserver", "kube-scheduler")
_START_S = 120.0
_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, Panic]
rules: [{level: Metadata, users: [operator, agent]}, {level: None}]
"""


class MissingProgram(Exception):
    """A program of ``PROGRAMS`` has not been built here; the message states how to build it."""


@dataclass
class Counts:
    """Requests in a period, by user, verb and resource; a watch counts when it begins."""

    requests: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def of(self, user: str, verb: str = "", resource: str = "") -> int:
        """Return the number of requests; an empty word matches all."""
        return sum(
            count
            for (who, request_verb, which), count in self.requests.items()
            if who == user and verb in ("", request_verb) and resource in ("", which)
        )

    def table(self, user: str) -> str:
        """Return "patch gpus 7, watch nodes 1", the most frequent first."""
        frequencies = [(f"{v} {r}", n) for (u, v, r), n in self.requests.most_common() if u == user]
        return ", ".join(f"{request} {count}" for request, count in frequencies)


class ControlPlane:
    """Both processes, in ``root``. Requests are made as one of ``USERS``, each with a token."""

    def __init__(self, root: Path, programs: Path) -> None:
        """Raises MissingProgram."""
        for name in PROGRAMS:
            if not (programs / name).is_file():
                raise MissingProgram(f"no {programs / name}: deploy/kind/build-programs nodes")
        self._root = root
        self._programs = programs
        self._port = free_port()
        self._etcd_port = free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._read_to = 0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    def kubeconfig(self, user: str) -> Path:
        """Return a configuration for one of ``USERS``."""
        path = self._root / f"{user}.kubeconfig"
        cluster = {"server": self.url, "insecure-skip-tls-verify": True}
        path.write_text(
            json.dumps(
                {
                    "clusters": [{"name": "c", "cluster": cluster}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                    "users": [{"name": "u", "user": {"token": f"{user}-token"}}],
                    "current-context": "c",
                }
            )
        )
        return path

    def start(self) -> None:
        """Return when the API server is ready. Raises TimeoutError."""
        root = self._root
        (root / "audit.yaml").write_text(_POLICY)
        groups = "system:masters"
        (root / "tokens.csv").write_text(
            "".join(
                f'{user}-token,{user},{user},"{groups if user == "admin" else "fleet"}"\n'
                for user in USERS
            )
        )
        key = root / "sa.key"
        subprocess.run(
            ["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True
        )
        etcd = f"http://127.0.0.1:{self._etcd_port}"
        self._spawn(
            "etcd",
            f"--data-dir={root / 'etcd'}",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{free_port()}",
            "--unsafe-no-fsync",  # the disk of this machine is not measured
            "--quota-backend-bytes=4294967296",
        )
        self._spawn(
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            f"--cert-dir={root / 'certs'}",
            f"--secure-port={self._port}",
            "--bind-address=127.0.0.1",
            f"--token-auth-file={root / 'tokens.csv'}",
            "--authorization-mode=AlwaysAllow",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://scale.invalid",
            "--service-cluster-ip-range=10.0.0.0/16",
            # No controller here creates accounts, or marks nodes ready and removes their taints.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            f"--audit-policy-file={root / 'audit.yaml'}",
            f"--audit-log-path={root / 'audit.log'}",
            "--audit-log-maxsize=4096",
        )
        deadline = time.monotonic() + _START_S
        while not self._ready():
            if time.monotonic() > deadline or any(
                p.poll() is not None for p in self._processes.values()
            ):
                log = (root / "kube-apiserver.log").read_text(errors="replace")[-2000:]
                raise TimeoutError(f"kube-apiserver does not get ready: {log}")
            time.sleep(0.2)

    def stop(self) -> None:
        """End both processes."""
        backwards = list(reversed(self._processes.values()))
        for process in backwards:
            process.terminate()
        for process in backwards:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()

    def take_counts(self) -> Counts:
        """Return the requests since the last call."""
        counts = Counts()
        path = self._root / "audit.log"
        if not path.exists():
            return counts
        with path.open("rb") as log:
            log.seek(self._read_to)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self._read_to += len(line)
                event = json.loads(line)
                watch = event["verb"] == "watch"
                if watch != (event["stage"] == "ResponseStarted"):
                    continue  # one entry per request, for a watch when it begins
                resource = (event.get("objectRef") or {}).get("resource", "-")
                part = (event.get("objectRef") or {}).get("subresource")
                name = f"{resource}/{part}" if part else resource
                counts.requests[event["user"]["username"], event["verb"], name] += 1
        return counts

    def install(self, crds: Sequence[Path]) -> None:
        """Create Tessera's custom resource definitions, and wait until they are served."""
        import yaml

        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for file in crds:
            self.send("POST", path, yaml.safe_load(file.read_text()))
        deadline = time.monotonic() + _START_S
        while not self._are_served(len(crds)):
            if time.monotonic() > deadline:
                raise TimeoutError("the definitions are not served")
            time.sleep(0.2)

    def _are_served(self, kinds: int) -> bool:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        definitions = self.send("GET", path)["items"]
        states = [
            condition["status"]
            for definition in definitions
            for condition in (definition.get("status") or {}).get("conditions", ())
            if condition["type"] == "Established"
        ]
        return states.count("True") == kinds

    def send(self, method: str, path: str, document: Any = None, kind: str = "") -> Any:
        """Send one request as the administrator; return the answer. Raises HTTPError."""
        body = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(self.url + path, body, method=method)
        request.add_header("Authorization", "Bearer admin-token")
        request.add_header("Content-Type", kind or "application/json")
        with urllib.request.urlopen(request, timeout=60, context=_no_verification()) as answer:
            return json.load(answer)

    def _ready(self) -> bool:
        with contextlib.suppress(OSError, urllib.error.HTTPError):
            request = urllib.request.Request(self.url + "/readyz")
            request.add_header("Authorization", "Bearer admin-token")
            with urllib.request.urlopen(request, timeout=5, context=_no_verification()) as answer:
                return bool(answer.status == 200)
        return False

    def _spawn(self, name: str, *arguments: str) -> None:
        with (self._root / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [self._programs / name, *arguments],
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )

    def pids(self) -> dict[str, int]:
        """Return the processes by the names of their programs."""
        return {name: process.pid for name, process in self._processes.items()}

    def start_scheduler(self) -> None:
        """Run the stock scheduler, with no limit to its requests but the API server's own."""
        path = self._root / "scheduler.yaml"
        connection = {"kubeconfig": str(self.kubeconfig("admin")), "qps": 5000, "burst": 5000}
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": connection,
            "leaderElection": {"leaderElect": False},
        }
        path.write_text(json.dumps(document))
        self._spawn("kube-scheduler", f"--config={path}", "--secure-port=0")


@contextlib.contextmanager
def control_plane(root: Path, programs: Path) -> Iterator[ControlPlane]:
    """Run both processes with Tessera's definitions installed."""
    plane = ControlPlane(root, programs)
    try:
        plane.start()
        plane.install(sorted((REPOSITORY / "charts/tessera/files/crds").glob("*.yaml")))
        yield plane
    finally:
        plane.stop()


def _no_verification() -> SSLContext:
    context = create_default_context()
    context.check_hostname = False
    context.verify_mode = CERT_NONE
    return context


def free_port() -> int:
    """Return a port of the loopback interface on which no process listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def die_with_parent() -> None:
    """Make this process end when its parent does."""
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
