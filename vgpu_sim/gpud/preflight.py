"""Checks before a standby: everything that could prevent this gpud from serving at once.

A gpud's pod becomes ready when the gpud stands by, and Kubernetes then ends the gpud that
serves. So a gpud that cannot read the node's state or create a socket must not become ready. The
checks run without the lock, so they use copies of the state and a socket with another name.
Control groups are not checked: they are shared with the serving gpud, and gpud also serves
without them.
"""

import os
import shutil
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

from vgpu_sim.gpud.devices import journal
from vgpu_sim.gpud.devices.inventory import Inventory
from vgpu_sim.gpud.errors import JournalError
from vgpu_sim.gpud.limits import sharing
from vgpu_sim.gpud.limits.sharing import SharingTable
from vgpu_sim.gpud.options import NodeOptions

_STATE = (journal.FILE_NAME, sharing.FILE_NAME)  # gpud starts without its other files


def check(options: NodeOptions) -> None:
    """Check everything that gpud needs in order to start.

    Raises:
        JournalError: this gpud cannot read the state of the gpud that serves now.
        OSError: a file or a socket cannot be created where gpud needs it.
    """
    _read_copies(options.state_dir)
    _write(options.state_dir)
    _bind(options.run_dir)
    if options.telemetry is not None and options.telemetry.socket.parent.is_dir():
        _bind(options.telemetry.socket.parent)


def _read_copies(state_dir: Path) -> None:
    """Read copies of the state files, because an unreadable file is moved aside."""
    with tempfile.TemporaryDirectory(prefix="gpud-") as name:
        copy = Path(name)
        for file in _STATE:
            with suppress(FileNotFoundError):
                shutil.copyfile(state_dir / file, copy / file)
        try:
            Inventory(copy)
            SharingTable(copy)
        except JournalError as err:
            text = str(err).partition("; moved to")[0].replace(str(copy), str(state_dir))
            raise JournalError(f"{text}; this gpud cannot take over") from err


def _write(directory: Path) -> None:
    with tempfile.TemporaryFile(dir=directory):
        pass


def _bind(directory: Path) -> None:
    """Create and remove a socket whose name is as long as those of gpud's sockets."""
    path = directory / f"try-{os.getpid()}.sock"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as tried:
        try:
            tried.bind(str(path))
        finally:
            path.unlink(missing_ok=True)
