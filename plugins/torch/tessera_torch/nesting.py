"""Whether this thread compiles: an operator that the compiler calls must not compile again."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_STATE = threading.local()


class Nested(Exception):
    """The compiler has called an operator that has no kernel yet."""


@contextmanager
def compiling(name: str) -> Iterator[None]:
    """Compile an operator. Raises Nested if this thread compiles another one."""
    outer = getattr(_STATE, "name", None)
    if outer is not None:
        raise Nested(f"the compiler needs {name} to compile {outer}")
    _STATE.name = name
    try:
        yield
    finally:
        _STATE.name = None
