"""A node's server that hands over what it has: functions, who holds them, and their programs.

``handover`` says who asks whom, and when.
"""

import ipaddress
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from hca.binding.links import LINKS
from hca.daemon.common.functions import Binding, Function
from hca.daemon.common.handover_state import Luggage, Row
from hca.daemon.objects.client_objects import Objects
from hca.daemon.programs.opened_function import OpenedFunction
from hca.daemon.serving.pods import PodServer
from rdma import codec
from vgpu_sim.system.peers import PodUid


class NodeServer(PodServer):
    """Serves the functions of a node, and may take over from another or hand over to it."""

    def save(self, luggage: Luggage) -> Row:
        """Write everything for a successor; this server is paused and the engine held."""
        tables = self.enforcer.tables
        return {
            "last_domain": self._numbers.last_pd,
            "tables": codec.encode(tables) if tables is not None else "",
            "wires": self.wires.save(luggage),
            "functions": [
                {
                    "name": function.name,
                    "gbps": function.link.gbps,
                    "binding": _saved(function.binding),
                    "listener": luggage.pack(self._listeners[function.name].fileno()),
                }
                for function in self._table.all()
            ],
            "silent": [
                {"function": self._connected_to[client], "socket": luggage.pack(client.fileno())}
                for client in self._silent
            ],
            "programs": [
                {
                    "function": key.decode("ascii"),
                    "mtu": objects.mtu,
                    "socket": luggage.pack(client.fileno()),
                    "objects": objects.save(luggage),
                }
                for client, (key, objects) in self._open.items()
            ],
        }

    def load(self, saved: Row, luggage: Luggage) -> Callable[[], None]:
        """Take over what a predecessor saved; return what begins to serve it.

        Raises:
            OSError, ValueError, KeyError, TypeError: what is missing or makes no sense.
        """
        self._numbers.adopt_pds(int(saved["last_domain"]))
        if saved["tables"]:  # before anybody is connected, who would be judged without them
            self.enforcer.switch(codec.decode(saved["tables"]))
        self.wires.load(saved["wires"], luggage)
        listeners = [self._load_function(row, luggage) for row in saved["functions"]]
        silent = [
            (self._table.get(str(row["function"])), self._adopt(row, luggage))
            for row in saved["silent"]
        ]
        works = [self._load_program(row, luggage) for row in saved["programs"]]

        def serve() -> None:
            self.enforcer.parties_changed()  # ends what policy denies by now
            for function, listener in listeners:
                self._listen(function, listener)
            for work in works:
                self._begin(work())
            for function, client in silent:
                self._silent[client] = self._begin(self._begin_to_serve(function, client))

        return serve

    def _load_function(self, row: Row, luggage: Luggage) -> tuple[Function, socket.socket]:
        function = self._table.add(str(row["name"]), LINKS[int(row["gbps"])])
        self._shared[function.name] = self._shares.share()
        if row["binding"] is not None:
            self._bind(function, _binding(row["binding"]))
        listener = socket.socket(fileno=luggage.take(row["listener"]))
        listener.setblocking(False)
        return function, listener

    def _load_program(self, row: Row, luggage: Luggage) -> Callable[[], Coroutine[Any, Any, None]]:
        function = self._table.get(str(row["function"]))
        binding = function.binding
        if binding is None:
            raise ValueError(f"a program of {function.name}, which nobody holds")
        opened = self._of_pod(function, binding, int(row["mtu"]))
        client = self._adopt(row, luggage)
        objects = self._adopt_objects(opened, row["objects"], luggage)
        return partial(self._adopted_of_pod, client, binding, opened, objects)

    async def _adopted_of_pod(
        self, client: socket.socket, binding: Binding, opened: OpenedFunction, objects: Objects
    ) -> None:
        name = opened.party.function
        self._connected[name] += 1
        entered = False
        try:
            async with self.wires.held(binding.pod_uid, binding.addresses[0], client):
                entered = True
                await self._adopted_program(client, name.encode(), opened, objects)
        finally:
            self._connected[name] -= 1
            if not entered:
                self._dismiss(opened, objects)
                client.close()


def _saved(binding: Binding | None) -> Row | None:
    if binding is None:
        return None
    return {
        "pod_uid": binding.pod_uid,
        "pod": binding.pod,
        "addresses": [str(one) for one in binding.addresses],
        "refused": binding.refused,
    }


def _binding(row: Row) -> Binding:
    addresses = tuple(ipaddress.ip_address(str(one)) for one in row["addresses"])
    return Binding(PodUid(row["pod_uid"]), str(row["pod"]), addresses, str(row["refused"]))
