"""A node's hcad: each function has a socket, which only the pod that holds the function may open.

A function's directory is mounted into the container that uses the function. That mount gives
access to the socket, but the client must also be in the pod that the node agent named. The
directories remain when hcad ends, so that the next hcad's sockets appear in running containers.
"""

import asyncio
import errno
import logging
import resource
import socket
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from hca.binding.engine import Engine, EngineWire
from hca.binding.links import DEFAULT_LINK, Link
from hca.contract import hca
from hca.contract.cm import CmMessage
from hca.contract.fabric_files import SOCKET_NAME
from hca.contract.hca import HcaHello, HcaMessage
from hca.daemon.common.functions import (
    MAX_FUNCTIONS,
    Binding,
    Doorkeeper,
    Function,
    Functions,
    NotPermitted,
)
from hca.daemon.common.quotas import Share, Shares, usable_descriptors
from hca.daemon.policy.parties import Party
from hca.daemon.programs import requests
from hca.daemon.programs.opened_function import BOARD, DEVICE_NAME, FIRMWARE, OpenedFunction
from hca.daemon.programs.requests import Malformed
from hca.daemon.serving.server import CLASS_NAME, HELLO_TIMEOUT_SECONDS, Server
from hca.daemon.sysfs import files
from hca.daemon.wires.pod_wires import Netd, PodWires
from vgpu_sim.hal.messages import Header
from vgpu_sim.system import foreign, seqpacket
from vgpu_sim.system.foreign import ForeignSockets
from vgpu_sim.system.peers import Peer, peer_of

logger = logging.getLogger("tessera.hcad")

FUNCTIONS_DIR: Final = "functions"
CLASSES_DIR: Final = "classes"
SYS_CLASS: Final = Path("/sys/class")
MAX_CONNECTIONS_OF_FUNCTION: Final = 64
_SOCKET_MODE: Final = 0o666  # for every user of the container: access depends on the mount
_HELLOS: Final = {int(HcaMessage.OPEN): HcaHello, int(CmMessage.OPEN): HcaHello}


class PodServer(Server):
    """Serves the functions of a node, with their files below ``directory``."""

    # with a limit per function, as no pod may use up another's connections
    max_connections = MAX_FUNCTIONS * MAX_CONNECTIONS_OF_FUNCTION
    max_silent = max_connections
    managed = True

    def __init__(
        self,
        directory: Path,
        engine: Engine,
        memory_bytes: int,
        doorkeeper: Doorkeeper | None = None,
        system_classes: Path = SYS_CLASS,
        shares: Shares | None = None,
        netd: Netd | None = None,
    ) -> None:
        if shares is None:  # a node's hcad is in its sandbox by now, which refuses this call
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            shares = Shares(usable_descriptors(limit), functions=None)
        super().__init__(directory, engine, memory_bytes, lambda: None, shares)
        self._table = Functions()
        self._doorkeeper = doorkeeper or Doorkeeper()
        self._system_classes = system_classes
        self.wires = PodWires(engine, self.enforcer, self.cm.manager, netd or Netd())
        self.wire_groups = self.wires.groups
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            self._refusing = foreign.refuse_descriptors(probe)
        self._changing = 0
        """The number of functions that hcad is assigning to pods, or taking from them."""
        self._listeners: dict[str, socket.socket] = {}
        self._connected: Counter[str] = Counter()
        self._connected_to: dict[socket.socket, str] = {}
        self._holders: dict[str, Party] = {}
        self._shared: dict[str, Share] = {}

    async def close(self) -> None:
        """Close all connections and thereby remove the clients' objects."""
        await super().close()
        for listener in self._listeners.values():
            listener.close()

    def add(self, name: str, link: Link = DEFAULT_LINK) -> None:
        """Add a function and listen for programs of its pod. Raises RequestError, OSError."""
        function = self._table.add(name, link)
        home = self._directory / FUNCTIONS_DIR / name
        home.mkdir(mode=0o755, parents=True, exist_ok=True)
        files.write_classes(self._directory / CLASSES_DIR / name, self._system_classes)
        self._write(function)
        self._shared[name] = self._shares.new_share()
        listener = seqpacket.bind(home / SOCKET_NAME, _SOCKET_MODE)
        foreign.refuse_descriptors(listener)
        self._listen(function, listener)

    def _listen(self, function: Function, listener: socket.socket) -> None:
        listener.listen(socket.SOMAXCONN)
        if not self._listeners:
            self._begin(self._show())
        self._listeners[function.name] = listener
        self._begin(self._accept(listener, partial(self._begin_to_serve, function)))

    def _begin_to_serve(
        self, function: Function, client: socket.socket
    ) -> Coroutine[Any, Any, None]:
        self._connected_to[client] = function.name
        return self._serve_pod(function, client)

    async def bind(self, name: str, binding: Binding) -> None:
        """Assign a function to a pod.

        First, the function is taken from its previous pod. If the new pod gets an address of
        another pod, that pod's function is taken from it, too. The programs that use these
        functions end.

        Raises RequestError, OSError.
        """
        function = self._table.get(name)
        if function.binding == binding:
            return
        with self._change():
            for lost in self._table.find_displaced(name, binding):
                await self.release(lost.name)
            self._bind(function, binding)
            await self.enforcer.apply_owners()
        self._write(function)
        logger.info("function_bound function=%s pod=%s", name, binding.pod)

    def _bind(self, function: Function, binding: Binding) -> None:
        self._table.bind(function.name, binding)
        if binding.addresses:
            party = self._holders[function.name] = Party.of(
                function.name, function.address, binding.addresses, binding.pod, binding.pod_uid
            )
            self.enforcer.parties.add(party)

    @contextmanager
    def _change(self) -> Iterator[None]:
        self._changing += 1
        try:
            yield
        finally:
            self._changing -= 1

    async def pause(self) -> str:
        """Stop serving programs and wait until all replies are sent; see ``Programs.pause``."""
        obstacle = await super().pause()
        if not obstacle and self._changing:
            return "a function is being assigned to a pod"
        return obstacle

    async def release(self, name: str) -> None:
        """Take a function from its pod, after ending the pod's programs and removing their objects.

        Raises RequestError, OSError.
        """
        if not self._table.release(name):
            return
        programs = tuple(self._programs.pop(name.encode(), ()))
        for task in programs:
            task.cancel()
        if programs:
            with self._change():
                await asyncio.wait(programs)
        holder = self._holders.pop(name, None)
        if holder is not None:
            self.enforcer.parties.remove(holder)
            with self._change():
                await self.enforcer.apply_owners()
        self._write(self._table.get(name))
        logger.info("function_released function=%s programs=%d", name, len(programs))

    def status(self) -> list[Mapping[str, Any]]:
        """Return each function of the node with its holder and the number of its programs."""
        return [
            {
                "function": function.name,
                "pod_uid": binding.pod_uid if binding is not None else "",
                "pod": binding.pod if binding is not None else "",
                "addresses": [str(ip) for ip in binding.addresses] if binding is not None else [],
                "refused": binding.refused if binding is not None else "",
                "programs": len(self._programs.get(function.name.encode(), ())),
            }
            for function in self._table.all()
            for binding in (function.binding,)
        ]

    def _devices_on_wires(self) -> Iterator[tuple[Path, Sequence[EngineWire]]]:
        for function in self._table.all():
            binding = function.binding
            wires = (
                self.wires.engine_wires(binding.pod_uid, binding.addresses)
                if binding is not None
                else ()
            )
            if wires:
                yield self._device(function), wires

    def _device(self, function: Function) -> Path:
        return self._directory / CLASSES_DIR / function.name / CLASS_NAME / DEVICE_NAME

    def _write(self, function: Function) -> None:
        """Update the files of a function's device in place, because containers have their folder
        mounted.
        """
        files.write(self._device(function), function.address, FIRMWARE, BOARD, function.link)

    def _of_pod(self, function: Function, binding: Binding, mtu: int) -> OpenedFunction:
        """Return a function as it is opened for a program of the pod in ``binding``.

        Raises NotPermitted if another pod holds the function meanwhile.
        """
        if function.binding != binding:
            raise NotPermitted(errno.EAGAIN, "the function has just been assigned to another pod")
        name, where = function.name, SYS_CLASS / CLASS_NAME
        party, shared = self._holders[name], self._shared[name]
        return OpenedFunction(0, function.address, where, shared, party, function.link, mtu)

    async def _serve_pod(self, function: Function, client: socket.socket) -> None:
        if self._connected[function.name] >= MAX_CONNECTIONS_OF_FUNCTION:
            self._silent.pop(client, None)
            del self._connected_to[client]
            client.close()
            return
        self._connected[function.name] += 1
        sockets = ForeignSockets(function.name, self._refusing)
        try:
            peer = peer_of(client)
            async with asyncio.timeout(HELLO_TIMEOUT_SECONDS):
                packet = await sockets.receive(client, requests.MAX_REQUEST_BYTES + 1)
            self._silent.pop(client, None)
            if not packet.data:
                return
            if packet.truncated:
                raise Malformed("the message is too long, or carries descriptors")
            header, hello = requests.parse(packet.data, _HELLOS)
            try:
                if hello.version != hca.HCA_VERSION:
                    raise NotPermitted(errno.EPROTO, f"the library has version {hello.version}")
                await self._open_for_pod(function, client, sockets, header, peer, packet.sender)
            except NotPermitted as err:
                if self._log_quota.take():
                    logger.warning("open_refused function=%s reason=%r", function.name, str(err))
                await self._send(client, requests.encode(header, None, err.status))
        except (Malformed, TimeoutError, OSError) as err:
            if self._log_quota.take():
                logger.info("client_dropped reason=%r", str(err) or "timeout")
        finally:
            self._connected[function.name] -= 1
            del self._connected_to[client]
            self._silent.pop(client, None)
            sockets.close(client)
            sockets.end()

    async def _open_for_pod(
        self,
        function: Function,
        client: socket.socket,
        sockets: ForeignSockets,
        header: Header,
        peer: Peer,
        sender: Peer | None,
    ) -> None:
        """Admit a program of a pod to a function and serve it.

        Raises NotPermitted, Malformed, TimeoutError, OSError.
        """
        async with AsyncExitStack() as stack:
            with self._letting_in():  # until it counts as a program in a handover
                binding = await self._doorkeeper.admit(function, client, peer, sender)
                if not self.enforcer.is_known(self._holders[function.name]):
                    raise NotPermitted(errno.EAGAIN, f"no tables contain pod {binding.pod}")
                wire = self.wires.hold_wire(binding.pod_uid, binding.addresses[0], client)
                mtu = await stack.enter_async_context(wire)
                opened = self._of_pod(function, binding, mtu)
            await self._serve_program(client, sockets, header, function.name.encode(), opened)

    @contextmanager
    def _letting_in(self) -> Iterator[None]:
        self._opening += 1
        try:
            yield
        finally:
            self._opening -= 1
