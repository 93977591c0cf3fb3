"""Each field in a fabric server's record for its successor, and its effect in the restored
server.
"""

import asyncio
import ctypes
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hca.binding.addresses import address_of
from hca.contract import hca
from hca.contract.hca import HcaMessage
from hca.daemon.common.handover_state import HandoverState, Row
from hca.daemon.common.quotas import Shares
from hca.daemon.netd import namespaces
from hca.daemon.serving.fabric_server import FabricServer
from support.rigs import rdma_lab
from support.rigs.recording_engine import Engine
from vgpu_sim.hal import messages
from vgpu_sim.hal.messages import Header
from vgpu_sim.system import seqpacket

TABLES = rdma_lab.tables(4, (rdma_lab.pod(0, app="ps"), rdma_lab.pod(1, app="worker")))
ONE, TWO = (letter * messages.TOKEN_BYTES for letter in (b"a", b"b"))


class Fabric(FabricServer):
    """A fabric in which programs' objects are only a word, and are not served."""

    def __init__(self, directory: Path) -> None:
        self.emptied = 0
        self.adopted: list[tuple[Any, ...]] = []
        self.listening: list[bool] = []
        super().__init__(directory, Engine(), 1 << 20, self._empty, Shares(1000))  # type: ignore[arg-type]

    def _empty(self) -> None:
        self.emptied += 1

    def open(self, listener: socket.socket, *, refusing: bool) -> None:
        self.listening.append(refusing)
        self._listener, self._refusing = listener, refusing

    def _adopt_objects(self, function: Any, saved: Row, handover_state: HandoverState) -> Any:
        return saved["word"], function.index

    async def _adopted_program(self, client: Any, key: Any, function: Any, objects: Any) -> None:
        self.adopted.append((key, function.index, objects))
        await self._serving.wait()


class Word:
    def __init__(self, word: str) -> None:
        self.word = word

    def save(self, handover_state: HandoverState) -> Row:
        return {"word": self.word}


def links(count: int) -> tuple[list[socket.socket], list[socket.socket]]:
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(count)]
    for one, _ in pairs:
        one.setblocking(False)
    return [one for one, _ in pairs], [other for _, other in pairs]


async def settle(until: Callable[[], bool]) -> None:
    for _ in range(200):
        if until():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came")


class HandedOver:
    """The record of a fabric: two members with functions 3 and 1, a program of each, and more.

    The others are a program without a member, and a connection that has not identified itself.
    All sockets are closed with this object, whatever a successor does with the descriptors.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.kept: list[socket.socket] = []
        self.second: Fabric | None = None
        first = Fabric(directory)
        mine, self.theirs = links(6)
        first._listener = seqpacket.bind(directory / "hca.sock", 0o600)
        first._numbers.adopt_pds(77)
        first.enforcer.replace_tables(TABLES)
        for token, index, client in ((ONE, 3, mine[0]), (TWO, 1, mine[1])):
            first._add_member(token, first._function(index), client)
        first._open = {  # type: ignore[assignment]
            mine[2]: (ONE, Word("one")),
            mine[3]: (TWO, Word("two")),
            mine[4]: (b"x" * 16, Word("without a member")),
        }
        first._silent = {mine[5]: None}  # type: ignore[dict-item]
        self.handover_state = HandoverState()
        self.saved = first.save(self.handover_state)
        self.handover_state.descriptors = [os.dup(one) for one in self.handover_state.descriptors]
        for one in (first._listener, *mine):
            one.close()

    def load(self) -> tuple[Fabric, Callable[[], None]]:
        second = self.second = Fabric(self.directory)
        adopt = second._adopt

        def adopt_and_keep(row: Row, handover_state: HandoverState) -> socket.socket:
            self.kept.append(adopt(row, handover_state))
            return self.kept[-1]

        second._adopt = adopt_and_keep  # type: ignore[method-assign]
        serve = second.load(self.saved, self.handover_state)
        return second, serve

    def close(self) -> None:
        if self.second is not None and self.second._listener is not None:
            self.second._listener.close()
        for one in (*self.kept, *self.theirs):
            one.close()


@pytest.fixture
def handed_over(tmp_path: Path) -> Iterator[HandedOver]:
    made = HandedOver(tmp_path)
    yield made
    made.close()


def test_a_successor_serves_members_programs_and_those_that_have_said_nothing(
    handed_over: HandedOver,
) -> None:
    saved, theirs = handed_over.saved, handed_over.theirs
    assert [row["index"] for row in saved["members"]] == [3, 1]
    assert [row["objects"] for row in saved["programs"]] == [{"word": "one"}, {"word": "two"}]
    assert len(saved["silent"]) == 1

    async def play() -> None:
        second, serve = handed_over.load()
        assert handed_over.handover_state.list_unclaimed() == []
        assert second._numbers.last_pd == 77
        assert second.enforcer.tables == TABLES
        assert second.enforcer.managed
        assert [one.index for one in second._functions.values()] == [3, 1]
        assert [one.gids for one in second.enforcer.parties.all()] == [
            address_of(index).gids for index in (3, 1)
        ]
        assert (second.listening, second.adopted) == ([], [])  # nothing before GO
        evaluated = []
        second.enforcer.reevaluate = lambda: evaluated.append(second.listening[:])  # type: ignore[method-assign]
        serve()
        # Connections that policy now denies end before a client is served; descriptors stay
        # refused.
        assert (evaluated, second.listening) == ([[]], [True])
        await settle(lambda: len(second.adopted) == 2)
        assert second.adopted == [(ONE, 3, ("one", 3)), (TWO, 1, ("two", 1))]
        # The silent connection identifies itself: a third member, which gets the lowest free index.
        hello = bytes(
            hca.HcaHello(hca.HCA_VERSION, 0, (ctypes.c_uint8 * len(ONE))(*b"c" * len(ONE)))
        )
        header = Header(
            messages.MAGIC, messages.PROTOCOL_VERSION, HcaMessage.JOIN, 1, 0, len(hello), 0
        )
        assert list(second._silent.values())
        theirs[5].send(bytes(header) + hello)
        await settle(lambda: second.members == 3)
        assert sorted(second._indices) == [0, 1, 3]
        assert second._silent == {}
        # A member that disconnects loses its function; with the last one, the fabric is empty.
        theirs[0].close()
        await settle(lambda: second.members == 2)
        assert sorted(second._indices) == [0, 1]
        assert [one.function for one in second.enforcer.parties.all()] == ["f1", "f0"]
        theirs[1].close()
        theirs[5].close()
        await settle(lambda: second.members == 0)
        assert second.emptied == 1
        await second.close()

    asyncio.run(play())


def test_without_tables_a_successor_waits_for_some(handed_over: HandedOver) -> None:
    handed_over.saved["tables"] = ""

    async def play() -> None:
        second, serve = handed_over.load()
        assert second.enforcer.tables is None
        serve()
        await second.close()

    asyncio.run(play())


def test_who_was_in_a_namespace_comes_back_or_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[int] = []

    def enter(descriptor: int) -> None:
        entered.append(descriptor)
        if descriptor == 13 or (descriptor == 14 and len(entered) == 1):
            raise OSError(1, "denied")

    monkeypatch.setattr(namespaces, "_enter", enter)
    with namespaces.inside(5, 6):
        assert entered == [5]
    assert entered == [5, 6]
    entered.clear()
    with pytest.raises(ZeroDivisionError), namespaces.inside(5, 6):
        raise ZeroDivisionError
    assert entered == [5, 6]
    entered.clear()
    with (
        pytest.raises(SystemExit, match="cannot leave a network namespace"),
        namespaces.inside(5, 13),
    ):
        pass
    entered.clear()
    with pytest.raises(OSError, match="denied"), namespaces.inside(14, 6):
        raise AssertionError("it was not entered")
    assert entered == [14]
