"""Programs that open their function before hcad knows their pod: the libraries wait for it."""

import asyncio
import errno
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hca.binding.engine import Engine
from hca.daemon.common.functions import Binding
from support.kept import native_parts
from support.rigs.pod_node import IP, ONE, A, Node
from vgpu_sim.native import build, catalogue
from vgpu_sim.system import foreign

VERBS = """
import ctypes, os, sys
verbs = ctypes.CDLL(sys.argv[1] + "/libibverbs.so.1", use_errno=True)
verbs.ibv_get_device_list.restype = verbs.ibv_open_device.restype = ctypes.c_void_p
listed = ctypes.cast(verbs.ibv_get_device_list(None), ctypes.POINTER(ctypes.c_void_p))
if listed[0] and len(sys.argv) > 2:
    print("listed", flush=True)
    sys.stdin.readline()
opened = listed[0] and verbs.ibv_open_device(ctypes.c_void_p(listed[0]))
print("opened" if opened else f"failed {ctypes.get_errno()}")
"""
"""A program that lists and opens the device; with a second argument, it waits for a line between
the two.
"""
CONNECTIONS = """
import ctypes, sys
rdmacm = ctypes.CDLL(sys.argv[1] + "/librdmacm.so.1", use_errno=True)
rdmacm.rdma_create_event_channel.restype = ctypes.c_void_p
opened = rdmacm.rdma_create_event_channel()
print("opened" if opened else f"failed {ctypes.get_errno()}")
"""
LATE_S = 2.5
"""When the pod becomes known: later than hcad itself ever waited, and than the libraries log
nothing.
"""
Started = Callable[..., Awaitable[asyncio.subprocess.Process]]


@pytest.fixture(scope="module")
def libraries() -> Path:
    native_parts.build_once("libibverbs.so.1", "librdmacm.so.1", "libtessera_hca.so")
    return build.LIBRARIES / catalogue.RDMA


def play(
    directory: Path,
    engine: Engine,
    libraries: Path,
    work: Callable[[Node, Started], Awaitable[None]],
) -> None:
    """Run ``work`` while hcad serves function A, which no pod holds yet."""

    async def serve() -> None:
        foreign.prepare_waking()
        node = Node(directory, engine)
        node.server.add(A)
        socket = directory / "functions" / A / "hca.sock"
        pipe = asyncio.subprocess.PIPE

        async def start(program: str, *arguments: str, **variables: str):
            environment = os.environ | {"TESSERA_HCA": str(socket)} | variables
            command = (sys.executable, "-c", program, str(libraries), *arguments)
            return await asyncio.create_subprocess_exec(
                *command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe
            )

        try:
            await work(node, start)
        finally:
            await node.server.close()

    asyncio.run(serve())


@pytest.mark.parametrize("program", [VERBS, CONNECTIONS], ids=["verbs", "rdma_cm"])
def test_a_function_opens_as_soon_as_its_pod_is_known(
    tmp_path: Path, engine: Engine, libraries: Path, program: str
) -> None:
    async def work(node: Node, start: Started) -> None:
        process = await start(program)
        await asyncio.sleep(LATE_S)
        assert process.returncode is None
        await node.server.bind(A, Binding(ONE, "ns/one", (IP,)))
        said, logged = await process.communicate()
        assert said == b"opened\n", logged

    play(tmp_path, engine, libraries, work)


def test_a_long_wait_is_logged_once_and_then_its_failure(
    tmp_path: Path, engine: Engine, libraries: Path
) -> None:
    async def work(node: Node, start: Started) -> None:
        process = await start(CONNECTIONS, TESSERA_WAIT_S="3")
        said, logged = await process.communicate()
        assert said == b"failed %d\n" % errno.ENODEV
        begun, failed = logged.decode().splitlines()
        socket = f"{tmp_path}/functions/{A}/hca.sock"
        assert begun.startswith(f"tessera: hcad does not open {socket} yet: waiting for the node's")
        assert failed.startswith(f"tessera: hcad has not opened {socket} for 3 s (TESSERA_WAIT_S)")

    play(tmp_path, engine, libraries, work)


@pytest.mark.parametrize("wait_s", ["0", "1"])
def test_afterwards_opening_fails_with_eagain_and_one_line(
    tmp_path: Path, engine: Engine, libraries: Path, wait_s: str
) -> None:
    """The pod loses its function between the listing of its device and the opening."""

    async def work(node: Node, start: Started) -> None:
        await node.server.bind(A, Binding(ONE, "ns/one", (IP,)))
        process = await start(VERBS, "and stop", TESSERA_WAIT_S=wait_s)
        assert process.stdout is not None
        assert await process.stdout.readline() == b"listed\n"
        await node.server.release(A)
        said, logged = await process.communicate(b"go on\n")
        assert said == b"failed %d\n" % errno.EAGAIN
        (line,) = logged.decode().splitlines()
        assert f"for {wait_s} s (TESSERA_WAIT_S)" in line
        assert "open_refused in the logs of hcad" in line

    play(tmp_path, engine, libraries, work)


def test_a_refused_pod_does_not_wait(tmp_path: Path, engine: Engine, libraries: Path) -> None:
    async def work(node: Node, start: Started) -> None:
        await node.server.bind(A, Binding(ONE, "ns/one", (), "hostNetwork"))
        process = await start(VERBS, TESSERA_WAIT_S="3600")
        said, logged = await process.communicate()
        assert said.startswith(b"failed")
        assert logged.count(b"Permission denied") == 1

    play(tmp_path, engine, libraries, work)
