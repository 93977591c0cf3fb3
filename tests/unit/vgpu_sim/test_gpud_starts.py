"""A storm of one slice's context starts: the others' turn comes after one start, not after all."""

import asyncio

import pytest

from vgpu_sim.gpud.limits.starts import Starts
from vgpu_sim.gpud.model import InstanceUuid

STORM, OTHER, THIRD = (InstanceUuid(name) for name in ("storm", "other", "third"))


class World:
    """Starts that end when the test says so, and the order in which they began."""

    def __init__(self, at_once: int) -> None:
        self.starts = Starts(at_once)
        self.begun: list[str] = []
        self.ends: list[asyncio.Event] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def ask(self, uuid: InstanceUuid, count: int = 1) -> None:
        for _ in range(count):
            self.tasks.append(asyncio.create_task(self._start(uuid)))
        await asyncio.sleep(0)

    async def _start(self, uuid: InstanceUuid) -> None:
        async with self.starts.turn(uuid):
            self.begun.append(uuid)
            end = asyncio.Event()
            self.ends.append(end)
            await end.wait()

    async def end_one(self) -> None:
        self.ends.pop(0).set()
        for _ in range(5):
            await asyncio.sleep(0)

    async def end_all(self) -> None:
        while self.ends:
            await self.end_one()
        await asyncio.gather(*self.tasks)


def test_another_slice_starts_next_however_long_the_queue_is() -> None:
    async def scenario() -> None:
        world = World(2)
        await world.ask(STORM, 300)
        assert world.begun == [STORM, STORM]
        await world.ask(OTHER)
        await world.end_one()
        await world.end_one()
        assert world.begun[2:] in ([STORM, OTHER], [OTHER, STORM])
        await world.end_all()
        assert world.begun.count(STORM) == 300

    asyncio.run(scenario())


def test_slices_take_turns_and_each_keeps_its_order() -> None:
    async def scenario() -> None:
        world = World(1)
        await world.ask(STORM, 4)
        await world.ask(OTHER, 2)
        await world.ask(THIRD, 1)
        await world.end_all()
        assert world.begun == [STORM, STORM, OTHER, THIRD, STORM, OTHER, STORM]

    asyncio.run(scenario())


def test_no_more_start_at_once_than_allowed_and_places_come_back() -> None:
    async def scenario() -> None:
        world = World(3)
        for _ in range(2):
            world.begun.clear()
            await world.ask(STORM, 5)
            assert len(world.begun) == 3
            await world.end_one()
            assert len(world.begun) == 4
            await world.end_all()
            assert len(world.begun) == 5

    asyncio.run(scenario())


@pytest.mark.parametrize("given", [False, True], ids=["while it waits", "with its turn just given"])
def test_who_gives_up_takes_no_place_along(given: bool) -> None:
    async def scenario() -> None:
        world = World(1)
        await world.ask(STORM)
        await world.ask(OTHER)
        quitter = world.tasks.pop()
        await world.ask(THIRD)
        if given:
            world.ends.pop(0).set()
            await asyncio.sleep(0)  # the first one leaves; the quitter has not run since
        quitter.cancel()
        await asyncio.gather(quitter, return_exceptions=True)
        if not given:
            await world.end_one()
        await asyncio.sleep(0)
        assert world.begun[-1] == THIRD
        await world.end_all()

    asyncio.run(scenario())


def test_a_start_that_fails_gives_its_place_back() -> None:
    async def scenario() -> None:
        starts = Starts(1)
        for _ in range(3):
            with pytest.raises(OSError):
                async with starts.turn(STORM):
                    raise OSError
        async with starts.turn(OTHER):
            pass

    asyncio.run(scenario())
