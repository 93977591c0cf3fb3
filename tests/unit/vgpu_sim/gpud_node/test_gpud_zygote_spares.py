"""The process that serves a context: a suitable spare if there is one, else a new process."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.processes.worker_client import worker_config
from vgpu_sim import zygote as forking
from vgpu_sim.hal.compute.spawn import WorkerConfig, decode
from vgpu_sim.worker import spare as spares
from vgpu_sim.worker.spare import Spare

SPARE_PID, FORKED_PID = 1_000_001, 1_000_002


class Zygote(forking.Zygote):
    """A zygote whose forks are counted, and whose spare's end of the channel is here."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gpud, gpud = socket.socketpair()
        super().__init__(gpud)
        self.forks = 0
        self.killed: list[int] = []
        self._held: list[socket.socket] = [self.gpud, gpud]

        def fork(_be: Callable[[], None]) -> int:
            self.forks += 1
            return FORKED_PID

        def kill(pid: int, number: int) -> None:
            assert number == signal.SIGKILL
            self.killed.append(pid)

        monkeypatch.setattr(forking, "_fork", fork)
        monkeypatch.setattr(spares.os, "kill", kill)

    def give_spare(self, config: WorkerConfig, *, ready: bool = True) -> socket.socket:
        """Give the zygote a spare; return the spare's end of the channel."""
        spare = Spare(config)
        its = spare.its_channel.dup()
        spare.set_process(SPARE_PID)
        self._held += [its, spare._channel]
        if ready:
            its.send(b"\n")
        self._spare = spare
        return its

    def start(self, config: WorkerConfig) -> int:
        """Request a worker; return its pid."""
        client, gpud = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with client, gpud:
            message = {"type": "spawn", "worker": config.to_json()}
            return self._spawn(message, [client.fileno(), gpud.fileno()])

    @property
    def wants_spare(self) -> bool:
        """Return whether it will create a spare when it is idle."""
        wants = self._pause_ms() is not None
        self._wanted = None
        return wants

    def close(self) -> None:
        """Close all that it held."""
        for one in self._held:
            one.close()
        os.close(self._wakeup)
        os.close(self._wakeup_writer)


@pytest.fixture
def zygote(monkeypatch: pytest.MonkeyPatch) -> Iterator[Zygote]:
    made = Zygote(monkeypatch)
    yield made
    made.close()


def test_without_a_spare_a_worker_is_forked_and_a_spare_wanted(zygote: Zygote) -> None:
    assert not zygote.wants_spare
    assert zygote.start(worker_config()) == FORKED_PID
    assert zygote.forks == 1
    assert zygote.wants_spare


def test_a_spare_that_is_ready_is_claimed_once(zygote: Zygote) -> None:
    its = zygote.give_spare(worker_config())
    other = worker_config(context_index=3)
    assert zygote.start(other) == SPARE_PID
    data, descriptors, _, _ = socket.recv_fds(its, 65536, 4)
    assert WorkerConfig.from_json(decode(data)["worker"]) == other
    assert len(descriptors) == 2
    for descriptor in descriptors:
        os.close(descriptor)
    assert (zygote.forks, zygote.killed) == (0, [])
    assert zygote.wants_spare
    assert zygote.start(other) == FORKED_PID  # it is the worker of another context now


def test_a_spare_that_is_not_ready_yet_is_kept_for_the_next(zygote: Zygote) -> None:
    its = zygote.give_spare(worker_config(), ready=False)
    assert zygote.start(worker_config()) == FORKED_PID
    assert not zygote.wants_spare
    its.send(b"\n")
    assert zygote.start(worker_config()) == SPARE_PID
    assert (zygote.forks, zygote.killed) == (1, [])


@pytest.mark.parametrize("ready", [True, False])
def test_a_spare_for_another_kind_of_context_is_ended_once(zygote: Zygote, ready: bool) -> None:
    zygote.give_spare(worker_config(threads=2), ready=ready)
    for forks in (1, 2):
        assert zygote.start(worker_config(threads=3)) == FORKED_PID
        assert (zygote.forks, zygote.killed) == (forks, [SPARE_PID])
        assert zygote.wants_spare


def test_a_spare_that_has_ended_serves_no_context(zygote: Zygote) -> None:
    zygote.give_spare(worker_config(), ready=False).close()
    for forks in (1, 2):
        assert zygote.start(worker_config()) == FORKED_PID
        assert (zygote.forks, zygote.killed) == (forks, [SPARE_PID])
        assert zygote.wants_spare


def test_a_spare_that_cannot_join_the_slice_serves_no_context(
    zygote: Zygote, tmp_path: Path
) -> None:
    config = worker_config()
    zygote.give_spare(config)
    nowhere = str(tmp_path / "none" / "cgroup.procs")
    for forks in (1, 2):
        assert zygote.start(worker_config(cgroup_procs=(nowhere,))) == FORKED_PID
        assert (zygote.forks, zygote.killed) == (forks, [SPARE_PID])


def test_so_many_live_that_were_spares_and_no_more(zygote: Zygote) -> None:
    """Their memory stays charged to gpud's group."""
    zygote._from_spares = set(range(1, forking._MOST_FROM_SPARES))
    zygote.give_spare(worker_config())
    assert zygote.start(worker_config()) == SPARE_PID  # the last of them
    assert zygote.wants_spare
    assert zygote.start(worker_config()) == FORKED_PID
    assert not zygote.wants_spare
    zygote._from_spares.discard(SPARE_PID)
    assert zygote.start(worker_config()) == FORKED_PID
    assert zygote.wants_spare


@pytest.mark.parametrize(("threads", "killed", "wanted"), [(2, [], False), (3, [SPARE_PID], True)])
def test_what_is_expected_has_a_spare_like_it(
    zygote: Zygote, threads: int, killed: list[int], wanted: bool
) -> None:
    zygote.give_spare(worker_config(threads=2))
    zygote._expect(worker_config(threads=threads))
    assert zygote.killed == killed
    assert zygote.wants_spare == wanted


def test_a_busy_machine_creates_a_spare_later(
    zygote: Zygote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until its CPUs are less busy."""
    zygote._expect(worker_config())
    limit = forking._MOST_LOAD * (os.cpu_count() or 1)
    for load, forks in ((limit + 0.1, 0), (limit + 0.1, 0), (limit, 1)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        zygote._make_spare()
        assert zygote.forks == forks
        pause = zygote._pause_ms()
        assert (pause is None) == bool(forks)
        assert pause is None or pause > 900.0
    assert zygote._spare is not None
    zygote._spare.end()
