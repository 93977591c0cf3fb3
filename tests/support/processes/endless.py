"""What a product runs without end, run beside a test and ended with it."""

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator
from typing import Any

_PATIENCE_S = 60


class _Over(BaseException):
    """Ends a body: nothing that a product catches."""


@contextlib.contextmanager
def endless(
    body: Callable[..., object], *args: Any, wake: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Run a body in a thread during the block; then end it where it is in Python.

    What waits outside of Python, for a queue or a peer, does so until ``wake``.
    """

    def run() -> None:
        with contextlib.suppress(_Over):
            body(*args)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        assert thread.ident is not None
        of = ctypes.c_ulong(thread.ident)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(of, ctypes.py_object(_Over))
        wake()
        thread.join(_PATIENCE_S)
        assert not thread.is_alive(), f"{body} goes on"
