"""What a gpud that stands by tries out: all that could keep it from serving at once.

Its pod becomes ready when it stands by, and Kubernetes then ends the gpud that serves. A gpud that
cannot read the node's state or make a socket must not get so far. Everything is tried without the
lock, so on copies of the state, and on a socket of another name. Control groups are not tried: they
are shared with the gpud that serves, and one that may not make any serves without them.
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

_STATE = (journal.FILE_NAME, sharing.FILE_NAME)  # no other file keeps gpud from serving


def check(options: NodeOptions) -> None:
    """Try what a start needs.

    Raises:
        JournalError: this gpud cannot read the state of the one that serves.
        OSError: a file or a socket cannot be made where gpud needs it.
    """
    _read_copies(options.state_dir)
    _write(options.state_dir)
    _bind(options.run_dir)
    if options.telemetry is not None and options.telemetry.socket.parent.is_dir():
        _bind(options.telemetry.socket.parent)


def _read_copies(state_dir: Path) -> None:
    """Read the state; a file that cannot be read is moved aside, so only copies are read."""
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
    """Make a socket of a name as long as those that gpud makes, and remove it."""
    path = directory / f"try-{os.getpid()}.sock"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as tried:
        try:
            tried.bind(str(path))
        finally:
            path.unlink(missing_ok=True)
