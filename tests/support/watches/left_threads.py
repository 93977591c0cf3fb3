"""Fails a test whose threads outlive it, because they could disturb later tests.

A watch whose server had ended, and which retried without a pause, once starved its process until
an unrelated test failed. So a test fails if product code still runs in its threads; threads that
wait for requests, idle threads of pools, and fixtures that live longer than a test are allowed.
"""

import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

PRODUCT = frozenset({"device_plugin", "facts", "gpu_operator", "hca", "mig", "rdma", "vgpu_sim"})
GRACE_S = 5.0
IDLE_S = 2.0  # longer than the pause between any two retries
_BEFORE = pytest.StashKey[set[threading.Thread]]()
_shared: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
"""Threads of fixtures that serve more than one test."""


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
    """Exempt the threads that a fixture of a wider scope starts."""
    before = set(threading.enumerate())
    try:
        return (yield)
    finally:
        if fixturedef.scope != "function":
            _shared.update(set(threading.enumerate()) - before)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Record the threads that run before a test begins."""
    item.stash[_BEFORE] = set(threading.enumerate())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail a test whose threads still execute product code a moment after its teardown."""
    result = yield
    began = time.monotonic()
    before = item.stash[_BEFORE]
    del item.stash[_BEFORE]  # the stash would keep the threads and their objects alive
    woken = {thread: (_switches(thread), began) for thread in _left(before)}
    while left := _left(before):
        now = time.monotonic()
        for thread in left:
            switches, since = _switches(thread), now
            if thread in woken and woken[thread][0] == switches:
                since = woken[thread][1]
            woken[thread] = switches, since
            if now - since > IDLE_S:
                _shared.add(thread)
        if now - began > GRACE_S:
            places = ", ".join(f"{thread.name} in {place}" for thread, place in left.items())
            raise AssertionError(f"{item.nodeid} has left at work: {places}")
        time.sleep(0.01)
    return result


def _left(before: set[threading.Thread]) -> dict[threading.Thread, str]:
    """Return new threads in product code, each with its current function."""
    new = set(threading.enumerate()) - before - set(_shared) - {threading.current_thread()}
    if not new:
        return {}
    frames = sys._current_frames()
    places = {thread: _place(frames.get(thread.ident or 0)) for thread in new}
    return {thread: place for thread, place in places.items() if place}


def _switches(thread: threading.Thread) -> str:
    """Return a thread's numbers of context switches, which change whenever it has run."""
    try:
        status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
    except OSError:
        return ""  # the thread has ended
    return status[status.index("voluntary_ctxt_switches") :]


def _place(frame: FrameType | None) -> str:
    """Return the innermost product function of a stack; empty if there is none."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] in PRODUCT:
            return f"{module}.{frame.f_code.co_qualname}"
        frame = frame.f_back
    return ""
