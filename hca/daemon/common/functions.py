"""Record which pod holds each function of a node's HCAs, and decide which programs may open it.

The node agent assigns functions to pods. Until the agent has assigned a function, no program can
open it.
"""

import asyncio
import errno
import ipaddress
import os
import socket
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Final

from hca.binding.addresses import Address, address_of_pod, guid_of
from hca.binding.links import Link
from vgpu_sim.records import dataclass
from vgpu_sim.system import processes
from vgpu_sim.system.admin_socket.errors import Conflict, InvalidRequest, NotFound
from vgpu_sim.system.peers import Peer, PodUid, peer_pidfd_of, pod_of_process

MAX_FUNCTIONS: Final = 512
MAX_ROUTES_BYTES: Final = 1 << 20

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Binding:
    """The pod that holds a function.

    ``refused`` is the reason why the pod may not use the function; it is empty if the pod may use
    the function.
    """

    pod_uid: PodUid
    pod: str
    """The pod's namespace and name, "ns/name"."""
    addresses: tuple[IpAddress, ...] = ()
    refused: str = ""


@dataclass(slots=True)
class Function:
    """One function of the node; ``binding`` is None while no pod holds it."""

    name: str
    link: Link
    guid: bytes
    binding: Binding | None = None

    @property
    def address(self) -> Address:
        """Return the function's GUID and GIDs; the second GID is empty while no pod holds the
        function.
        """
        binding = self.binding
        ip = binding.addresses[0] if binding is not None and binding.addresses else None
        return address_of_pod(self.guid, ip)


class NotPermitted(Exception):
    """The program may not open the function; ``status`` is the errno that the program's verb
    returns.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Functions:
    """All functions of the node, found by name."""

    def __init__(self) -> None:
        self._functions: dict[str, Function] = {}

    def all(self) -> tuple[Function, ...]:
        """Return all functions in the order in which they were added."""
        return tuple(self._functions.values())

    def get(self, name: str) -> Function:
        """Return the function with a name. Raises NotFound."""
        function = self._functions.get(name)
        if function is None:
            raise NotFound(f"function {name!r} does not exist")
        return function

    def add(self, name: str, link: Link) -> Function:
        """Add a function that no pod holds. Raises Conflict, InvalidRequest."""
        if name in self._functions:
            raise Conflict(f"function {name!r} exists already")
        if len(self._functions) >= MAX_FUNCTIONS:
            raise InvalidRequest(f"cannot add more than {MAX_FUNCTIONS} functions")
        function = self._functions[name] = Function(name, link, guid_of(name))
        return function

    def find_displaced(self, name: str, binding: Binding) -> tuple[Function, ...]:
        """Return the functions that ``bind`` would take from their pods; the caller must release
        them first.

        An address belongs to one pod: if another pod gets the address, the previous holder loses
        its function. Raises NotFound.
        """
        function = self.get(name)
        if function.binding == binding:
            return ()
        requested_addresses = set(binding.addresses)
        return tuple(
            candidate
            for candidate in self._functions.values()
            if (candidate_binding := candidate.binding) is not None
            and (
                candidate is function
                or (
                    candidate_binding.pod_uid != binding.pod_uid
                    and not requested_addresses.isdisjoint(candidate_binding.addresses)
                )
            )
        )

    def bind(self, name: str, binding: Binding) -> None:
        """Assign a function to a pod.

        Raises NotFound, or Conflict if ``find_displaced`` returns any function.
        """
        if self.find_displaced(name, binding):
            raise Conflict(f"function {name!r} or its address belongs to another pod")
        self.get(name).binding = binding

    def release(self, name: str) -> bool:
        """Take a function from its pod; return whether a pod held the function. Raises NotFound."""
        function = self.get(name)
        had = function.binding is not None
        function.binding = None
        return had


@dataclass(frozen=True, slots=True)
class Doorkeeper:
    """Decides whether a program may open a function."""

    pod_of: Callable[[int], PodUid | None] = pod_of_process
    addresses_of: "Callable[[int], frozenset[IpAddress]]" = field(
        default_factory=lambda: addresses_of_process
    )

    async def admit(
        self, function: Function, client: socket.socket, peer: Peer, sender: Peer | None
    ) -> Binding:
        """Return the binding that permits a program to open a function.

        ``peer`` is the process that connected ``client``. ``sender`` is the process that sent the
        hello, or None if it is not known.

        Raises:
            NotPermitted: EACCES if the program may not open the function; EAGAIN if the node agent
                has not named the pod as the function's holder yet, or if the holder has just
                changed. The program's library repeats the request after EAGAIN, so that no
                waiting program occupies hcad or delays a handover.
        """
        # In a thread: reading blocks while another process moves processes between control groups.
        pod, senders = await asyncio.to_thread(self._pods_of, peer, sender)
        if pod is None:
            where = f"process {peer.pid} (uid {peer.uid}) is in no pod"
            if peer.pid <= 0:
                where = "the client's PID namespace is not visible: hcad's pod needs hostPID"
            raise NotPermitted(errno.EACCES, where)
        if senders != pod:
            # A connected socket keeps the credentials of the process that connected it.
            raise NotPermitted(
                errno.EACCES, f"the hello was not sent by pod {pod}, which connected"
            )
        binding = function.binding
        if binding is None or binding.pod_uid != pod:
            raise NotPermitted(
                errno.EAGAIN, f"it is not known yet whether pod {pod} holds {function.name}"
            )
        if binding.refused:
            raise NotPermitted(errno.EACCES, binding.refused)
        process_addresses = await asyncio.to_thread(self.addresses_of, peer.pid)
        if not process_addresses.issuperset(binding.addresses):
            raise NotPermitted(
                errno.EACCES, f"process {peer.pid} is not in the network namespace of {binding.pod}"
            )
        if connector_has_ended(client):
            # Its pid may belong to another process by now, so what was read by pid may be that
            # process's.
            raise NotPermitted(errno.EACCES, "the process that connected has ended")
        if function.binding != binding:
            raise NotPermitted(errno.EAGAIN, "the function has just been assigned to another pod")
        return binding

    def _pods_of(self, peer: Peer, sender: Peer | None) -> tuple[PodUid | None, PodUid | None]:
        return self.pod_of(peer.pid), None if sender is None else self.pod_of(sender.pid)


def connector_has_ended(client: socket.socket) -> bool:
    """Return whether the process that connected ``client`` has ended; before Linux 6.5 always
    False.
    """
    pidfd = peer_pidfd_of(client)
    if pidfd is None:
        return False
    try:
        return processes.has_ended(pidfd)
    finally:
        os.close(pidfd)


def addresses_of_process(pid: int, proc: Path = Path("/proc")) -> frozenset[IpAddress]:
    """Return the addresses in a process's network namespace, or none if the process has ended.

    Every process may read ``/proc/PID/net``, which shows the network namespace of process PID
    (proc_pid_net(5)). So this function needs no privilege, whereas entering the namespace would
    need CAP_SYS_ADMIN.
    """
    addresses: set[IpAddress] = set()
    address_text = ""
    for line in _lines(proc / str(pid) / "net" / "fib_trie"):
        words = line.split()
        if len(words) >= 2 and words[0] == "|--":
            address_text = words[1]
        elif words[:3] == ["/32", "host", "LOCAL"] and address_text:
            addresses.add(ipaddress.IPv4Address(address_text))
    for line in _lines(proc / str(pid) / "net" / "if_inet6"):
        digits = line.split(" ", 1)[0]
        if len(digits) == 32:
            addresses.add(ipaddress.IPv6Address(int(digits, 16)))
    return frozenset(addresses)


def _lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            return file.read(MAX_ROUTES_BYTES).decode("ascii", "replace").splitlines()
    except OSError:
        return []
