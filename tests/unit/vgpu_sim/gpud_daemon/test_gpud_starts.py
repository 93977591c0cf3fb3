"""A storm of context starts: a calm slice is next, not after one start of each other slice."""

import asyncio

import pytest

from vgpu_sim.gpud.limits.starts import Starts
from vgpu_sim.gpud.model import InstanceUuid

STORM, OTHER, THIRD, QUITTER = (
    InstanceUuid(name) for name in ("storm", "other", "third", "quitter")
)


class World:
    """Starts that end when the test decides, and the order in which they began."""

    def __init__(self, at_once: int, place_seconds: float = 60) -> None:
        self.starts = Starts(at_once, place_seconds)
        self.begun: list[str] = []
        self.ends: list[asyncio.Event] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.news = asyncio.Condition()

    async def ask(self, uuid: InstanceUuid, count: int = 1) -> None:
        for _ in range(count):
            self.tasks.append(asyncio.create_task(self._start(uuid)))
        for _ in range(3):
            await asyncio.sleep(0)

    async def _start(self, uuid: InstanceUuid) -> None:
        async with self.starts.turn(uuid):
            self.begun.append(uuid)
            end = asyncio.Event()
            self.ends.append(end)
            async with self.news:
                self.news.notify_all()
            await end.wait()

    async def wait_for(self, uuid: InstanceUuid) -> None:
        async with self.news:
            await self.news.wait_for(lambda: uuid in self.begun)

    async def end_one(self) -> None:
        self.ends.pop(0).set()
        for _ in range(5):
            await asyncio.sleep(0)

    async def end_all(self) -> None:
        while self.ends:
            await self.end_one()
        await asyncio.gather(*self.tasks)


def test_beside_a_storming_slice_another_one_starts_at_once() -> None:
    async def scenario() -> None:
        world = World(2)
        await world.ask(STORM, 300)
        assert world.begun == [STORM, STORM]
        await world.ask(OTHER)
        assert world.begun == [STORM, STORM, OTHER]
        await world.end_all()
        assert world.begun.count(STORM) == 300

    asyncio.run(scenario())


def test_a_calm_slice_starts_next_however_many_others_storm() -> None:
    """It is not delayed by one start of each other slice, because its last start is longest ago."""

    async def scenario() -> None:
        world = World(2)
        storms = [InstanceUuid(f"storm {number}") for number in range(6)]
        for _ in range(3):
            for storm in storms:
                await world.ask(storm, 50)
            for _ in range(10):
                await world.end_one()
            await world.ask(OTHER)
            assert world.begun[-1] != OTHER, "all places are taken"
            await world.end_one()
            assert world.begun[-1] == OTHER, "after one start of any slice"
        await world.end_all()

    asyncio.run(scenario())


def test_slices_take_turns_and_each_keeps_its_order() -> None:
    async def scenario() -> None:
        world = World(1)
        await world.ask(STORM, 4)
        await world.ask(OTHER, 2)
        await world.ask(THIRD, 1)
        await world.end_all()
        assert world.begun == [STORM, OTHER, THIRD, STORM, OTHER, STORM, STORM]

    asyncio.run(scenario())


def test_no_slice_has_all_places_and_places_come_back() -> None:
    async def scenario() -> None:
        world = World(3)
        for _ in range(2):
            world.begun.clear()
            await world.ask(STORM, 5)
            assert len(world.begun) == 3
            await world.ask(OTHER, 5)
            assert world.begun[3:] == [OTHER]
            await world.end_one()
            assert len(world.begun) == 5
            await world.end_all()
            assert len(world.begun) == 10

    asyncio.run(scenario())


def test_a_slice_with_slow_starts_takes_no_place_from_others() -> None:
    """It gets no additional concurrent starts either, whose number must not grow on a busy node."""

    async def scenario() -> None:
        world = World(2, place_seconds=0.05)
        for storm in (STORM, THIRD):
            await world.ask(storm, 20)
        assert world.begun == [STORM, STORM, THIRD]
        for _ in range(2):
            await world.ask(OTHER)
        async with asyncio.timeout(10):
            await world.wait_for(OTHER)
        await asyncio.sleep(0.2)
        assert world.begun == [STORM, STORM, THIRD, OTHER]
        await world.end_all()
        assert len(world.begun) == 42
        world.begun.clear()
        for uuid in (STORM, STORM, STORM, OTHER, THIRD):
            await world.ask(uuid)
        assert world.begun == [STORM, STORM, OTHER], "no place was given back twice"
        await world.end_all()

    asyncio.run(scenario())


@pytest.mark.parametrize("given", [False, True], ids=["while it waits", "with its turn just given"])
def test_a_cancelled_start_releases_its_place(given: bool) -> None:
    async def scenario() -> None:
        world = World(1)
        await world.ask(STORM)
        await world.ask(OTHER)
        await world.ask(QUITTER)
        quitter = world.tasks.pop()
        await world.ask(THIRD)
        assert world.begun == [STORM, OTHER]
        if given:
            world.ends.pop(0).set()
            await asyncio.sleep(0)  # the first one ends; the cancelled one has not run since
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
