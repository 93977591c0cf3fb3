"""Whether this thread compiles: an operator that the compiler calls must not compile again."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_STATE = threading.local()
LOCK = threading.RLock()  # held while PyTorch infers and compiles, which changes global state


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


@contextmanager
def without_fill() -> Iterator[None]:
    """Let new tensors be as they are: deterministic mode would fill them by an operator.

    The caller holds LOCK.
    """
    before = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = before  # type: ignore[attr-defined]
