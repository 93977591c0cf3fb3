"""The lock with which end-to-end tests in two processes share the cluster."""

import threading
import time

import pytest

from support.cluster import cluster_lock
from support.cluster.cluster_lock import ClusterLock, do_once

WAIT_S = 30


@pytest.fixture(autouse=True)
def own_run(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """Give this test its own directory for locks."""
    monkeypatch.setattr(cluster_lock, "_folder", lambda: tmp_path)


def locked_soon(lock: ClusterLock, *, alone: bool) -> threading.Event:
    """Lock in a thread; return an event that is set once the lock is held."""
    has = threading.Event()

    def wait() -> None:
        lock.lock(alone=alone)
        has.set()

    threading.Thread(target=wait, daemon=True).start()
    return has


def test_an_exclusive_test_waits_for_tests_that_share_the_cluster() -> None:
    one, two, alone = ClusterLock(), ClusterLock(), ClusterLock()
    one.lock(alone=False)
    two.lock(alone=False)
    has = locked_soon(alone, alone=True)
    for shared in (one, two):
        assert not has.wait(0.1)
        shared.unlock()
    assert has.wait(WAIT_S)
    later = locked_soon(one, alone=False)
    assert not later.wait(0.1)
    alone.unlock()
    assert later.wait(WAIT_S)
    one.unlock()
    assert not any(lock.locked for lock in (one, two, alone))


def test_a_waiting_exclusive_test_precedes_later_shared_ones() -> None:
    first, alone, later = ClusterLock(), ClusterLock(), ClusterLock()
    first.lock(alone=False)
    has = locked_soon(alone, alone=True)
    time.sleep(0.1)  # it is waiting now
    has_later = locked_soon(later, alone=False)
    assert not has_later.wait(0.1)
    first.unlock()
    assert has.wait(WAIT_S)
    assert not has_later.is_set()
    alone.unlock()
    assert has_later.wait(WAIT_S)
    later.unlock()


def test_an_action_runs_once_and_again_after_a_failure() -> None:
    done: list[int] = []

    def fail() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        do_once("restored", fail)
    for number in (1, 2):
        do_once("restored", lambda number=number: done.append(number))  # type: ignore[misc]
    assert done == [1]
