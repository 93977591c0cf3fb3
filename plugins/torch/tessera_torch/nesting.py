"""Whether this thread compiles: an operator that the compiler calls must not compile again."""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

_STATE = threading.local()
_PYTHON = (torch._C.DispatchKey.Python, torch._C.DispatchKey.PythonTLSSnapshot)
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
        with LOCK, without_fill(), _without_determinism():
            yield
    finally:
        _STATE.name = None


@contextmanager
def _without_determinism() -> Iterator[None]:
    """Let Inductor compile loops where deterministic mode would make it call PyTorch's kernels.

    The caller holds LOCK.
    """
    is_on, warns = torch._C._get_deterministic_algorithms(), _warns_only()
    torch._C._set_deterministic_algorithms(False, warn_only=False)
    try:
        yield
    finally:
        torch._C._set_deterministic_algorithms(is_on, warn_only=warns)


def _warns_only() -> bool:
    return bool(torch._C._get_deterministic_algorithms_warn_only())


@contextmanager
def quiet(names: Sequence[str]) -> Iterator[None]:
    """Let loggers of these names print nothing. The caller holds LOCK."""
    loggers = [logging.getLogger(name) for name in names]
    earlier_states = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, earlier_states, strict=True):
            logger.disabled = disabled


@contextmanager
def without_fill() -> Iterator[None]:
    """Let new tensors be as they are: deterministic mode would fill them by an operator.

    That mode also fills tensors where PyTorch has excluded modes in Python from this thread's
    dispatch (``torch.tensor``); inference and compilation need them. The caller holds LOCK.
    """
    earlier_setting = torch._C._get_deterministic_fill_uninitialized_memory()
    torch._C._set_deterministic_fill_uninitialized_memory(False)
    excluded = torch._C._dispatch_tls_local_exclude_set()
    for key in _PYTHON:
        excluded = excluded.remove(key)
    try:
        with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded):
            yield
    finally:
        torch._C._set_deterministic_fill_uninitialized_memory(earlier_setting)


def hide_from_dynamo(kernel: Any) -> Any:
    """Return a kernel that Dynamo does not look into, as it does not into those in C++.

    In a function that it compiled only in part, it would compile each frame that an operator runs.
    """
    from torch._C._dynamo import eval_frame

    code = getattr(kernel, "__code__", None) or getattr(type(kernel).__call__, "__code__", None)
    if code is not None:
        skip = eval_frame._FrameAction.SKIP
        eval_frame.set_code_exec_strategy(code, eval_frame._FrameExecStrategy(skip, skip))
    return kernel
