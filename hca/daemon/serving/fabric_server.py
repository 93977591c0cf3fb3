"""A fabric's server that hands over what it has: what it writes, and what a successor makes of it.

``handover`` says who asks whom, and when.
"""

import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from hca.daemon.common.handover_state import Luggage, Row
from hca.daemon.serving.server import Server
from rdma import codec
from vgpu_sim.system.foreign import ForeignSockets


class FabricServer(Server):
    """Serves a fabric, and may take over from another or hand over to it."""

    def save(self, luggage: Luggage) -> Row:
        """Write everything for a successor; this server is paused and the engine held."""
        assert self._listener is not None
        tables = self.enforcer.tables
        return {
            "listener": luggage.pack(self._listener.fileno()),
            "silent": [luggage.pack(client.fileno()) for client in self._silent],
            "last_domain": self._numbers.last_pd,
            "tables": codec.encode(tables) if tables is not None else "",
            "members": [
                {
                    "token": token.hex(),
                    "index": self._functions[token].index,
                    "socket": luggage.pack(client.fileno()),
                }
                for token, client in self._members.items()
            ],
            "programs": [
                {
                    "token": token.hex(),
                    "socket": luggage.pack(client.fileno()),
                    "objects": objects.save(luggage),
                }
                for client, (token, objects) in self._open.items()
                if token in self._functions
            ],
        }

    def load(self, saved: Row, luggage: Luggage) -> Callable[[], None]:
        """Take over what a predecessor saved; return what begins to serve it.

        Raises:
            OSError, ValueError, KeyError, TypeError: what is missing or makes no sense.
        """
        listener = socket.socket(fileno=luggage.take(saved["listener"]))
        listener.setblocking(False)
        self._numbers.adopt_pds(int(saved["last_domain"]))
        if saved["tables"]:  # before anybody is connected, who would be judged without them
            self.enforcer.switch(codec.decode(saved["tables"]))
        silent = [self._adopt({"socket": place}, luggage) for place in saved["silent"]]
        works: list[Callable[[], Coroutine[Any, Any, None]]] = []
        for row in saved["members"]:
            token, client = bytes.fromhex(row["token"]), self._adopt(row, luggage)
            self._add_member(token, self._function(int(row["index"])), client)
            works.append(partial(self._adopted_member, client, token))
        for row in saved["programs"]:
            token, client = bytes.fromhex(row["token"]), self._adopt(row, luggage)
            objects = self._adopt_objects(self._functions[token], row["objects"], luggage)
            function = self._functions[token]
            works.append(partial(self._adopted_program, client, token, function, objects))

        def serve() -> None:
            self.enforcer.parties_changed()  # ends what policy denies by now
            self.open(listener, refusing=True)
            for work in works:
                self._begin(work())
            for client in silent:
                self._silent[client] = self._begin(self._serve(client))

        return serve

    async def _adopted_member(self, client: socket.socket, token: bytes) -> None:
        sockets = ForeignSockets("hca", self._refusing)
        with suppress(OSError):
            await sockets.receive(client, 1)
        sockets.close(client)
        self._remove_member(token)
