"""The plugin's process, which sees the simulated kubelet's directory at the kubelet's path.

Most plugins have the path ``/var/lib/kubelet`` compiled in. The command therefore runs in a
separate mount namespace, in which the simulated kubelet's directory is mounted at that path; no
other process sees this mount.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

KUBELET = "/var/lib/kubelet"
STOP_S = 30.0  # a pod's default terminationGracePeriodSeconds

# If the machine has no kubelet, /var/lib is replaced by a copy that has the directory.
_ENTER = f"""
set -eu
if [ ! -d {KUBELET} ]; then
  mkdir -p "$0"/lib
  mount --rbind /var/lib "$0"/lib
  mount -t tmpfs tmpfs /var/lib
  for entry in "$0"/lib/*; do ln -s "$entry" /var/lib/; done
  mkdir {KUBELET}
fi
mount --bind "$1" {KUBELET}
exec /bin/sh -c "$2"
"""


class CannotIsolate(Exception):
    """The machine does not allow this process to make a mount namespace."""


class PluginProcess:
    """Runs the shell command line ``command``; its environment also has KUBELET_DIR."""

    def __init__(
        self,
        command: str,
        kubelet: Path,
        scratch: Path,
        environment: Mapping[str, str],
        private: bool = True,
    ) -> None:
        self._arguments = _arguments(command, kubelet, scratch) if private else _plain(command)
        self._environment = {**os.environ, **environment, "KUBELET_DIR": str(kubelet)}
        self._log = scratch / "plugin.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self._started = 0.0

    @property
    def log(self) -> str:
        """Return what the process has printed so far, in all its runs."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def running(self) -> bool:
        """Return whether the process is running now."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process in a new session, so that its children end with it."""
        self.starts += 1
        self._started = time.monotonic()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._arguments,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def age_s(self) -> float:
        """Return the seconds since the process was last started."""
        return time.monotonic() - self._started

    def keep_alive(self) -> None:
        """Start the process again if it has ended, as the kubelet restarts a container."""
        if not self.running:
            self.start()

    def terminate(self) -> bool:
        """Send SIGTERM to the process; return whether it ended within a pod's grace period."""
        if self._process is None:
            return True
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        self._signal(signal.SIGKILL)  # the rest of its session
        return True

    def kill(self) -> None:
        """Kill the process, as the kernel does when memory runs out."""
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait()

    def _signal(self, number: int) -> None:
        assert self._process is not None
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return


def _plain(command: str) -> list[str]:
    return ["/bin/sh", "-c", command]


def cannot_isolate() -> str:
    """Return why this machine allows no mount namespace; empty if it allows one."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return "no unshare (util-linux)"
    tried = subprocess.run([*_enter(unshare), "true"], capture_output=True, text=True, check=False)
    return f"no mount namespace: {tried.stderr.strip()}" if tried.returncode else ""


def _enter(unshare: str) -> list[str]:
    enter = [unshare, "--mount", "--propagation", "private"]
    return enter if os.geteuid() == 0 else [*enter, "--user", "--map-root-user"]


def _arguments(command: str, kubelet: Path, scratch: Path) -> list[str]:
    """Return the arguments that run a command in a mount namespace. Raises CannotIsolate."""
    if problem := cannot_isolate():
        raise CannotIsolate(f"{problem}: use --kubelet-conformance-shared")
    room = scratch / "root"
    room.mkdir(exist_ok=True)
    return [*_enter("unshare"), "/bin/sh", "-c", _ENTER, str(room), str(kubelet), command]
