"""Modules that are compiled beside the worker's main loop, so that nobody else waits for them."""

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from vgpu_sim.worker.modules.images import Image
from vgpu_sim.worker.wire import Request

MOST_AT_ONCE: Final = 4  # threads of Python: they share its lock


class Compilations:
    """A thread for each; results are taken by the main thread, which polls ``fileno``."""

    def __init__(self, compile_image: Callable[[bytes], Image]) -> None:
        self._compile = compile_image
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._done: deque[tuple[Request, Image | Exception]] = deque()
        self._running = 0

    def fileno(self) -> int:
        return self._event

    def start(self, request: Request, data: bytes) -> bool:
        """Compile the image of a request; False: there are too many already."""
        if self._running == MOST_AT_ONCE:
            return False
        threading.Thread(target=self._run, args=(request, data), daemon=True).start()
        self._running += 1
        return True

    def take(self) -> list[tuple[Request, Image | Exception]]:
        """Return the requests that have been compiled, each with its image or what went wrong."""
        os.eventfd_read(self._event)
        taken = []
        while self._done:
            taken.append(self._done.popleft())
        self._running -= len(taken)
        return taken

    def _run(self, request: Request, data: bytes) -> None:
        result: Image | Exception
        try:
            result = self._compile(data)
        except Exception as err:  # noqa: BLE001 - the main thread answers for it
            result = err
        self._done.append((request, result))
        os.eventfd_write(self._event, 1)
