"""Unusual answers of providers: numbers without a request, ranges up to the end of memory."""

import errno
import fcntl
import os
import socket
from pathlib import Path

import pytest

from hca.daemon.objects.providers import Providers
from support.rigs.direct_rig import SIZE, FakeGpud, borrow, lend, run
from vgpu_sim.hal import direct
from vgpu_sim.hal.direct import DirectGrant, ExportRequest
from vgpu_sim.system import seqpacket

SEALS = (fcntl.F_SEAL_SHRINK, fcntl.F_SEAL_GROW)


def test_an_answer_without_a_request_is_dropped_with_its_connection(tmp_path: Path) -> None:
    """The answer's descriptor is closed, and later answers of the same gpud are used."""

    async def body(served: Providers, gpud: FakeGpud) -> None:
        its, end = seqpacket.pair()
        socket.send_fds(gpud.link, [direct.encode_answer(99, 0)], [its.fileno()])
        its.close()
        await seqpacket.wait_until_readable(end.fileno())
        assert end.recv(1) == b""
        end.close()
        gpud.link.send(direct.encode_answer(98, errno.ESRCH))
        served.release(await borrow(served, 4096))
        assert len(gpud.requests) == 1
        gpud.link.send(direct.encode_answer(gpud.requests[0].request, errno.ESRCH))  # once more
        served.release(await borrow(served, 4096))

    run(tmp_path, body, lend())


@pytest.mark.parametrize("over", [0, 1])
def test_a_range_may_end_where_its_memory_ends(tmp_path: Path, over: int) -> None:
    async def body(served: Providers, gpud: FakeGpud) -> None:
        size = SIZE - 4096 + over
        if over:
            with pytest.raises(OSError, match="did not send sealed memory") as refused:
                await borrow(served, size)
            assert refused.value.errno == errno.EPROTO
        else:
            served.release(await borrow(served, size))

    run(tmp_path, body, lend())


@pytest.mark.parametrize("missing", [None, *SEALS])
def test_memory_needs_every_seal(tmp_path: Path, missing: int | None) -> None:
    def send(end: socket.socket, request: ExportRequest) -> None:
        memory = os.memfd_create("test", os.MFD_ALLOW_SEALING)
        os.truncate(memory, SIZE)
        os.posix_fallocate(memory, 0, SIZE)
        for seal in SEALS:
            if seal != missing:
                fcntl.fcntl(memory, fcntl.F_ADD_SEALS, seal)
        socket.send_fds(end, [bytes(DirectGrant(0, 0, 0, SIZE))], [memory])
        os.close(memory)

    async def body(served: Providers, gpud: FakeGpud) -> None:
        if missing is None:
            served.release(await borrow(served, 4096))
        else:
            with pytest.raises(OSError, match="did not send sealed memory"):
                await borrow(served, 4096)

    run(tmp_path, body, send)
