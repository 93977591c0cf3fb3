"""A spare worker: started before anybody asks, behind its walls already, claimed by one context.

It is made for contexts like the one before it: same instance, user, limits and cache. Until it is
claimed it has served nobody, is in no slice's control group, and has nobody's descriptors. It can
be claimed as soon as its walls stand, and rehearses until then.
"""

import fcntl
import os
import select
import signal
import socket
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from vgpu_sim.hal.compute import spawn
from vgpu_sim.hal.compute.spawn import WorkerConfig
from vgpu_sim.system import polling
from vgpu_sim.worker import wire

_MAX_MESSAGE_BYTES: Final = 65536


def _likeness(config: WorkerConfig) -> tuple[WorkerConfig, tuple[int, int] | None]:
    """Return what a spare has been made for: all but the client's wishes, and which directory."""
    place = None
    if config.cache_dir is not None:
        with suppress(OSError):
            status = os.stat(config.cache_dir)
            place = (status.st_dev, status.st_ino)
    return replace(config, request=0, aperture_base=0, context_index=0), place


class Spare:
    """The zygote's side: a process, and the channel on which it waits."""

    def __init__(self, config: WorkerConfig) -> None:
        self.pid = 0
        self._likeness = _likeness(config)
        self._channel, self.its_channel = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC
        )

    def started(self, pid: int) -> None:
        """Take note of the process."""
        self.pid = pid
        self.its_channel.close()

    def suits(self, config: WorkerConfig) -> bool:
        """Return whether it could become the worker of this context."""
        return self._likeness == _likeness(config)

    @property
    def ready(self) -> bool:
        """Return whether it can be claimed."""
        return polling.readable(self._channel)

    def claim(self, config: WorkerConfig, client: socket.socket, gpud: socket.socket) -> bool:
        """Make it the worker of a context, in its control groups; False: it has ended, or must."""
        with self._channel as channel, suppress(OSError, ValueError):
            others = map(int, channel.recv(_MAX_MESSAGE_BYTES).split())
            pids = [self.pid, *others]
            for path in config.cgroup_procs:
                for pid in pids:
                    Path(path).write_text(f"{pid}\n")
            wire.accept_descriptors(client)
            message = spawn.encode({"type": "spawn", "worker": config.to_json()})
            socket.send_fds(channel, [message], [client.fileno(), gpud.fileno()])
            return True
        self.end()
        return False

    def end(self) -> None:
        """End it, which is this process's child."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._channel.close()  # after that: it would take the end of an unread channel for a defect


class Waiting:
    """The spare's side. Made before its walls: they do not let it make sockets, nor ask what a
    descriptor is, so what it gets takes the places of two that it has."""

    def __init__(self, zygote: socket.socket) -> None:
        self._zygote = zygote
        self._client, self._gpud = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._poller = select.poll()
        self._poller.register(zygote, select.POLLIN)

    @property
    def pair(self) -> tuple[socket.socket, socket.socket]:
        """Two sockets that are connected to each other, until it waits."""
        return self._client, self._gpud

    def be_ready(self, others: tuple[int, ...]) -> None:
        """Say that it can be claimed, and which processes of its own come with it."""
        self._zygote.send(b"%b\n" % " ".join(map(str, others)).encode())

    def is_over(self, pause_ms: int = 0) -> bool:
        """Return whether it has been claimed, or the zygote has gone, after a pause at most."""
        return bool(self._poller.poll(pause_ms))

    def wait(self) -> tuple[WorkerConfig, socket.socket, socket.socket]:
        """Wait to be claimed; ends with the zygote. Returns what a worker is run with."""
        data, descriptors, _, _ = socket.recv_fds(self._zygote, _MAX_MESSAGE_BYTES, 2)
        if len(descriptors) != 2:
            os._exit(0)
        for received, place in zip(descriptors, (self._client, self._gpud), strict=True):
            number = place.fileno()
            os.close(number)
            if fcntl.fcntl(received, fcntl.F_DUPFD_CLOEXEC, number) != number:
                raise OSError("the place of a descriptor was taken")
            os.close(received)
        self._zygote.close()
        config = WorkerConfig.from_json(spawn.decode(data)["worker"])
        return config, self._client, self._gpud
