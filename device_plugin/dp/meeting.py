"""The directory in which the agent meets the processes that serve the kubelet or stand by.

The containers of one pod share it, and no other pod can reach it. It has a socket of each of these
processes, the key by which the agent authenticates itself to them, and the lock of the process
that serves. The kernel releases the lock when that process ends, and the waiting process gets it
at once.
"""

import fcntl
import os
import secrets
from pathlib import Path
from typing import Final

_KEY_BYTES: Final = 32


class Meeting:
    """The files of a directory, which is created with mode 0700 if it does not exist."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = directory

    @property
    def addresses(self) -> tuple[Path, Path]:
        """Return the sockets of the two processes that can serve the kubelet."""
        return self.address(standby=False), self.address(standby=True)

    def address(self, *, standby: bool) -> Path:
        """Return the socket of the process in the container that stands by, or in the other."""
        return self._directory / ("standby.sock" if standby else "link.sock")

    def key(self) -> bytes:
        """Return the key; the first caller creates it. Raises OSError."""
        path, fresh = self._directory / "key", self._directory / f"key-{secrets.token_hex(8)}"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
        return path.read_bytes()

    def alive_file(self, *, standby: bool) -> Path:
        """Return the file whose time of modification is the heartbeat of a supervisor."""
        return self._directory / ("standby-alive" if standby else "alive")

    def wait_for_turn(self) -> None:
        """Wait until no other process serves the kubelet; this one then serves until it ends.

        Raises OSError.
        """
        descriptor = os.open(self._directory / "turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # held until the process ends
