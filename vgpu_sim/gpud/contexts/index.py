"""The CUDA contexts of a node, indexed by instance, by owner and by worker.

The index answers in a time that does not depend on how many contexts the node has, and takes no
part in their lives (see ``table``).
"""

import asyncio
import os
import socket
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path

from vgpu_sim.gpud.contexts.worker_channel import Statistics
from vgpu_sim.gpud.limits.budget import Account
from vgpu_sim.gpud.model import InstanceUuid, MigInstance, Owner
from vgpu_sim.hal.compute import spawn
from vgpu_sim.records import dataclass
from vgpu_sim.system.foreign import ForeignSockets
from vgpu_sim.system.peers import Peer


@dataclass(slots=True, eq=False)
class Context:
    """One CUDA context.

    ``adopted`` is set if an earlier gpud started the worker. ``reconnect`` is the path of the
    worker's reconnect socket; for an adopted worker without one, ``channel`` is None.
    ``opened_ns`` is the start time (CLOCK_MONOTONIC). ``born`` holds the start times of worker
    and client in clock ticks since boot, once they have been read. ``settled`` is set when the
    worker serves its client (``served``) or has ended. ``end_reported`` is set when the reason
    for the context's end has been reported, or when no report of it is needed.
    """

    instance: MigInstance
    owner: Owner
    client: Peer
    account: Account
    pid: int
    pidfd: int
    channel: socket.socket | None
    sockets: ForeignSockets
    statistics: Statistics = field(default_factory=Statistics)
    sandbox: dict[str, bool] = field(default_factory=dict)
    end_reason: str = ""
    fenced: bool = False
    paused: bool = False
    end_reported: bool = False
    wait_status: int | None = None
    reported: asyncio.Event = field(default_factory=asyncio.Event)
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    served: bool = False
    born: tuple[int, int] | None = None
    adopted: bool = False
    reconnect: Path | None = None
    opened_ns: int = field(default_factory=time.monotonic_ns)

    @property
    def answered(self) -> bool:
        """Whether the worker has answered the client, with success or an error."""
        status = self.wait_status
        refused = status is not None and os.waitstatus_to_exitcode(status) == spawn.REFUSED_STATUS
        return self.served or refused


class ContextIndex:
    """Contexts in the order in which they were inserted."""

    def __init__(self) -> None:
        self._contexts: dict[Context, None] = {}
        self._by_instance: dict[InstanceUuid, dict[Context, None]] = {}
        self._by_pid: dict[int, Context] = {}
        self._owners: dict[InstanceUuid, Counter[Owner]] = {}

    def __iter__(self) -> Iterator[Context]:
        return iter(self._contexts)

    def __contains__(self, context: object) -> bool:
        return context in self._contexts

    def __len__(self) -> int:
        return len(self._contexts)

    def of(self, uuid: InstanceUuid) -> list[Context]:
        """Return an instance's contexts, oldest first."""
        return list(self._by_instance.get(uuid, ()))

    def count(self, uuid: InstanceUuid) -> int:
        """Return how many contexts an instance has."""
        return len(self._by_instance.get(uuid, ()))

    def owners(self, uuid: InstanceUuid) -> Mapping[Owner, int]:
        """Return how many contexts of an instance each owner has."""
        return self._owners.get(uuid, {})

    def find(self, pid: int) -> Context | None:
        """Return the context that has this worker; None if there is none."""
        return self._by_pid.get(pid)

    def insert(self, context: Context) -> None:
        """Insert a context."""
        uuid = context.instance.uuid
        self._contexts[context] = None
        self._by_instance.setdefault(uuid, {})[context] = None
        # A pid that the kernel has used again belongs to the younger worker.
        self._by_pid[context.pid] = context
        self._owners.setdefault(uuid, Counter())[context.owner] += 1

    def remove(self, context: Context) -> None:
        """Remove a context. Raises KeyError if it is not in the index."""
        uuid = context.instance.uuid
        del self._contexts[context], self._by_instance[uuid][context]
        if self._by_pid.get(context.pid) is context:
            del self._by_pid[context.pid]
        owners = self._owners[uuid]
        owners[context.owner] -= 1
        if not owners[context.owner]:
            del owners[context.owner]
        if not self._by_instance[uuid]:
            del self._by_instance[uuid], self._owners[uuid]
