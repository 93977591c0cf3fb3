"""A fabric's server that can save its state for a successor, and restore a predecessor's state.

``handover`` describes the protocol between the two hcads.
"""

import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from hca.daemon.common.handover_state import HandoverState, Row
from hca.daemon.serving.server import Server
from rdma import codec
from vgpu_sim.system.foreign import ForeignSockets


class FabricServer(Server):
    """Serves a fabric, and may take it over from a predecessor or hand it over."""

    def save(self, handover_state: HandoverState) -> Row:
        """Return the server's record for a successor.

        The server must be paused, and the engine suspended (``Engine.suspend``).
        """
        assert self._listener is not None
        tables = self.enforcer.tables
        return {
            "listener": handover_state.add_descriptor(self._listener.fileno()),
            "silent": [handover_state.add_descriptor(client.fileno()) for client in self._silent],
            "last_domain": self._numbers.last_pd,
            "tables": codec.encode(tables) if tables is not None else "",
            "members": [
                {
                    "token": token.hex(),
                    "index": self._functions[token].index,
                    "socket": handover_state.add_descriptor(client.fileno()),
                }
                for token, client in self._members.items()
            ],
            "programs": [
                {
                    "token": token.hex(),
                    "socket": handover_state.add_descriptor(client.fileno()),
                    "objects": objects.save(handover_state),
                }
                for client, (token, objects) in self._open.items()
                if token in self._functions
            ],
        }

    def load(self, saved: Row, handover_state: HandoverState) -> Callable[[], None]:
        """Restore a predecessor's record; return a function that starts to serve the restored
        fabric.

        Raises:
            OSError, ValueError, KeyError, TypeError: the record is incomplete or invalid.
        """
        listener = socket.socket(fileno=handover_state.take_descriptor(saved["listener"]))
        listener.setblocking(False)
        self._numbers.adopt_pds(int(saved["last_domain"]))
        if saved["tables"]:  # before connections, which are evaluated with these tables
            self.enforcer.replace_tables(codec.decode(saved["tables"]))
        silent = [self._adopt({"socket": place}, handover_state) for place in saved["silent"]]
        works: list[Callable[[], Coroutine[Any, Any, None]]] = []
        for row in saved["members"]:
            token, client = bytes.fromhex(row["token"]), self._adopt(row, handover_state)
            self._add_member(token, self._function(int(row["index"])), client)
            works.append(partial(self._adopted_member, client, token))
        for row in saved["programs"]:
            token, client = bytes.fromhex(row["token"]), self._adopt(row, handover_state)
            objects = self._adopt_objects(self._functions[token], row["objects"], handover_state)
            function = self._functions[token]
            works.append(partial(self._adopted_program, client, token, function, objects))

        def serve() -> None:
            self.enforcer.reevaluate()  # ends connections that policy denies now
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
