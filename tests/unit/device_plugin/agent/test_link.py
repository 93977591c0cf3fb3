"""Calls to the process that serves the kubelet, and the effects of an agent's death."""

import errno
import socket
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from unittest import mock

import pytest

from device_plugin.dp import kubelet_side, link
from device_plugin.dp.allocations import Allocations
from device_plugin.dp.kubelet_side import KubeletServer
from device_plugin.dp.link import Link, LinkServer
from device_plugin.dp.linked_sides import LinkedSides
from device_plugin.dp.offer import HEALTHY, UNHEALTHY
from device_plugin.dp.resources import Resources
from device_plugin.dp.slices import SliceOffer
from device_plugin.errors import KubeletSideLost, KubeletSideSilent
from device_plugin.inventory.model import Gpu, MigSlice
from mig import geometry
from support.processes.endless import endless

KEY = b"k" * 32
BOARD = geometry.board("h100-80gb")
PLACE = geometry.Instance(BOARD.profile("1g.10gb"), 0)
SLICE = MigSlice("MIG-1", "GPU-1", PLACE, 1, 0, 1, "/run", 0, ())
OFFER = SliceOffer((SLICE,), (Gpu("GPU-1", 0, BOARD, HEALTHY, (SLICE,)),), "/lib")


class Recorded(Resources):
    """Resources without a kubelet: the last offer, by health."""

    def __init__(self) -> None:
        self.offered: dict[str, str] = {}
        self.changed = threading.Event()
        self.failure: OSError | None = None

    def update(self, offers) -> None:
        if self.failure:
            raise self.failure
        self.offered = {d.ID: d.health for offer in offers.values() for d in offer.devices()}
        self.changed.set()

    def connected_resources(self) -> frozenset[str]:
        return frozenset({"a/b"})

    def remove_stale_sockets(self) -> None: ...


class Side:
    """The server of a link that is running, and links to it."""

    def __init__(self, directory: Path) -> None:
        self.address = directory / "link"
        self.resources = Recorded()
        self.allocations: list[Allocations] = []
        self.woken = threading.Event()
        self._listener = Listener(str(self.address), authkey=KEY)
        self.server = KubeletServer(self._make)
        link_server = LinkServer(self._listener, self.server, self.woken)
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
        """Close the links and the listener; end the accepting thread by a last connection."""
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
    """Close an agent's connections, as its death does."""
    if link._calls is not None:
        link._calls.close()


def test_an_agent_makes_every_call(side: Side) -> None:
    link = side.link()
    link.update({"a/b": OFFER})
    assert side.resources.offered == {"MIG-1": HEALTHY}
    assert link.connected_resources() == {"a/b"}
    (allocations,) = side.allocations
    assert allocations.allocate(["MIG-1"]) is None
    assert link.has_pending()
    assert not link.forbid("MIG-1")  # it has just been allocated to a pod
    link.confirm_listed(["MIG-1"])
    assert not link.has_pending()
    assert link.forbid("MIG-1")
    assert allocations.allocate(["MIG-1"]) == "MIG-1"
    link.allow("MIG-1")
    assert allocations.allocate(["MIG-1"]) is None


def test_an_error_of_the_other_side_arrives_with_its_type(side: Side) -> None:
    side.resources.failure = OSError("socket path too long: /x")
    link = side.link()
    with pytest.raises(OSError, match="socket path too long: /x"):
        link.update({"a/b": OFFER})
    assert link.connected_resources() == {"a/b"}  # the link still works


def test_slices_forbidden_by_a_dead_agent_are_allowed_again(side: Side) -> None:
    first = side.link()
    assert first.forbid("MIG-1")
    hang_up(first)
    second = side.link()
    assert not second.has_pending()
    assert side.allocations[0].allocate(["MIG-1"]) is None


def test_offers_stay_healthy_for_a_while_without_an_agent(
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
    """Otherwise the first absence would shorten the time that the second one may last."""
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
        server.on_agent_connect()
        assert not waiting
        server.on_agent_disconnect()
        assert len(waiting) == 1


def test_an_agent_is_woken_at_once_and_at_every_change(side: Side) -> None:
    woken = threading.Semaphore(0)
    with endless(side.link().follow, woken.release, wake=side.woken.set):
        assert woken.acquire(timeout=60)
        side.woken.set()
        assert woken.acquire(timeout=60)


class LateEvent(threading.Event):
    """Is set just after the first wait has timed out."""

    def wait(self, timeout: float | None = None) -> bool:
        if self.is_set():
            return super().wait(timeout)
        self.set()
        return False


def test_a_change_between_two_signs_of_life_is_not_lost(side: Side) -> None:
    near, far = (Connection(end.detach()) for end in socket.socketpair())
    server = LinkServer(mock.Mock(), side.server, LateEvent())
    with endless(server._wake, near, wake=far.close):
        assert [far.recv() for _ in range(2)] == [False, True]


def test_an_absent_kubelet_side_is_an_error_that_is_retried(tmp_path: Path) -> None:
    link = Link(tmp_path / "link", KEY)
    with pytest.raises(KubeletSideLost):
        link.has_pending()
    came = Side(tmp_path)
    assert not link.has_pending()
    came.close()


@pytest.fixture
def short_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_REPLY_S", 0.2)


@pytest.mark.usefixtures("short_replies")
def test_a_process_that_accepts_and_stays_silent_is_an_error(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(str(tmp_path / "link"))
        stopped.listen()  # the kernel accepts for a process that is stopped
        with pytest.raises(KubeletSideSilent, match="hangs, or gets too little CPU time"):
            Link(tmp_path / "link", KEY).has_pending()


@pytest.mark.usefixtures("short_replies")
def test_a_process_that_stops_later_is_an_error_too(side: Side) -> None:
    made = side.link()
    assert not made.has_pending()
    with side.server._lock, pytest.raises(KubeletSideSilent):
        made.connected_resources()
    assert made.connected_resources() == {"a/b"}  # on a new connection


def test_an_agent_that_is_silent_counts_as_gone(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "AGENT_SILENT_S", 0.05)
    monkeypatch.setattr(kubelet_side, "AGENT_LOST_S", 0.05)
    side.link().update({"a/b": OFFER})
    side.resources.changed.clear()
    assert side.resources.changed.wait(60)
    assert side.resources.offered == {"MIG-1": UNHEALTHY}


class TestBothSides:
    """Calls to the process that serves and the one that stands by."""

    def test_each_call_reaches_both(self) -> None:
        sides = [mock.Mock(), mock.Mock()]
        for each in sides:
            each.connected_resources.return_value = frozenset()
        sides[1].connected_resources.return_value = frozenset({"a/b"})
        both = LinkedSides(sides)
        both.update({"a/b": OFFER})
        assert both.connected_resources() == {"a/b"}
        for each in sides:
            each.update.assert_called_once_with({"a/b": OFFER})

    def test_a_slice_is_forbidden_in_both_or_in_none(self) -> None:
        sides = [mock.Mock(), mock.Mock()]
        sides[0].forbid.return_value, sides[1].forbid.return_value = True, False
        assert not LinkedSides(sides).forbid("MIG-1")
        sides[0].allow.assert_called_once_with("MIG-1")
        sides[1].forbid.return_value = True
        assert LinkedSides(sides).forbid("MIG-1")

    def test_one_that_is_being_restarted_is_not_missed_and_one_that_hangs_is(self) -> None:
        first, second = mock.Mock(), mock.Mock()
        both = LinkedSides([first, second])
        first.has_pending.side_effect = KubeletSideLost("restarting")
        second.has_pending.return_value = True
        assert both.has_pending()
        first.has_pending.side_effect = KubeletSideSilent("stopped")
        with pytest.raises(KubeletSideSilent):
            both.has_pending()
        first.has_pending.side_effect = second.has_pending.side_effect = KubeletSideLost("gone")
        with pytest.raises(KubeletSideLost):
            both.has_pending()


def test_a_stranger_without_the_key_changes_nothing(side: Side) -> None:
    with pytest.raises(KubeletSideLost):
        Link(side.address, b"x" * 32).forbid("MIG-1")
    assert side.allocations[0].allocate(["MIG-1"]) is None
    assert not side.link().forbid("MIG-1")


def test_accepting_without_free_descriptors_is_retried_after_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A lasting error is retried after a pause, not in a busy loop; a closed listener ends it."""
    listener = mock.Mock()
    listener.accept.side_effect = [
        OSError(errno.EMFILE, "none left"),
        OSError("listener is closed"),
    ]
    pauses: list[float] = []
    monkeypatch.setattr(link.time, "sleep", pauses.append)
    LinkServer(listener, mock.Mock(), threading.Event()).run()
    assert pauses == [link._AGAIN_S]
