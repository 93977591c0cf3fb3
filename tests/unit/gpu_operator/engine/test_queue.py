"""The work queue: no key is lost or processed twice at once, and failures are backed off."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from gpu_operator.engine import queue as queues
from gpu_operator.engine.queue import Key, WorkQueue

A, B = Key("GPUPool", "a"), Key("GPUPool", "b")


def run(body: Callable[[WorkQueue], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(5):
            await body(WorkQueue())

    asyncio.run(main())


def working(done: list[Key], result: bool = True) -> Callable[[Key], Awaitable[bool]]:
    async def work(key: Key) -> bool:
        done.append(key)
        return result

    return work


def test_a_key_is_queued_once() -> None:
    async def body(queue: WorkQueue) -> None:
        done: list[Key] = []
        for key in (A, B, A, A):
            queue.add(key)
        assert len(queue) == 2
        await queue.work_on_one(working(done))
        await queue.work_on_one(working(done))
        assert done == [A, B]

    run(body)


def test_a_key_is_never_processed_concurrently_and_no_change_is_lost() -> None:
    async def body(queue: WorkQueue) -> None:
        started, go_on = asyncio.Event(), asyncio.Event()
        active: set[Key] = set()
        done: list[Key] = []

        async def slow(key: Key) -> bool:
            assert key not in active
            active.add(key)
            started.set()
            await go_on.wait()
            active.discard(key)
            done.append(key)
            return True

        queue.add(A)
        first = asyncio.create_task(queue.work_on_one(slow))
        await started.wait()
        queue.add(A)  # it changed while being processed
        queue.add(A)
        second = asyncio.create_task(queue.work_on_one(slow))
        await asyncio.sleep(0)
        assert done == []
        go_on.set()
        await asyncio.gather(first, second)
        assert done == [A, A]

    run(body)


def test_failures_are_retried_with_growing_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    delays: list[float] = []

    def note(self: WorkQueue, key: Key, delay_s: float) -> None:
        delays.append(delay_s)
        self.add(key)

    monkeypatch.setattr(WorkQueue, "add_after", note)

    async def body(queue: WorkQueue) -> None:
        queue.add(A)
        for _ in range(12):
            await queue.work_on_one(working([], result=False))
        await queue.work_on_one(working([]))
        queue.add(A)
        await queue.work_on_one(working([], result=False))

    run(body)
    assert delays[:3] == [0.25, 0.5, 1.0]
    assert delays[11] == queues.LAST_BACKOFF_S
    assert delays[12] == queues.FIRST_BACKOFF_S  # success resets the backoff


def test_an_exception_counts_as_a_failure_and_propagates() -> None:
    async def body(queue: WorkQueue) -> None:
        async def fail(key: Key) -> bool:
            raise RuntimeError(str(key))

        queue.add(A)
        with pytest.raises(RuntimeError):
            await queue.work_on_one(fail)
        done: list[Key] = []
        await queue.work_on_one(working(done))  # after its backoff
        assert done == [A]

    run(body)


def test_the_earlier_of_two_times_is_kept() -> None:
    async def body(queue: WorkQueue) -> None:
        queue.add_after(A, 0.01)
        queue.add_after(A, 100)
        done: list[Key] = []
        await queue.work_on_one(working(done))
        assert done == [A]

    run(body)


def test_a_change_overrides_a_scheduled_time() -> None:
    async def body(queue: WorkQueue) -> None:
        queue.add_after(A, 100)
        queue.add(A)
        done: list[Key] = []
        await queue.work_on_one(working(done))
        assert done == [A]
        assert len(queue) == 0

    run(body)
