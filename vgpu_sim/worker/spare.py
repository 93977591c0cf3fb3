"""A spare worker: started in advance, already inside its sandbox, and assigned to one context.

A spare worker is created for contexts like the previous one, with the same instance, user,
limits and cache. Until it is claimed, it has served no client, is in no slice's control group,
and has no client's descriptors. It can be claimed as soon as its sandbox is set up, and warms up
until it is claimed.
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
    """Return what a context must have in common with a spare worker to claim it: the configuration
    without the client's choices, and the identity of the cache directory.
    """
    place = None
    if config.cache_dir is not None:
        with suppress(OSError):
            status = os.stat(config.cache_dir)
            place = (status.st_dev, status.st_ino)
    return replace(config, request=0, aperture_base=0, context_index=0), place


class Spare:
    """The zygote's side of a spare worker: a process, and the channel on which that process
    waits.
    """

    def __init__(self, config: WorkerConfig) -> None:
        self.pid = 0
        self._likeness = _likeness(config)
        self._channel, self.its_channel = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC
        )

    def set_process(self, pid: int) -> None:
        """Set the pid of the forked process, and close its end of the channel."""
        self.pid = pid
        self.its_channel.close()

    def suits(self, config: WorkerConfig) -> bool:
        """Return whether the spare worker could serve a context that has the configuration
        ``config``.
        """
        return self._likeness == _likeness(config)

    @property
    def ready(self) -> bool:
        """Whether the spare worker can be claimed."""
        return polling.is_readable(self._channel)

    def claim(self, config: WorkerConfig, client: socket.socket, gpud: socket.socket) -> bool:
        """Assign the spare worker to a context and move it into the context's control groups.
        Returns False if the worker has ended or must end.
        """
        with self._channel as channel, suppress(OSError, ValueError):
            helper_pids = map(int, channel.recv(_MAX_MESSAGE_BYTES).split())
            pids = [self.pid, *helper_pids]
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
        """End the spare worker, which is a child of this process."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._channel.close()  # only then: it would treat the end of an unread channel as a defect


class Waiting:
    """A spare worker while it waits to be claimed: the worker's side of its channel to the zygote.
    The object is created before the worker enters its sandbox.

    The sandbox forbids creating sockets and querying a descriptor's kind. The descriptors
    received later therefore replace two descriptors that the worker already has.
    """

    def __init__(self, zygote: socket.socket) -> None:
        self._zygote = zygote
        self._client, self._gpud = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._poller = select.poll()
        self._poller.register(zygote, select.POLLIN)

    @property
    def pair(self) -> tuple[socket.socket, socket.socket]:
        """Return two sockets that are connected to each other. They may be used until ``wait`` is
        called.
        """
        return self._client, self._gpud

    def report_ready(self, helper_pids: tuple[int, ...]) -> None:
        """Report that the worker can be claimed, and which other processes belong to it."""
        self._zygote.send(b"%b\n" % " ".join(map(str, helper_pids)).encode())

    def is_over(self, pause_ms: int = 0) -> bool:
        """Return whether the worker has been claimed or the zygote has gone; wait up to
        ``pause_ms`` for that.
        """
        return bool(self._poller.poll(pause_ms))

    def wait(self) -> tuple[WorkerConfig, socket.socket, socket.socket]:
        """Wait until a context claims the worker; return the arguments of ``process.run``. If the
        zygote ends, the process ends.
        """
        data, descriptors, _, _ = socket.recv_fds(self._zygote, _MAX_MESSAGE_BYTES, 2)
        if len(descriptors) != 2:
            os._exit(0)
        for received, place in zip(descriptors, (self._client, self._gpud), strict=True):
            number = place.fileno()
            os.close(number)
            if fcntl.fcntl(received, fcntl.F_DUPFD_CLOEXEC, number) != number:
                raise OSError("the number of a descriptor that must be replaced is already in use")
            os.close(received)
        self._zygote.close()
        config = WorkerConfig.from_json(spawn.decode(data)["worker"])
        return config, self._client, self._gpud
