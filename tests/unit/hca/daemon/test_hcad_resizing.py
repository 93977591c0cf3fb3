"""A program that requests a smaller completion queue does not delay other programs."""

import asyncio
import ctypes
import errno
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from hca.binding.addresses import address_of
from hca.binding.engine import Engine
from hca.contract import hca_objects
from hca.contract.hca import HcaCreated, HcaMessage
from hca.contract.verbs import VerbsOpcode as Op
from hca.daemon.cm.server import CmServer
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.parties import Parties, Party
from hca.daemon.programs import resizing
from hca.daemon.programs.opened_function import OpenedFunction
from hca.daemon.programs.programs import Programs
from support.rigs import hca_rig
from support.rigs.hca_rig import Client
from vgpu_sim.hal import messages
from vgpu_sim.hal.messages import Header
from vgpu_sim.system import seqpacket
from vgpu_sim.system.foreign import ForeignSockets

NATIVE = Path(__file__).parents[4] / "hca/engine"
ENTRIES = 64


async def keep_objects(*_: object) -> None:
    """Remove nothing: the test does it."""


@pytest.fixture
def pair(fresh_engine: Engine) -> Iterator[hca_rig.Pair]:
    made = hca_rig.Pair(fresh_engine)
    yield made
    made.close()


def message(kind: HcaMessage, body: ctypes.Structure | None = None) -> bytes:
    size = ctypes.sizeof(body) if body is not None else 0
    start = (messages.MAGIC, messages.PROTOCOL_VERSION, kind, 7, 0, size, 0)
    return bytes(Header(*start)) + (bytes(body) if body is not None else b"")


def resize(client: Client, entries: int, handle: int = 0) -> bytes:
    handle = handle or next(iter(client.objects._cqs))
    return message(HcaMessage.CQ_RESIZE, hca_objects.HcaCqResize(handle, entries))


def status_of(made: tuple[bytes, tuple[int, ...], str]) -> int:
    """Return the status of a reply, and close the reply's descriptors."""
    for descriptor in made[1]:
        os.close(descriptor)
    return Header.from_buffer_copy(made[0]).status


class Program:
    """A program of a function, with its end of the connection to the server."""

    def __init__(self, server: Programs, index: int, client: Client) -> None:
        ours, self.theirs = seqpacket.pair()
        for one in (ours, self.theirs):
            one.setblocking(False)
        address = address_of(index)
        party = Party.of(f"f{index}", address)
        function = OpenedFunction(index, address, Path("/"), client.objects.share, party)
        server._remove_in_steps = keep_objects  # type: ignore[method-assign]
        self.ours = ours
        self.task = asyncio.get_running_loop().create_task(
            server._serve_requests(
                ours, ForeignSockets("hca", False), b"", function, client.objects
            )
        )

    async def answer(self) -> int:
        """Return the status of the next answer."""
        await seqpacket.wait_until_readable(self.theirs.fileno())
        data, descriptors, _, _ = socket.recv_fds(self.theirs, 4096, 4)
        return status_of((data, tuple(descriptors), ""))


@pytest.mark.parametrize("entries", [ENTRIES // 2, 2 * ENTRIES])
def test_another_program_is_answered_while_one_resizes(fresh_engine, pair, entries):
    """The engine makes no iteration: only the resizing program waits, others get their replies."""

    async def act() -> None:
        server = Programs(fresh_engine, 1 << 30, Enforcer(fresh_engine, Parties()), CmServer())
        one, other = Program(server, 0, pair.a), Program(server, 1, pair.b)
        fresh_engine.suspend()
        one.theirs.send(resize(pair.a, entries))
        for _ in range(3):
            other.theirs.send(message(HcaMessage.PD_CREATE))
            assert await other.answer() == 0
        waits = entries < ENTRIES
        if not waits:
            assert await one.answer() == 0
        assert bool(server._answering) == waits
        fresh_engine.resume()
        if waits:
            assert await one.answer() == 0
        for program in (one, other):
            program.theirs.close()
            await program.task

    asyncio.run(asyncio.wait_for(act(), 60))
    cqs = pair.a.objects._cqs
    assert cqs[next(iter(cqs))].entries == entries


def test_what_was_posted_before_counts(fresh_engine, pair):
    """Five requests that the engine has not processed do not fit into four entries."""
    rounds = pair.a.objects.count_engine_visits()

    async def act() -> int:
        fresh_engine.suspend()
        for i in range(5):
            pair.qa.send(Op.RDMA_WRITE, id=i)
        resized = asyncio.get_running_loop().create_task(
            resizing.answer(pair.a.objects, resize(pair.a, 4, pair.a_send.handle))
        )
        await asyncio.sleep(0)
        fresh_engine.resume()
        return status_of(await resized)

    assert asyncio.run(act()) == errno.EINVAL
    assert pair.a.objects.count_engine_visits() >= rounds + resizing.ROUNDS
    assert pair.a_send.page.head == 5


def test_an_engine_without_a_cpu_is_not_waited_for_without_end(fresh_engine, pair, monkeypatch):
    monkeypatch.setattr(resizing, "MOST_SECONDS", 0.002)
    fresh_engine.suspend()
    assert status_of(asyncio.run(resizing.answer(pair.a.objects, resize(pair.a, 4)))) == 0
    fresh_engine.resume()


def test_a_size_that_is_refused_or_the_same_waits_for_no_turn(fresh_engine, pair, monkeypatch):
    def rounds() -> int:
        raise AssertionError

    monkeypatch.setattr(pair.a.objects, "count_engine_visits", rounds)
    for entries, status in ((0, errno.EINVAL), (ENTRIES - 1, 0)):
        made = asyncio.run(resizing.answer(pair.a.objects, resize(pair.a, entries)))
        assert status_of(made) == status


@pytest.mark.parametrize(
    ("handle", "entries", "status"),
    [(999, 4, errno.EINVAL), (0, 0, errno.EINVAL), (0, 1 << 20, errno.EINVAL)],
)
def test_what_cannot_be_resized_is_refused(pair, handle, entries, status):
    made = asyncio.run(resizing.answer(pair.a.objects, resize(pair.a, entries, handle)))
    assert status_of(made) == status
    assert made[2]


def test_the_reply_has_the_new_size(pair):
    reply, descriptors, _ = asyncio.run(resizing.answer(pair.a.objects, resize(pair.a, 5)))
    created = HcaCreated.from_buffer_copy(reply, ctypes.sizeof(Header))
    assert created.first_count == 8
    assert os.fstat(descriptors[0]).st_size == created.page_bytes
    os.close(descriptors[0])


def test_no_call_of_hcad_sleeps_in_the_engine():
    """hcad has one thread for all programs: in the engine's files, only the engine's thread may
    wait.
    """
    waits = re.compile(r"\b(sched_yield|nanosleep|clock_nanosleep|usleep|sleep|poll)\(")
    files = {path.name for path in NATIVE.rglob("*.c") if waits.search(path.read_text())}
    assert files == {"engine.c"}
