"""The lock with which end-to-end tests in two processes share the cluster."""

import threading
import time

import pytest

from support.cluster import cluster_lock
from support.cluster.cluster_lock import ClusterLock, Scopes, do_once

WAIT_S = 30


@pytest.fixture(autouse=True)
def own_run(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """Give this test its own directory for locks."""
    monkeypatch.setattr(cluster_lock, "_folder", lambda: tmp_path)


ALL = frozenset({"one", "two"})
ONE, TWO = frozenset({"one"}), frozenset({"two"})


def locked_soon(lock: ClusterLock, *, shared: Scopes = ALL, alone: Scopes) -> threading.Event:
    """Lock in a thread; return an event that is set once the lock is held."""
    has = threading.Event()

    def wait() -> None:
        lock.lock(shared=shared, alone=alone)
        has.set()

    threading.Thread(target=wait, daemon=True).start()
    return has


def test_an_exclusive_test_waits_for_tests_that_share_the_cluster() -> None:
    one, two, alone = ClusterLock(), ClusterLock(), ClusterLock()
    one.lock(shared=ALL)
    two.lock(shared=ALL)
    has = locked_soon(alone, alone=ALL)
    for shared in (one, two):
        assert not has.wait(0.1)
        shared.unlock()
    assert has.wait(WAIT_S)
    later = locked_soon(one, alone=frozenset())
    assert not later.wait(0.1)
    alone.unlock()
    assert later.wait(WAIT_S)
    one.unlock()
    assert not any(lock.locked for lock in (one, two, alone))


def test_a_waiting_exclusive_test_precedes_later_shared_ones() -> None:
    first, alone, later = ClusterLock(), ClusterLock(), ClusterLock()
    first.lock(shared=ALL)
    has = locked_soon(alone, alone=ALL)
    time.sleep(0.1)  # it is waiting now
    has_later = locked_soon(later, alone=frozenset())
    assert not has_later.wait(0.1)
    first.unlock()
    assert has.wait(WAIT_S)
    assert not has_later.is_set()
    alone.unlock()
    assert has_later.wait(WAIT_S)
    later.unlock()


def test_an_exclusive_test_waits_only_for_tests_that_use_its_part() -> None:
    one, alone, other = ClusterLock(), ClusterLock(), ClusterLock()
    one.lock(shared=ONE)
    assert locked_soon(alone, shared=TWO, alone=TWO).wait(WAIT_S)
    has = locked_soon(other, shared=ONE, alone=TWO)
    assert not has.wait(0.1)
    alone.unlock()
    assert has.wait(WAIT_S)
    one.unlock()
    other.unlock()


def test_tests_that_want_several_parts_alone_do_not_wait_for_each_other_forever() -> None:
    locks = [ClusterLock() for _ in range(8)]

    def use(lock: ClusterLock, number: int) -> None:
        for _ in range(20):
            lock.lock(shared=ALL, alone=(ONE, TWO, ALL)[number % 3])
            lock.unlock()

    threads = [threading.Thread(target=use, args=(lock, n)) for n, lock in enumerate(locks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert not any(thread.is_alive() for thread in threads)


def test_an_action_runs_once_and_again_after_a_failure() -> None:
    done: list[int] = []

    def fail() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        do_once("restored", fail)
    for number in (1, 2):
        do_once("restored", lambda number=number: done.append(number))  # type: ignore[misc]
    assert done == [1]
