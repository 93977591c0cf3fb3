"""Launches that the interpreter runs concurrently: one at a time, in order, none starved."""

import threading
import time

import pytest

from vgpu_sim.worker.backends import fair_lock

ROUNDS = 20


def start(work, count: int) -> list[threading.Thread]:
    threads = [
        threading.Thread(target=work, args=(number,), daemon=True) for number in range(count)
    ]
    for thread in threads:
        thread.start()
    return threads


def test_the_lock_is_handed_over_in_order(monkeypatch):
    monkeypatch.setattr(fair_lock, "_TURN_NS", 0)
    shared, seen, inside = fair_lock.FairLock(), [], []

    def work(number: int) -> None:
        with shared:
            for _ in range(ROUNDS):
                inside.append(number)
                assert inside == [number]
                seen.append(number)
                inside.remove(number)
                shared.yield_to_waiting()

    with shared:
        threads = start(work, 3)
        while len(shared._waiting) < 3:
            time.sleep(0.001)
    for thread in threads:
        thread.join(30)
    assert len(seen) == 3 * ROUNDS
    assert all(len(set(seen[at : at + 3])) == 3 for at in range(0, len(seen), 3)), seen


def test_a_launch_that_waits_for_another_gets_its_value():
    shared, flag = fair_lock.FairLock(), []

    def poll(_number: int) -> None:
        with shared:
            while not flag:
                shared.yield_to_waiting()

    (polling,) = start(poll, 1)
    with shared:
        flag.append(True)
    polling.join(30)
    assert not polling.is_alive()


def test_a_launch_that_fails_ends_its_turn():
    shared = fair_lock.FairLock()
    with pytest.raises(ValueError, match="trap"), shared:
        raise ValueError("trap")
    with shared:
        pass
