"""A node's server that can save its functions, pods and programs, and restore a predecessor's.

``handover`` describes the protocol between the two hcads.
"""

import ipaddress
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from hca.binding.links import LINKS
from hca.daemon.common.functions import Binding, Function
from hca.daemon.common.handover_state import HandoverState, Row
from hca.daemon.objects.client_objects import Objects
from hca.daemon.programs.opened_function import OpenedFunction
from hca.daemon.serving.pods import PodServer
from rdma import codec
from vgpu_sim.system.peers import PodUid


class NodeServer(PodServer):
    """Serves the functions of a node, and may take them over from a predecessor or hand them
    over.
    """

    def save(self, handover_state: HandoverState) -> Row:
        """Return the server's record for a successor.

        The server must be paused, and the engine suspended (``Engine.suspend``).
        """
        tables = self.enforcer.tables
        return {
            "last_domain": self._numbers.last_pd,
            "tables": codec.encode(tables) if tables is not None else "",
            "wires": self.wires.save(handover_state),
            "functions": [
                {
                    "name": function.name,
                    "gbps": function.link.gbps,
                    "binding": _save_binding(function.binding),
                    "listener": handover_state.add_descriptor(
                        self._listeners[function.name].fileno()
                    ),
                }
                for function in self._table.all()
            ],
            "silent": [
                {
                    "function": self._connected_to[client],
                    "socket": handover_state.add_descriptor(client.fileno()),
                }
                for client in self._silent
            ],
            "programs": [
                {
                    "function": key.decode("ascii"),
                    "mtu": objects.mtu,
                    "socket": handover_state.add_descriptor(client.fileno()),
                    "objects": objects.save(handover_state),
                }
                for client, (key, objects) in self._open.items()
            ],
        }

    def load(self, saved: Row, handover_state: HandoverState) -> Callable[[], None]:
        """Restore a predecessor's record; return a function that starts to serve the restored
        functions.

        Raises:
            OSError, ValueError, KeyError, TypeError: the record is incomplete or invalid.
        """
        self._numbers.adopt_pds(int(saved["last_domain"]))
        if saved["tables"]:  # before connections, which are evaluated with these tables
            self.enforcer.replace_tables(codec.decode(saved["tables"]))
        self.wires.load(saved["wires"], handover_state)
        listeners = [self._load_function(row, handover_state) for row in saved["functions"]]
        silent = [
            (self._table.get(str(row["function"])), self._adopt(row, handover_state))
            for row in saved["silent"]
        ]
        works = [self._load_program(row, handover_state) for row in saved["programs"]]

        def serve() -> None:
            self.enforcer.reevaluate()  # ends connections that policy denies now
            for function, listener in listeners:
                self._listen(function, listener)
            for work in works:
                self._begin(work())
            for function, client in silent:
                self._silent[client] = self._begin(self._begin_to_serve(function, client))

        return serve

    def _load_function(
        self, row: Row, handover_state: HandoverState
    ) -> tuple[Function, socket.socket]:
        function = self._table.add(str(row["name"]), LINKS[int(row["gbps"])])
        self._shared[function.name] = self._shares.new_share()
        if row["binding"] is not None:
            self._bind(function, _load_binding(row["binding"]))
        listener = socket.socket(fileno=handover_state.take_descriptor(row["listener"]))
        listener.setblocking(False)
        return function, listener

    def _load_program(
        self, row: Row, handover_state: HandoverState
    ) -> Callable[[], Coroutine[Any, Any, None]]:
        function = self._table.get(str(row["function"]))
        binding = function.binding
        if binding is None:
            raise ValueError(
                f"the handover record has a program that uses {function.name},"
                " but no pod holds this function"
            )
        opened = self._of_pod(function, binding, int(row["mtu"]))
        client = self._adopt(row, handover_state)
        objects = self._adopt_objects(opened, row["objects"], handover_state)
        return partial(self._adopted_of_pod, client, binding, opened, objects)

    async def _adopted_of_pod(
        self, client: socket.socket, binding: Binding, opened: OpenedFunction, objects: Objects
    ) -> None:
        name = opened.party.function
        self._connected[name] += 1
        entered = False
        try:
            async with self.wires.hold_wire(binding.pod_uid, binding.addresses[0], client):
                entered = True
                await self._adopted_program(client, name.encode(), opened, objects)
        finally:
            self._connected[name] -= 1
            if not entered:
                await self._remove_in_steps(opened, objects)
                client.close()


def _save_binding(binding: Binding | None) -> Row | None:
    if binding is None:
        return None
    return {
        "pod_uid": binding.pod_uid,
        "pod": binding.pod,
        "addresses": [str(address) for address in binding.addresses],
        "refused": binding.refused,
    }


def _load_binding(row: Row) -> Binding:
    addresses = tuple(ipaddress.ip_address(str(address)) for address in row["addresses"])
    return Binding(PodUid(row["pod_uid"]), str(row["pod"]), addresses, str(row["refused"]))
