"""Runs an endless function of the product beside a test, and ends it with the test."""

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator
from typing import Any

_PATIENCE_S = 60


class _Over(BaseException):
    """Ends the function: the product does not catch this exception."""


@contextlib.contextmanager
def endless(
    body: Callable[..., object], *args: Any, wake: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Run a function in a thread during the block; then end it by an exception.

    Python raises the exception only while the thread runs Python code: ``wake`` must end a wait
    for a queue or a peer.
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
