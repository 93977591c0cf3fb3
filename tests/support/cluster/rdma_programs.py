"""Programs that connect by rdma_cm in two pods: a client starts once its server listens."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from support.cluster.kubectl import DONE, Cluster, until
from support.oracles.rdmacm_calls import Ended, calls, has_raced

LIMIT_S = 90
"""How long a client may run: one that hangs ends before its test does, which reports it."""
_SERVES_S = 2 * LIMIT_S  # its client may start late on a busy machine
_TRIES = 6


def trace_calls(trace: str) -> str:
    """Return a shell command after which programs trace their calls to a file."""
    return f"export TESSERA_TRACE={trace}"


def read_trace(cluster: Cluster, pod: str, trace: str) -> str:
    """Return the calls that a program in a pod has made; nothing before its first one."""
    return cluster.kubectl("exec", pod, "--", "sh", "-c", f"cat {trace} 2>/dev/null || true")


def listens_or_has_ended(cluster: Cluster, pod: str, trace: str) -> bool:
    """Return whether a pod's program with that trace listens, or the pod has ended."""
    try:
        return bool(calls(read_trace(cluster, pod, trace), "rdma_listen"))
    except AssertionError:
        if cluster.get("pod", pod)["status"]["phase"] in DONE:
            return True
        raise


def _name_trace() -> str:
    return f"/tmp/{uuid.uuid4().hex[:8]}.trace"


@dataclass(frozen=True, slots=True)
class Run:
    """A command in a pod, with a trace of its calls."""

    cluster: Cluster
    pod: str
    command: str
    limit_s: int = LIMIT_S
    trace: str = field(default_factory=_name_trace)

    def to_its_end(self) -> Ended:
        """Run it for ``limit_s`` at most. It writes one stream, so that its lines are in order."""
        first = f"{trace_calls(self.trace)}; "
        begin = f"timeout {self.limit_s} {self.command} 2>&1 & echo $! >{self.trace}.pid; "
        shell = f"{first}{begin}wait $!; echo status $?"
        output, _, status = self._in_pod(shell).rpartition("status ")
        return Ended(int(status), output)

    def kill(self) -> None:
        """End the command if it still runs."""
        self._in_pod(f"kill $(cat {self.trace}.pid) 2>/dev/null || true")

    def read(self) -> str:
        return read_trace(self.cluster, self.pod, self.trace)

    def _in_pod(self, shell: str) -> str:
        return self.cluster.kubectl("exec", self.pod, "--", "sh", "-c", shell)


class Serving:
    """A server in a pod; the constructor returns once it listens, or has ended."""

    def __init__(self, cluster: Cluster, command: str, pod: str = "server") -> None:
        self.run = Run(cluster, pod, command, _SERVES_S)
        self._threads = ThreadPoolExecutor(1)
        self._result = self._threads.submit(self.run.to_its_end)
        try:
            until(lambda: self._result.done() or calls(self.run.read(), "rdma_listen"))
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if not self._result.done():
            self.run.kill()
        self._threads.shutdown()

    def end(self) -> Ended:
        """Wait for the server's end."""
        return self._result.result()


def connect(
    cluster: Cluster, server: str, client: str, *, listens_twice: bool = False
) -> tuple[str, str]:
    """Run a server in the pod "server" and a client of it in the pod "client"; return their
    outputs. Both must end with status 0.

    A server that ``listens_twice``, as perftest's does, may do so too late for its client: both
    are repeated then (see ``has_raced``).
    """
    for _ in range(_TRIES):
        with Serving(cluster, server) as serving:
            asking = Run(cluster, "client", client)
            requester = asking.to_its_end()
            if requester.status and listens_twice and has_raced(serving.run.read(), asking.read()):
                continue
            if requester.status:
                serving.run.kill()
            served = serving.end()
        both = f"{client}: status {requester.status}\n{requester.said}\n"
        both += f"{server}: status {served.status}\n{served.said}"
        assert (requester.status, served.status) == (0, 0), both
        return served.said, requester.said
    raise AssertionError(f"{server} has listened too late {_TRIES} times")
