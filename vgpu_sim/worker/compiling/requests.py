"""Compiles modules and kernels on separate threads, so that the worker's main loop can serve other
requests.
"""

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from vgpu_sim.worker.modules.images import Image, LazyImage
from vgpu_sim.worker.wire import Request

Compiled = Image | LazyImage
MOST_AT_ONCE: Final = 4  # Python threads, which share the interpreter lock


class Compilations:
    """The compilations that are running, each on a thread of its own. The main thread polls
    ``fileno`` and takes the results.
    """

    def __init__(self) -> None:
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._done: deque[tuple[Request, Compiled | Exception]] = deque()
        self._running = 0

    def fileno(self) -> int:
        return self._event

    def start(self, request: Request, compile_it: Callable[[], Compiled]) -> bool:
        """Compile the subject of a request; return False if too many are being compiled."""
        if self._running == MOST_AT_ONCE:
            return False
        threading.Thread(target=self._run, args=(request, compile_it), daemon=True).start()
        self._running += 1
        return True

    def take(self) -> list[tuple[Request, Compiled | Exception]]:
        """Return the requests whose compilation has ended, each with its result or an exception."""
        os.eventfd_read(self._event)
        ended_requests = []
        while self._done:
            ended_requests.append(self._done.popleft())
        self._running -= len(ended_requests)
        return ended_requests

    def _run(self, request: Request, compile_it: Callable[[], Compiled]) -> None:
        result: Compiled | Exception
        try:
            result = compile_it()
        except Exception as err:  # noqa: BLE001 - the main thread reports it
            result = err
        self._done.append((request, result))
        os.eventfd_write(self._event, 1)
