"""Only one gpud at a time uses a state directory; the next one waits for it."""

import asyncio
import fcntl
import os
from pathlib import Path

import pytest

from vgpu_sim.gpud import readiness, standby
from vgpu_sim.gpud.devices import journal
from vgpu_sim.gpud.errors import JournalError


def hold(state_dir: Path) -> int:
    """Hold the lock as another gpud does."""
    path = state_dir / journal.LOCK_NAME
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def test_one_gpud_holds_a_state_directory_until_it_ends(tmp_path: Path) -> None:
    assert journal.try_lock(tmp_path)
    path = tmp_path / journal.LOCK_NAME
    assert path.stat().st_mode & 0o777 == 0o600
    opened = {int(n): os.path.realpath(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")}
    (held,) = (number for number, name in opened.items() if name == str(path))
    assert not os.get_inheritable(held)
    count = len(os.listdir("/proc/self/fd"))
    assert not journal.try_lock(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == count
    os.close(held)
    assert journal.try_lock(tmp_path)


def test_a_state_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        journal.try_lock(tmp_path / "absent")


@pytest.mark.parametrize("wait_seconds", [None, 600.0])
def test_a_predecessor_is_waited_for_and_that_is_said_once(
    tmp_path: Path, wait_seconds: float | None
) -> None:
    async def scenario() -> None:
        held, said, ready = hold(tmp_path), list[str](), tmp_path / "ready"

        def stands_by() -> None:
            said.append("stands by")
            readiness.announce(ready)

        waiting = asyncio.create_task(
            standby.take_over(tmp_path, wait_seconds, asyncio.Event(), lambda: True, stands_by)
        )
        for _ in range(3):
            await asyncio.sleep(standby.LOCK_PAUSE_SECONDS)
        assert not waiting.done()
        assert (said, ready.exists()) == (["stands by"], True)
        os.close(held)
        assert await waiting

    asyncio.run(scenario())


def test_a_gpud_that_need_not_wait_is_ready_only_when_it_serves(tmp_path: Path) -> None:
    def never() -> bool:
        raise AssertionError

    assert asyncio.run(standby.take_over(tmp_path, None, asyncio.Event(), never, never))


def test_a_gpud_that_cannot_start_contexts_yet_does_not_say_that_it_stands_by(
    tmp_path: Path,
) -> None:
    """Its predecessor would be ended too early."""

    async def scenario() -> None:
        held, said, warm = hold(tmp_path), list[bool](), [False]
        waiting = asyncio.create_task(
            standby.take_over(
                tmp_path, None, asyncio.Event(), lambda: warm[0], lambda: said.append(warm[0])
            )
        )
        for _ in range(3):
            await asyncio.sleep(standby.LOCK_PAUSE_SECONDS)
        assert said == []
        warm[0] = True
        for _ in range(3):
            await asyncio.sleep(standby.LOCK_PAUSE_SECONDS)
        assert said == [True]
        os.close(held)
        assert await waiting

    asyncio.run(scenario())


def test_a_predecessor_that_does_not_end_in_time_is_named(tmp_path: Path) -> None:
    held = hold(tmp_path)
    waiting = standby.take_over(tmp_path, 0.1, asyncio.Event(), lambda: True, lambda: None)
    with pytest.raises(
        JournalError, match=f"another gpud holds the lock {tmp_path / journal.LOCK_NAME}"
    ):
        asyncio.run(waiting)
    os.close(held)


def test_a_gpud_that_stands_by_can_be_ended(tmp_path: Path) -> None:
    async def scenario() -> None:
        held, stop = hold(tmp_path), asyncio.Event()
        waiting = asyncio.create_task(
            standby.take_over(tmp_path, None, stop, lambda: True, lambda: None)
        )
        await asyncio.sleep(0)
        stop.set()
        assert not await waiting
        os.close(held)
        assert journal.try_lock(tmp_path)

    asyncio.run(scenario())
