"""A private gpud of one user. It is started for one command, and ends with the command even if
either crashes.

This is the owner's side of the link that ``vgpu_sim.gpud.owner`` describes.
"""

import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from vgpu_sim.cli.clients import run_dirs
from vgpu_sim.cli.clients.admin import AdminClient
from vgpu_sim.gpud import owner
from vgpu_sim.gpud.errors import GpudError
from vgpu_sim.hal.messages import TOKEN_BYTES
from vgpu_sim.options import option, to_arguments
from vgpu_sim.records import dataclass
from vgpu_sim.system import python_process

GPUD_MODULE = "vgpu_sim.gpud"
START_TIMEOUT_SECONDS = 30.0
STOP_TIMEOUT_SECONDS = 10.0
_TOKEN_FILE = "token"


class StartFailed(GpudError):
    """The private gpud did not start; it printed the reason on standard error."""


@dataclass(frozen=True, slots=True)
class StandaloneOptions:
    """Options with which a private gpud is started; None selects gpud's default."""

    backend: str | None = option(default=None)
    capability: str | None = option("--cc", default=None)
    cache_dir: Path | None = option(default=None)
    budget_bytes: int | None = option("--budget", default=None)
    threads: int | None = option(default=None)
    kernel_timeout_s: float | None = option("--kernel-timeout", default=None)
    report_usage: bool = option(default=False)
    hca_socket: Path | None = option(default=None)
    clock: str | None = option(default=None)

    def arguments(self) -> list[str]:
        """Return these options as gpud's command line arguments."""
        return to_arguments(self)


class StandaloneNode:
    """A private gpud with a directory of its own. It runs from ``__enter__`` to ``__exit__``."""

    def __init__(self, parents: Iterable[Path], options: StandaloneOptions) -> None:
        self._parents = tuple(parents)
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._lock: int | None = None
        self.run_dir = Path()
        self.token_hex = secrets.token_hex(TOKEN_BYTES)

    @property
    def slices_dir(self) -> Path:
        """Return the directory of this gpud's slice sockets."""
        return self.run_dir / "slices"

    @property
    def pid(self) -> int:
        """gpud's pid; 0 before it was started."""
        return self._process.pid if self._process is not None else 0

    def __enter__(self) -> Self:
        """Start gpud and wait until it serves. Raises StartFailed, OSError."""
        run_dirs.sweep(self._parents)
        self.run_dir = run_dirs.make(self._parents)
        try:
            self._lock = run_dirs.hold(self.run_dir)
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
        """Connect to gpud's administration socket. Raises OSError."""
        return AdminClient(self.run_dir)

    def close(self) -> None:
        """End gpud and remove its directory."""
        if self._link is not None:
            with suppress(OSError):
                self._link.send(owner.DONE)
            self._link.close()
        if self._process is not None:
            try:
                self._process.wait(STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self.run_dir != Path():  # until the directory exists, this is the working directory
            shutil.rmtree(self.run_dir, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _start(self) -> None:
        assert self._lock is not None
        token_file = self.run_dir / _TOKEN_FILE
        token_file.touch(mode=0o600)
        token_file.write_text(self.token_hex, encoding="ascii")
        self._link, its = socket.socketpair()
        with its:
            self._process = subprocess.Popen(
                python_process.module_command(
                    GPUD_MODULE,
                    "--run-dir",
                    str(self.run_dir),
                    "--state-dir",
                    str(self.run_dir / "state"),
                    "--token",
                    str(token_file),
                    "--parent-fd",
                    str(its.fileno()),
                    "--log-level",
                    "WARNING",
                    *self._options.arguments(),
                ),
                env=python_process.module_environment(),
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,
                pass_fds=(its.fileno(), self._lock),
                start_new_session=True,  # Ctrl-C in a terminal must reach the program, not gpud
            )
        self._link.settimeout(START_TIMEOUT_SECONDS)
        try:
            if self._link.recv(1) == owner.READY:
                return
        except TimeoutError as err:
            message = f"gpud did not answer within {START_TIMEOUT_SECONDS:.0f} s"
            raise StartFailed(message) from err
        raise StartFailed(f"gpud ended with status {self._process.wait(STOP_TIMEOUT_SECONDS)}")
