"""The operator's processes and the fleet's, and the operator's cost."""

import contextlib
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from benchmarks.scale.control_plane import REPOSITORY, ControlPlane, die_with_parent, free_port

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
NAMESPACE = "tessera-system"


def used_s(pid: int) -> float:
    """Return the CPU time of a process so far; raises OSError if it does not exist."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


@dataclass
class Cost:
    """Resident memory (bytes) at its highest, and CPU time (s)."""

    memory_bytes: int = 0
    cpu_s: float = 0.0


class Operator:
    """One ``tessera-operator``, run as in its pod."""

    def __init__(self, root: Path, plane: ControlPlane, name: str) -> None:
        self.name = name
        self.port = free_port()
        config = {
            "node": {
                "image": "scale",
                "serviceAccount": "tessera-node",
                "rdma": {"enabled": False},
            },
            "policy": {},
            "healthPort": self.port,
        }
        path = root / f"{name}.yaml"
        path.write_text(yaml.safe_dump(config))
        self._log = root / f"{name}.log"
        self._environment = {
            **os.environ,
            "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'operator'}",
            "KUBECONFIG": str(plane.kubeconfig("operator")),
            "TESSERA_OPERATOR_CONFIG": str(path),
            "POD_NAME": name,
            "POD_NAMESPACE": NAMESPACE,
        }
        self.cost = Cost()
        self.restarts = 0
        self._before_s = 0.0  # CPU time of earlier processes
        self._ended = threading.Event()
        self.process = self._start()
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self._watching.start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "gpu_operator"],
                env=self._environment,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )

    def cpu_s(self) -> float:
        """Return its CPU time so far."""
        self._look()
        return self.cost.cpu_s

    def end(self, *, kill: bool = False) -> None:
        """End it as Kubernetes does, or, with ``kill``, as a failing machine does."""
        self._ended.set()
        self._watching.join()
        self._look()
        self.process.kill() if kill else self.process.terminate()
        self.process.wait(30)

    def _watch(self) -> None:
        """Record its cost; if it ends it is restarted, as the kubelet does."""
        while not self._ended.wait(0.5):
            self._look()
            if self.process.poll() is not None:
                self.restarts += 1
                self._before_s = self.cost.cpu_s
                self.process = self._start()

    def _look(self) -> None:
        with contextlib.suppress(OSError, IndexError):
            self.cost.cpu_s = self._before_s + used_s(self.process.pid)
            statm = Path(f"/proc/{self.process.pid}/statm").read_text().split()
            memory = int(statm[1]) * _PAGE
            self.cost.memory_bytes = max(self.cost.memory_bytes, memory)


@dataclass
class Fleet:
    """The nodes, spread over processes."""

    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(
        self,
        root: Path,
        plane: ControlPlane,
        nodes: int,
        slow: Sequence[int],
        away: Sequence[int],
        pod_lasts_s: float,
    ) -> None:
        """Start all agents; return when they run."""
        several = min(max(1, nodes // 50), 2 * len(os.sched_getaffinity(0)))
        bounds = [nodes * i // several for i in range(several + 1)]
        kubeconfigs = [
            f"--agent={plane.kubeconfig('agent')}",
            f"--kubelet={plane.kubeconfig('kubelet')}",
        ]
        for first, last in itertools.pairwise(bounds):
            command = [sys.executable, "-m", "benchmarks.scale.fleet", str(first), str(last)]
            command += [f"--root={root}", *kubeconfigs, f"--pod-lasts={pod_lasts_s}"]
            for option, numbers in (("--slow", slow), ("--away", away)):
                if numbers:
                    command += [option, *map(str, numbers)]
            self.processes.append(
                subprocess.Popen(
                    command,
                    cwd=REPOSITORY,
                    env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'operator'}"},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    preexec_fn=die_with_parent,
                )
            )
        for process in self.processes:
            _answer(process)

    def tell(self, command: str) -> int:
        """Send a command to all processes; return the sum of the answers."""
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(command + "\n")
            process.stdin.flush()
        return sum(int(_answer(process)) for process in self.processes)

    def cpu_s(self) -> float:
        """Return the CPU time of all agents so far, including the stand-ins in their processes."""
        return sum(used_s(process.pid) for process in self.processes)

    def stop(self) -> None:
        """Stop all processes."""
        for process in self.processes:
            process.kill()
            process.wait()


def _answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"a process of the fleet ended with {process.wait(10)}")
    return line
