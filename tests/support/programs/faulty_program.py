"""A program whose system calls fail where a test specifies, and the hcad in this process that
serves it.
"""

import asyncio
import os
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hca.binding.engine import Engine
from hca.contract.fabric_files import SOCKET_NAME
from hca.daemon.common.quotas import Shares
from hca.daemon.serving.server import Server
from support.kept import native_parts
from support.processes import hcad_process
from support.programs.c_programs import compile_program
from support.rigs.share_room import open_descriptors, room
from vgpu_sim.config import TOKEN_VARIABLE
from vgpu_sim.native import build, catalogue
from vgpu_sim.system import foreign, seqpacket

MEMORY_BYTES = 1 << 30
ANSWER_SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    """The program's report of a call, and its objects afterwards."""

    error: int
    failed: bool
    """Whether a system call was made to fail."""
    descriptors: int
    mappings: int
    works: bool
    """Whether requests complete on the earlier objects, and memory has its content."""


def compile_faulty_program(directory: Path) -> Path:
    """Compile the program against freshly built libraries, and return its path."""
    native_parts.build_once("libibverbs.so.1", "librdmacm.so.1", "libtessera_hca.so")
    libraries = build.LIBRARIES / catalogue.RDMA
    return compile_program(
        *(directory, "hca_faults", f"-L{libraries}", f"-Wl,-rpath,{libraries}"),
        *("-l:librdmacm.so.1", "-l:libibverbs.so.1"),
        *(f"-I{catalogue.RDMA_CLIENTS / 'librdmacm'}", f"-I{catalogue.INCLUDE}"),
    )


class FaultyProgram:
    """A running program; one event loop drives all of it."""

    def __init__(self, engine: Engine, memory_bytes: int = MEMORY_BYTES) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="f-", dir="/tmp")
        self.shares = Shares(2000, 1 << 26, 1 << 24)
        folder = Path(self._folder.name)
        self._server = Server(folder, engine, memory_bytes, lambda: None, self.shares)
        self._path, self._token = folder / SOCKET_NAME, secrets.token_bytes(32)
        self._member: hcad_process.Connection | None = None
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, program: Path, *arguments: str) -> None:
        """Serve, and start the program."""
        foreign.prepare_waking()
        listener = seqpacket.bind(self._path, 0o600)
        self._server.open(listener, refusing=foreign.refuse_descriptors(listener))
        self._member = await asyncio.to_thread(hcad_process.member, self._path.parent, self._token)
        self._process = await asyncio.create_subprocess_exec(
            *(str(program), *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=os.environ | {"TESSERA_HCA": str(self._path), TOKEN_VARIABLE: self._token.hex()},
        )
        assert await self._line() == b"ready\n"

    async def close(self) -> None:
        """End the program by closing its input, then the server."""
        if self._process is not None:
            await self._process.communicate(b"")  # without input, communicate() would not close it
        if self._member is not None:
            self._member.close()
        await self._server.close()
        self._folder.cleanup()

    async def make(self, kind: str, place: int = -1) -> Answer:
        """Make the program create an object while its system call number ``place`` fails; -1: none
        fails.
        """
        return await self._ask(f"make {kind} {place}")

    async def drop(self, kind: str) -> Answer:
        """Make the program remove the object that it created last."""
        return await self._ask(f"drop {kind} -1")

    def footprint(self) -> tuple[Any, ...]:
        """Return all objects that hcad holds for the function, and what it has charged it for."""
        (function,) = self._server._functions.values()
        party = function.party
        objects = [
            (one._room, *(len(table) for table in _tables(one)))
            for _, one in self._server._open.values()
        ]
        counted = party.queue_pairs, party.region_bytes, party.steers, dict(party.members)
        return room(function.share), objects, counted, open_descriptors()

    async def _ask(self, line: str) -> Answer:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        error, failed, descriptors, mappings, works = map(int, (await self._line()).split())
        return Answer(error, bool(failed), descriptors, mappings, bool(works))

    async def _line(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), ANSWER_SECONDS)
        assert line, f"the program ended with {await self._process.wait()}"
        return line


def _tables(objects: Any) -> tuple[Any, ...]:
    """Return the objects of a program by their kind."""
    return (
        *(objects._pds, objects._channels, objects._cqs, objects._segments, objects._regions),
        *(objects._windows, objects._paths, objects._srqs, objects._qps),
    )
