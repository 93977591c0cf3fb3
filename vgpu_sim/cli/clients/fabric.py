"""Membership of a run in a fabric. The run joins the fabric's hcad, or starts an hcad that ends by
itself.

A fabric is a folder of this user that contains hcad's socket. A process that joins the fabric or
starts hcad holds the lock in the folder; hcad takes the same lock when it ends, and then removes
the folder.
"""

import ctypes
import fcntl
import ipaddress
import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from hca.binding.wire import WireInterface
from hca.contract import hca
from hca.contract.fabric_files import ADMIN_NAME, LOCK_NAME, SOCKET_NAME
from hca.contract.hca import HcaDevice, HcaHello, HcaMessage
from vgpu_sim.cli.clients import fabric_policy
from vgpu_sim.hal import direct, messages
from vgpu_sim.hal.messages import Header
from vgpu_sim.system import polling, python_process
from vgpu_sim.system.socket_paths import MAX_PATH_BYTES

HCAD_MODULE: Final = "hca.daemon"
START_TIMEOUT_SECONDS: Final = 30.0
JOIN_TIMEOUT_SECONDS: Final = 10.0
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}", re.ASCII)
_FOLDER: Final = "tessera-fabrics-"


class FabricFailed(Exception):
    """The HCA is unavailable; the message states why."""


class FabricMember:
    """Membership of a run in a fabric, from ``__enter__`` to ``__exit__``."""

    def __init__(
        self,
        parents: Iterable[Path],
        name: str,
        token_hex: str,
        memory_bytes: int,
        labels: Mapping[str, str] | None = None,
        policies: Sequence[fabric_policy.Document] = (),
        wire: WireInterface | None = None,
        segment: bool = False,
        bytes_per_second: int = 0,
    ) -> None:
        """Describe a member, which joins in ``__enter__``. ``labels`` identify the member to
        policies; ``policies`` are applied to the fabric.
        """
        self._wire = wire
        self._segment = segment
        self._bytes_per_second = bytes_per_second
        self._parents = tuple(parents)
        self._name = name
        self._token = bytes.fromhex(token_hex)
        self._memory_bytes = memory_bytes
        self._labels = labels
        self._policies = policies
        self._link: socket.socket | None = None
        self.directory = Path()
        self.sysfs = Path()
        """The folder for tools in place of /sys/class/infiniband, where they look for a folder
        named after the device.
        """
        self.address = ""
        """The address of the member's function, by which rdma_cm reaches the member: its last
        GID.
        """

    @property
    def socket_path(self) -> Path:
        """Return the path of hcad's socket for programs of this member."""
        return self.directory / SOCKET_NAME

    def __enter__(self) -> Self:
        """Join the fabric. Raises FabricFailed, PolicyError, AdminRefused, OSError."""
        self.directory = _folder(self._parents) / self._name
        lock = _lock(self.directory)
        try:
            device = self._join()
            if device is None:
                self._start()
                device = self._join()
            if device is None:
                raise FabricFailed("hcad does not answer")
            try:
                self._introduce(device)
            except BaseException:
                self._hang_up()
                raise
        finally:
            os.close(lock)
        self._check_wire(device)
        self.sysfs = Path(os.fsdecode(device.sysfs)).parent
        gid = ipaddress.IPv6Address(bytes(device.gids[hca.HCA_GIDS - 1]))
        self.address = str(gid.ipv4_mapped or gid)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._hang_up()

    def _hang_up(self) -> None:
        if self._link is not None:
            self._link.close()

    def _introduce(self, device: HcaDevice) -> None:
        """Apply the fabric's policies to this member, before its programs run."""
        address = str(ipaddress.IPv6Address(bytes(device.gids[1])).ipv4_mapped)
        name = f"run-{address.replace('.', '-')}"
        member = fabric_policy.Member(name, self._labels or {})
        fabric_policy.change(self.directory, self._policies, introduced={address: member})

    def _join(self) -> HcaDevice | None:
        """Connect to the fabric's hcad; return None if no hcad listens."""
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            link.settimeout(JOIN_TIMEOUT_SECONDS)
            link.connect(str(self.socket_path))
            link.send(_hello(self._token))
            reply = link.recv(messages.MAX_MESSAGE_BYTES)
        except TimeoutError:
            link.close()
            raise FabricFailed(f"hcad did not answer within {JOIN_TIMEOUT_SECONDS:.0f} s") from None
        except OSError:  # no process listens, or hcad was about to end
            link.close()
            return None
        if not reply:
            link.close()
            return None
        self._link = link
        return _device(reply)

    def _wire_options(self) -> tuple[str, ...]:
        if self._wire is None:
            return ()
        addresses = self._wire.addresses
        named = self._wire.name if len(addresses) > 1 else str(addresses[0].ip)
        rate = ("--wire-rate", str(self._bytes_per_second)) if self._bytes_per_second else ()
        return ("--wire", named, *(("--segment",) if self._segment else ()), *rate)

    def _check_wire(self, device: HcaDevice) -> None:
        """Check that the fabric uses this run's wire, which the fabric's first member chose. Raises
        FabricFailed.
        """
        gids = [bytes(gid) for gid in device.gids]
        for address in self._wire.addresses if self._wire is not None else ():
            if address.gid not in gids:
                self.__exit__(None, None, None)
                raise FabricFailed(
                    f"fabric {self._name} exists already,"
                    f" but its members do not use the address {address.ip}"
                )

    def _start(self) -> None:
        """Start hcad and wait until it serves. Raises FabricFailed, OSError."""
        reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            process = subprocess.Popen(
                python_process.module_command(
                    HCAD_MODULE,
                    "--directory",
                    str(self.directory),
                    "--ready-fd",
                    str(writing),
                    "--memory",
                    str(self._memory_bytes),
                    "--shared-loopback",
                    *self._wire_options(),
                ),
                env=python_process.module_environment(),
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,
                pass_fds=(writing,),
                start_new_session=True,  # hcad serves all members of the fabric, not this run alone
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        try:
            if polling.is_readable(reading, START_TIMEOUT_SECONDS) and os.read(reading, 1):
                return
        finally:
            os.close(reading)
        process.kill()
        raise FabricFailed(f"hcad ended with status {process.wait()}")


def direct_socket(parents: Iterable[Path], name: str) -> Path:
    """Return the path of the socket at which gpud finds a fabric's hcad. The socket may not exist
    yet. Raises OSError.
    """
    return _folder(parents) / name / direct.SOCKET_NAME


@contextmanager
def lock_fabric(parents: Iterable[Path], name: str) -> Iterator[Path]:
    """Lock a fabric that has members, and yield its folder. Raises FabricFailed, OSError."""
    directory = _folder(parents) / name
    if not (directory / SOCKET_NAME).exists():
        raise FabricFailed(
            f"fabric {name!r} has no members: `tessera run --hca --fabric {name}` puts a run on it"
        )
    lock = _lock(directory)
    try:
        yield directory
    finally:
        os.close(lock)


def _folder(parents: Iterable[Path]) -> Path:
    """Return this user's folder of fabrics; create it if missing. Raises OSError."""
    for parent in parents:
        folder = parent / f"{_FOLDER}{os.geteuid()}"
        longest = folder / ("n" * 32) / ADMIN_NAME
        if len(os.fsencode(longest)) > MAX_PATH_BYTES:
            continue
        with suppress(OSError):
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700)
            status = folder.lstat()
            private = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
            if private and status.st_uid == os.geteuid():
                return folder
    raise OSError(f"no usable folder among {', '.join(map(str, parents))}")


def _lock(directory: Path) -> int:
    """Create a fabric's folder and lock it; return the descriptor that holds the lock."""
    while True:
        directory.mkdir(mode=0o700, exist_ok=True)
        try:
            lock = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:  # a fabric that ends removes its folder
            continue
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(OSError):
            if os.path.samestat(os.fstat(lock), os.stat(directory / LOCK_NAME)):
                return lock
        os.close(lock)


def _hello(token: bytes) -> bytes:
    hello = HcaHello(hca.HCA_VERSION, 0, (ctypes.c_uint8 * messages.TOKEN_BYTES)(*token))
    header = Header(
        messages.MAGIC,
        messages.PROTOCOL_VERSION,
        HcaMessage.JOIN,
        1,
        0,
        ctypes.sizeof(hello),
    )
    return bytes(header) + bytes(hello)


def _device(reply: bytes) -> HcaDevice:
    header = Header.from_buffer_copy(reply)
    if header.status:
        raise FabricFailed(f"hcad refused the request: {os.strerror(header.status)}")
    return HcaDevice.from_buffer_copy(reply, ctypes.sizeof(Header))
