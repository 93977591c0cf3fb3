"""gpud's loop never blocks on a tenant's descriptor, whatever the kernel supports.

The tests assert order, not time: the loop continues while the close is blocked.
"""

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.processes.lingering import lingering_socket
from vgpu_sim.system import foreign, seqpacket
from vgpu_sim.system.foreign import MAX_UNFINISHED, ForeignSockets


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal that would wake blocked calls is not sent."""
    monkeypatch.setattr(foreign, "STUCK_SECONDS", 3600.0)


@pytest.fixture
def waking() -> Iterator[None]:
    before = signal.getsignal(foreign.WAKE_SIGNAL)
    foreign.prepare_waking()
    yield
    signal.signal(foreign.WAKE_SIGNAL, before)


Pair = Callable[[], tuple[socket.socket, socket.socket]]


@pytest.fixture
def pair() -> Iterator[Pair]:
    made: list[socket.socket] = []

    def make() -> tuple[socket.socket, socket.socket]:
        mine, its = seqpacket.pair()
        mine.setblocking(False)
        made.extend((mine, its))
        return mine, its

    yield make
    for sock in made:
        sock.close()


@contextlib.contextmanager
def send_trap(its: socket.socket) -> Iterator[None]:
    """Send a message with a descriptor whose last close waits until this context's end."""
    with lingering_socket() as linger:
        socket.send_fds(its, [b"hello"], [linger.fileno()])
        linger.close()
        yield


async def work_of_others() -> None:
    for _ in range(100):
        await asyncio.sleep(0.001)


async def all_closed(sockets: ForeignSockets) -> None:
    while sockets._unfinished:
        sockets._finished.clear()
        await sockets._finished.wait()


def run(scenario) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_a_lingering_descriptor_in_a_message_does_not_stop_the_loop(
    patient: None, pair: Pair
) -> None:
    async def scenario() -> None:
        sockets = ForeignSockets("slice", refusing=False)
        mine, its = pair()
        with send_trap(its):
            receiving = asyncio.create_task(sockets.receive(mine, 100))
            await work_of_others()
            assert not receiving.done(), "nothing waited: the test shows nothing"
        packet = await receiving
        assert (packet.data, packet.truncated) == (b"hello", True)
        sockets.end()

    run(scenario)


def test_a_message_that_is_never_read_does_not_stop_it_either(patient: None, pair: Pair) -> None:
    """Closing a socket closes the descriptors in its queue."""

    async def scenario() -> None:
        sockets = ForeignSockets("slice", refusing=False)
        mine, its = pair()
        with send_trap(its):
            sockets.close(mine)
            await work_of_others()
            assert sockets._unfinished == 1, "nothing waited: the test shows nothing"
        await all_closed(sockets)
        assert mine.fileno() == -1
        sockets.end()

    run(scenario)


def test_a_socket_that_a_worker_shares_is_closed_elsewhere_always(
    patient: None, pair: Pair
) -> None:
    async def scenario() -> None:
        sockets = ForeignSockets("slice", refusing=True)
        mine, its = pair()  # it accepts descriptors now, because the worker needs them
        with send_trap(its):
            sockets.close_shared(mine)
            await work_of_others()
            assert sockets._unfinished == 1, "nothing waited: the test shows nothing"
        await all_closed(sockets)

    run(scenario)


def test_a_blocked_call_is_woken(waking: None, pair: Pair) -> None:
    """The socket would linger twice as long as this test may take."""

    async def scenario() -> None:
        sockets = ForeignSockets("slice", refusing=False)
        mine, its = pair()
        with send_trap(its):
            assert (await sockets.receive(mine, 100)).data == b"hello"
            with send_trap(its):
                sockets.close(mine)
                await all_closed(sockets)

    run(scenario)


def test_a_process_that_is_not_prepared_for_it_is_not_woken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The signal would end it."""
    woken: list[int] = []
    monkeypatch.setattr(foreign, "STUCK_SECONDS", 0.0)
    monkeypatch.setattr(signal, "pthread_kill", lambda thread, _: woken.append(thread))
    before = signal.signal(foreign.WAKE_SIGNAL, signal.SIG_DFL)

    async def scenario() -> None:
        sockets, goes_on = ForeignSockets("test", refusing=False), threading.Event()
        sockets._submit(goes_on.wait)
        await work_of_others()
        goes_on.set()
        await all_closed(sockets)

    try:
        run(scenario)
    finally:
        signal.signal(foreign.WAKE_SIGNAL, before)
    assert woken == []


def test_a_call_queued_after_a_blocked_one_is_woken_too(waking: None, pair: Pair) -> None:
    async def scenario() -> None:
        sockets = ForeignSockets("slice", refusing=False)
        quick, _ = pair()
        mine, its = pair()
        with send_trap(its):
            sockets.close(quick)
            sockets.close(mine)
            await all_closed(sockets)

    run(scenario)


def test_a_slice_has_one_thread_and_it_ends(waking: None, pair: Pair) -> None:
    async def scenario() -> None:
        sockets = ForeignSockets("the slice's thread", refusing=False)
        for _ in range(3):
            mine, its = pair()
            its.send(b"x")
            assert await sockets.receive(mine, 100) == seqpacket.Packet(b"x", None, False)
            its.close()
            assert (await sockets.receive(mine, 100)).data == b""
            sockets.close(mine)
        named = [one for one in threading.enumerate() if one.name == "the slice's thread"]
        assert len(named) == 1
        assert named[0].daemon
        sockets.end()
        named[0].join(20)
        assert not named[0].is_alive()

    run(scenario)


def test_an_error_is_raised_where_it_was_waited_for() -> None:
    async def scenario() -> None:
        sockets = ForeignSockets("slice", refusing=False)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as unconnected:
            unconnected.setblocking(False)
            with pytest.raises(OSError):
                await sockets.receive(unconnected, 100)
        sockets.end()

    run(scenario)


def test_too_many_that_wait_make_a_slice_wait(patient: None, pair: Pair) -> None:
    async def scenario() -> None:
        sockets = ForeignSockets("slice", refusing=False)
        mine, its = pair()
        with send_trap(its):
            sockets.close(mine)
            for _ in range(MAX_UNFINISHED - 2):
                sockets.close(pair()[0])
            await asyncio.wait_for(sockets.wait_for_room(), 20)
            sockets.close(pair()[0])
            waiting = asyncio.create_task(sockets.wait_for_room())
            await work_of_others()
            assert not waiting.done()
        await waiting
        sockets.end()

    run(scenario)


def test_where_the_kernel_can_no_descriptor_comes_in(tmp_path: Path) -> None:
    """If the kernel supports it, sockets that a listener accepts refuse descriptors from their
    first message on.
    """
    listener = seqpacket.bind(tmp_path / "s.sock", 0o666)
    if not foreign.refuse_descriptors(listener):
        pytest.skip("SO_PASSRIGHTS needs Linux 6.16")
    listener.listen(1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.connect(str(tmp_path / "s.sock"))
        with pytest.raises(PermissionError):
            socket.send_fds(client, [b"x"], [0])
        accepted, _ = listener.accept()
        with accepted, pytest.raises(PermissionError):
            socket.send_fds(client, [b"x"], [0])
        assert os.fstat(0)
    listener.close()


@pytest.mark.parametrize("moment", ["while it is received", "when it has been received"])
def test_a_descriptor_for_a_cancelled_caller_is_closed(
    patient: None, pair: Pair, moment: str
) -> None:
    async def scenario() -> None:
        sockets = ForeignSockets("slice", refusing=False)
        busy = threading.Event()
        if moment == "while it is received":
            sockets._submit(busy.wait)  # the thread handles it later
        mine, its = pair()
        reading, writing = os.pipe()
        socket.send_fds(its, [b"hello"], [writing])
        os.close(writing)
        taking = asyncio.create_task(sockets.take(mine, 100))
        await asyncio.sleep(0)
        if moment == "while it is received":
            await work_of_others()
            assert sockets._unfinished == 2, "nothing waited: the test shows nothing"
        else:
            settled = foreign._settle

            def then_cancelled(future, result, unwanted) -> None:
                settled(future, result, unwanted)
                taking.cancel()

            foreign._settle = then_cancelled
        try:
            if moment == "while it is received":
                taking.cancel()
            busy.set()
            with pytest.raises(asyncio.CancelledError):
                await taking
        finally:
            if moment != "while it is received":
                foreign._settle = settled
        await all_closed(sockets)
        # It has ended: no process has the other end any more.
        await asyncio.to_thread(os.read, reading, 1)
        os.close(reading)
        sockets.end()

    run(scenario)
