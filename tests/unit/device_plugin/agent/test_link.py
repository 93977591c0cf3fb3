"""The kubelet's side in its own process: what an agent can ask, and what its death changes."""

import errno
import socket
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Listener
from pathlib import Path
from unittest import mock

import pytest

from device_plugin.dp import kubelet_side, link
from device_plugin.dp.allocations import Allocations
from device_plugin.dp.kubelet_side import KubeletServer
from device_plugin.dp.link import Link, LinkServer
from device_plugin.dp.offer import HEALTHY, UNHEALTHY
from device_plugin.dp.resources import Resources
from device_plugin.dp.slices import SliceOffer
from device_plugin.errors import KubeletSideLost
from device_plugin.inventory.model import Gpu, MigSlice
from mig import geometry
from support.processes.endless import endless

KEY = b"k" * 32
BOARD = geometry.board("h100-80gb")
PLACE = geometry.Instance(BOARD.profile("1g.10gb"), 0)
SLICE = MigSlice("MIG-1", "GPU-1", PLACE, 1, 0, 1, "/run", 0, ())
OFFER = SliceOffer((SLICE,), (Gpu("GPU-1", 0, BOARD, HEALTHY, (SLICE,)),), "/lib")


class Recorded(Resources):
    """Resources without a kubelet: what was offered last, by health."""

    def __init__(self) -> None:
        self.offered: dict[str, str] = {}
        self.changed = threading.Event()
        self.failure: OSError | None = None

    def update(self, offers) -> None:
        if self.failure:
            raise self.failure
        self.offered = {d.ID: d.health for offer in offers.values() for d in offer.devices()}
        self.changed.set()

    def connected(self) -> frozenset[str]:
        return frozenset({"a/b"})


class Side:
    """A running kubelet's side, and links to it."""

    def __init__(self, directory: Path) -> None:
        self.address = directory / "link"
        self.resources = Recorded()
        self.allocations: list[Allocations] = []
        self.woken = threading.Event()
        self._listener = Listener(str(self.address), authkey=KEY)
        server = KubeletServer(self._make)
        link_server = LinkServer(self._listener, server, self.woken)
        self._accepting = threading.Thread(target=link_server.run, daemon=True)
        self._accepting.start()
        self._links: list[Link] = []

    def _make(self, allocations: Allocations) -> Resources:
        self.allocations.append(allocations)
        return self.resources

    def link(self) -> Link:
        self._links.append(Link(self.address, KEY))
        return self._links[-1]

    def close(self) -> None:
        """Remove the socket, and see the threads end: what comes last wakes the one that accepts."""
        for made in self._links:
            hang_up(made)
        self.woken.set()
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(self.address))
            self._listener.close()
        self._accepting.join(60)
        assert not self._accepting.is_alive()


@pytest.fixture
def side(tmp_path: Path) -> Iterator[Side]:
    made = Side(tmp_path)
    yield made
    made.close()


def hang_up(link: Link) -> None:
    """What the death of an agent does to its connections."""
    if link._calls is not None:
        link._calls.close()


def test_an_agent_offers_condemns_and_asks(side: Side) -> None:
    link = side.link()
    link.update({"a/b": OFFER})
    assert side.resources.offered == {"MIG-1": HEALTHY}
    assert link.connected() == {"a/b"}
    (allocations,) = side.allocations
    assert allocations.allocate(["MIG-1"]) is None
    assert link.pending()
    assert not link.condemn("MIG-1")  # it is on its way to a pod
    link.listed(["MIG-1"])
    assert not link.pending()
    assert link.condemn("MIG-1")
    assert allocations.allocate(["MIG-1"]) == "MIG-1"
    link.spare("MIG-1")
    assert allocations.allocate(["MIG-1"]) is None


def test_an_error_of_the_other_side_arrives_as_what_it_is(side: Side) -> None:
    side.resources.failure = OSError("socket path too long: /x")
    link = side.link()
    with pytest.raises(OSError, match="socket path too long: /x"):
        link.update({"a/b": OFFER})
    assert link.connected() == {"a/b"}  # and the link is as good as before


def test_what_a_dead_agent_condemned_is_spared_for_the_next(side: Side) -> None:
    first = side.link()
    assert first.condemn("MIG-1")
    hang_up(first)
    second = side.link()
    assert not second.pending()
    assert side.allocations[0].allocate(["MIG-1"]) is None


def test_offers_stand_while_an_agent_is_away_and_not_for_good(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = side.link()
    link.update({"a/b": OFFER})
    side.resources.changed.clear()
    monkeypatch.setattr(kubelet_side, "AGENT_LOST_S", 0.05)
    hang_up(link)
    assert side.resources.offered == {"MIG-1": HEALTHY}
    assert side.resources.changed.wait(60)
    assert side.resources.offered == {"MIG-1": UNHEALTHY}


def test_an_agent_that_came_back_has_the_whole_time_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the first absence would count for the second."""
    waiting: list[object] = []

    class Timer:
        daemon = False

        def __init__(self, after_s: float, action: Callable[[], None]) -> None:
            del after_s, action
            waiting.append(self)

        def start(self) -> None: ...

        def cancel(self) -> None:
            waiting.remove(self)

    monkeypatch.setattr(kubelet_side.threading, "Timer", Timer)
    server = KubeletServer(lambda allocations: Recorded())
    for _ in range(2):
        server.agent_came()
        assert not waiting
        server.agent_went()
        assert len(waiting) == 1


def test_an_agent_is_woken_at_once_and_at_every_change(side: Side) -> None:
    woken = threading.Semaphore(0)
    with endless(side.link().follow, woken.release, wake=side.woken.set):
        assert woken.acquire(timeout=60)
        side.woken.set()
        assert woken.acquire(timeout=60)


def test_nobody_there_is_an_error_that_is_tried_again(tmp_path: Path) -> None:
    link = Link(tmp_path / "link", KEY)
    with pytest.raises(KubeletSideLost):
        link.pending()
    came = Side(tmp_path)
    assert not link.pending()
    came.close()


def test_a_stranger_without_the_key_changes_nothing(side: Side) -> None:
    with pytest.raises(KubeletSideLost):
        Link(side.address, b"x" * 32).condemn("MIG-1")
    assert side.allocations[0].allocate(["MIG-1"]) is None
    assert not side.link().condemn("MIG-1")


def test_whoever_accepts_for_a_machine_without_descriptors_takes_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What lasts is tried again after a pause, not as fast as a CPU can; a closed listener ends it."""
    listener = mock.Mock()
    listener.accept.side_effect = [
        OSError(errno.EMFILE, "none left"),
        OSError("listener is closed"),
    ]
    pauses: list[float] = []
    monkeypatch.setattr(link.time, "sleep", pauses.append)
    LinkServer(listener, mock.Mock(), threading.Event()).run()
    assert pauses == [link._AGAIN_S]
