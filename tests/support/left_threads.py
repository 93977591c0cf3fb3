"""A test's threads end with it: one that goes on meets others, minutes later and elsewhere.

A watch whose server had gone, tried again without a pause, once flooded whatever ran in its process
until a test failed that knew nothing of it. So a test fails that leaves product code running; idle
threads of pools and fixtures that live longer than one test are no business of it.
"""

import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

PRODUCT = frozenset({"device_plugin", "gpu_operator", "mig", "rdma", "vgpu_sim"})
GRACE_S = 5.0
_BEFORE = pytest.StashKey[set[threading.Thread]]()
_shared: set[threading.Thread] = set()
"""Threads of fixtures that serve more than one test."""


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
    """Excuse what a fixture of a wider scope starts."""
    before = set(threading.enumerate())
    try:
        return (yield)
    finally:
        if fixturedef.scope != "function":
            _shared.update(set(threading.enumerate()) - before)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note what runs before a test begins."""
    item.stash[_BEFORE] = set(threading.enumerate())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail a test whose threads are still in product code a moment after its teardown."""
    result = yield
    left = _left(item.stash[_BEFORE])
    end = time.monotonic() + GRACE_S
    while left and time.monotonic() < end:
        time.sleep(0.01)
        left = _left(item.stash[_BEFORE])
    assert not left, f"{item.nodeid} has left running: {', '.join(left)}"
    return result


def _left(before: set[threading.Thread]) -> list[str]:
    """Return new threads in product code, each with where it is."""
    new = set(threading.enumerate()) - before - _shared - {threading.current_thread()}
    if not new:
        return []
    frames = sys._current_frames()
    places = {thread.name: _place(frames.get(thread.ident or 0)) for thread in new}
    return [f"{name} in {place}" for name, place in sorted(places.items()) if place]


def _place(frame: FrameType | None) -> str:
    """Return the innermost product function of a stack; empty if there is none."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] in PRODUCT:
            return f"{module}.{frame.f_code.co_qualname}"
        frame = frame.f_back
    return ""
