"""One user's private gpud: started for a command, gone with it, whatever happens to either.

Both sides hold one end of a socket pair. gpud writes a byte when it serves, its owner one when it
is done; at that, or when the owner's end closes without it because the owner died, gpud ends its
workers and itself and removes the run directory. If the owner died gpud also ends what the command
left running: processes of this user that carry the run's token in their environment.
"""

import asyncio
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from vgpu_sim.driver import interpreter, processes, slices
from vgpu_sim.driver.admin_client import AdminClient
from vgpu_sim.driver.errors import DriverError
from vgpu_sim.driver.model import new_instance_uuid
from vgpu_sim.hal.messages import TOKEN_BYTES

GPUD_MODULE = "vgpu_sim.gpud"
START_TIMEOUT_SECONDS = 30.0
STOP_TIMEOUT_SECONDS = 10.0
_TOKEN_FILE = "token"
_DEAD_OWNER_SCANS = 40
_SCAN_PAUSE_SECONDS = 0.05
_READY = b"1"
_DONE = b"0"


class StartFailed(DriverError):
    """The private gpud did not come up; it said why on standard error."""


@dataclass(frozen=True, slots=True)
class StandaloneOptions:
    """How the private gpud is started; None is gpud's own default."""

    backend: str | None = None
    capability: str | None = None
    cache_dir: Path | None = None
    budget_bytes: int | None = None
    threads: int | None = None

    def arguments(self) -> list[str]:
        """Return gpud's command line options."""
        values = {
            "--backend": self.backend,
            "--cc": self.capability,
            "--cache-dir": self.cache_dir,
            "--budget": self.budget_bytes,
            "--threads": self.threads,
        }
        given = ((name, str(value)) for name, value in values.items() if value is not None)
        return [word for option in given for word in option]


class StandaloneNode:
    """A private gpud in a private directory, from ``__enter__`` to ``__exit__``."""

    def __init__(self, parents: Iterable[Path], options: StandaloneOptions) -> None:
        self._parents = tuple(parents)
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self.run_dir = Path()
        self.token_hex = secrets.token_hex(TOKEN_BYTES)

    @property
    def slices_dir(self) -> Path:
        """Where its slice sockets are."""
        return self.run_dir / "slices"

    @property
    def pid(self) -> int:
        """gpud's pid, 0 before it was started."""
        return self._process.pid if self._process is not None else 0

    def __enter__(self) -> Self:
        """Start it and wait until it serves. Raises StartFailed, OSError."""
        self.run_dir = make_run_dir(self._parents)
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def admin(self) -> AdminClient:
        """Connect to it. Raises OSError."""
        return AdminClient(self.run_dir)

    def close(self) -> None:
        """End it and remove its directory."""
        if self._link is not None:
            with suppress(OSError):
                self._link.send(_DONE)
            self._link.close()
        if self._process is not None:
            try:
                self._process.wait(STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self.run_dir, ignore_errors=True)

    def _start(self) -> None:
        token_file = self.run_dir / _TOKEN_FILE
        token_file.touch(mode=0o600)
        token_file.write_text(self.token_hex, encoding="ascii")
        self._link, its = socket.socketpair()
        with its:
            self._process = subprocess.Popen(
                interpreter.module_command(
                    GPUD_MODULE,
                    *("--run-dir", str(self.run_dir), "--state-dir", str(self.run_dir / "state")),
                    *("--token", str(token_file), "--parent-fd", str(its.fileno())),
                    *("--log-level", "WARNING", *self._options.arguments()),
                ),
                env=interpreter.module_environment(),
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,
                pass_fds=(its.fileno(),),
                start_new_session=True,  # a terminal's Ctrl-C is the program's, not gpud's
            )
        self._link.settimeout(START_TIMEOUT_SECONDS)
        try:
            if self._link.recv(1) == _READY:
                return
        except TimeoutError as err:
            message = f"gpud did not answer within {START_TIMEOUT_SECONDS:.0f} s"
            raise StartFailed(message) from err
        raise StartFailed(f"gpud ended with status {self._process.wait(STOP_TIMEOUT_SECONDS)}")


class ParentWatch:
    """gpud's side of the link to its owner. ``on_end`` is called once, when it is closed."""

    def __init__(self, descriptor: int, on_end: Callable[[], None]) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(False)
        self._on_end = on_end
        self.owner_died = False
        """Whether the link ended without the owner's word that it is done."""
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._ended)

    def ready(self) -> None:
        """Tell the owner that gpud serves."""
        with suppress(OSError):
            self._socket.send(_READY)

    def _ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        try:
            self.owner_died = self._socket.recv(1) != _DONE
        except OSError:
            self.owner_died = True
        self._on_end()


def make_run_dir(parents: Iterable[Path]) -> Path:
    """Make a private directory where slice sockets' paths are short enough.

    Raises:
        OSError: none of the parents can be used.
    """
    for parent in parents:
        try:
            directory = Path(tempfile.mkdtemp(prefix="tessera-", dir=parent))
        except OSError:
            continue
        longest = directory / "slices" / new_instance_uuid() / slices.SOCKET_NAME
        if len(os.fsencode(longest)) <= slices.MAX_PATH_BYTES:
            return directory
        directory.rmdir()
    raise OSError(f"no usable directory among {', '.join(map(str, parents))}")


def end_what_is_left(token: bytes) -> None:
    """End what a dead owner's command left running."""
    quiet_scans = 0
    for _ in range(_DEAD_OWNER_SCANS):
        quiet_scans = 0 if _kill_holders_of(token.hex()) else quiet_scans + 1
        if quiet_scans == 2:  # once more, for a child that had not called exec yet
            return
        time.sleep(_SCAN_PAUSE_SECONDS)


def _kill_holders_of(token_hex: str) -> int:
    needle = token_hex.encode()
    killed = 0
    for entry in processes.PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            if needle in (entry / "environ").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
                killed += 1
    return killed
