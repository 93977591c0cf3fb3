"""A real hcad, in its sandbox, imports device memory, and a successor keeps it."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hca.contract import hca
from hca.contract.hca import HcaMessage
from hca.contract.hca_objects import HcaDeviceSegment, HcaSegmentDevice
from hca.contract.verbs import VerbsAccess
from support.processes import hcad_process
from support.processes.gpud_process import wait_until
from support.processes.hcad_process import Connection, member, program
from vgpu_sim.hal import direct
from vgpu_sim.hal.direct import DirectGrant, ExportRequest
from vgpu_sim.system import python_process
from vgpu_sim.worker.memory import create_populated

TOKEN = b"t" * 32
SIZE = 2 << 20


class Gpud:
    """A gpud, and a context's worker, as hcad sees them."""

    def __init__(self, directory: Path) -> None:
        self.link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link.settimeout(60)
        self.link.connect(str(directory / direct.SOCKET_NAME))
        self.link.send(TOKEN)

    def lend(self) -> socket.socket:
        """Answer a request with memory; return the worker's end."""
        query = ExportRequest.decode(self.link.recv(direct.MAX_MESSAGE_BYTES))
        assert query.pid == os.getpid()
        its, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            answer = direct.encode_answer(query.request, 0)
            socket.send_fds(self.link, [answer], [its.fileno()])
        memory = create_populated("test", SIZE)
        socket.send_fds(ours, [bytes(DirectGrant(0, 0, 4096, SIZE))], [memory])
        os.close(memory)
        ours.settimeout(60)
        return ours


def borrow(connection: Connection, gpud: Gpud) -> tuple[int, int, socket.socket]:
    """Register device memory as a program; return the handles and the worker's end."""
    connection.send(HcaMessage.SEGMENT_DEVICE, HcaSegmentDevice(0x1000, 4096))
    end = gpud.lend()
    data, _fds, _flags, _address = socket.recv_fds(connection.socket, 1 << 16, 8)
    made = HcaDeviceSegment.from_buffer_copy(data, len(data) - 16)
    assert made.offset == 4096
    pd = connection.create(HcaMessage.PD_CREATE)
    wanted = hca.HcaMrCreate(pd, VerbsAccess.LOCAL_WRITE, 0x1000, 4096, 1)
    wanted.pieces[0] = hca.HcaPiece(made.handle, 0, made.offset, 4096)
    return made.handle, connection.create(HcaMessage.MR_CREATE, wanted), end


def let_go(connection: Connection, segment: int, key: int) -> None:
    """Destroy the region and the segment of device memory, even if it was revoked."""
    connection.create(HcaMessage.MR_DESTROY, hca.HcaHandle(key))
    connection.create(HcaMessage.SEGMENT_DESTROY, hca.HcaHandle(segment))


def test_it_is_borrowed_revoked_and_handed_over(tmp_path: Path) -> None:
    with hcad_process.running(tmp_path) as old, member(tmp_path, TOKEN).socket:
        one = program(tmp_path, TOKEN)
        gpud = Gpud(tmp_path)
        gone, kept = borrow(one, gpud), borrow(one, gpud)
        gone[2].shutdown(socket.SHUT_WR)
        assert gone[2].recv(1) == b""
        with hcad_process.running(tmp_path, "--take-over"):
            assert old.wait(60) == 0
            assert gpud.link.recv(1) == b"", "a gpud looks for hcad again"
            gpud.link.close()
            gpud = Gpud(tmp_path)
            kept[2].setblocking(False)
            with pytest.raises(BlockingIOError):
                kept[2].recv(1)
            kept[2].settimeout(60)
            kept[2].shutdown(socket.SHUT_WR)
            assert kept[2].recv(1) == b"", "the successor sees the end, too"
            another = borrow(one, gpud)
            let_go(one, *another[:2])
            assert another[2].recv(1) == b""
            let_go(one, *gone[:2])
            let_go(one, *kept[:2])
            late = borrow(one, gpud)
            one.close()
            assert late[2].recv(1) == b"", "what a program has ends with it"
            for sock in (gpud.link, *(made[2] for made in (gone, kept, another, late))):
                sock.close()


_STRANGER = """
import os, socket, sys
link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
link.settimeout(60)
os.setuid(12345)
link.connect(sys.argv[1])
try:
    link.send(bytes(32))
    print(len(link.recv(1)))
except ConnectionError:
    print(0)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT RUN: needs root to act as another user")
def test_another_user_cannot_export_memory(tmp_path: Path) -> None:
    with hcad_process.running(tmp_path), member(tmp_path, TOKEN).socket:
        place = tmp_path / direct.SOCKET_NAME
        tmp_path.chmod(0o755)
        place.chmod(0o666)  # as on a node, where gpud has no capabilities
        done = subprocess.run(
            [sys.executable, "-c", _STRANGER, str(place)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout == "0\n", done.stderr


def test_a_node_s_hcad_listens_for_its_gpud(tmp_path: Path) -> None:
    """gpud can connect without capabilities, although it is root: the socket's mode permits it."""
    ready = tmp_path / "ready"
    with subprocess.Popen(
        python_process.module_command(
            *(
                "hca.daemon.serving.node",
                "--directory",
                str(tmp_path),
                "--ready-file",
                str(ready),
            )
        ),
        env=python_process.module_environment(),
    ) as node:
        try:
            place = tmp_path / direct.SOCKET_NAME
            wait_until(lambda: ready.exists() and ready.stat().st_size > 0)
            assert stat.S_IMODE(place.stat().st_mode) == 0o666
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as gpud:
                gpud.settimeout(60)
                gpud.connect(str(place))
                gpud.send(b"too short for a token")
                assert gpud.recv(1) == b""
        finally:
            node.terminate()
            assert node.wait(60) == 0
