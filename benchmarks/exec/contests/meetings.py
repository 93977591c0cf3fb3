"""Threads that synchronise: consecutive barriers, sums of a block."""

from collections.abc import Callable

import numpy as np

from benchmarks.exec.contest import Buffers, Contest, Launch, Problem, Rival, Work, near
from benchmarks.exec.tensor import barriers as tensor_barriers
from benchmarks.on_slice import cores

_TAGS = frozenset({"meetings"})


def _budget(nanoseconds: float, times: int) -> dict[str, Callable[[], Work]]:
    """Return a yardstick: ``nanoseconds`` for each of ``times`` operations, shared by the cores."""
    seconds = nanoseconds * 1e-9 * times / cores()
    return {f"{nanoseconds:g} ns each": lambda: lambda: seconds}


def _barriers(values: int, goal_ns: float, blocks: int, times: int) -> Problem:
    x = np.random.default_rng(41).random(256 * blocks, np.float32)

    def check(results: Buffers) -> None:
        start = x.astype(np.float64)[:, None] + np.arange(values)
        expected = (start - 2) * 0.5**times + 2
        near(results["sums"], expected.sum(axis=1), "barriers", 1e-5)

    arguments = ("x", "sums", np.int32(times))
    return Problem(
        {"x": x, "sums": np.zeros_like(x)},
        (Launch(f"meet_{values}", (blocks, 1, 1), (256, 1, 1), arguments),),
        check,
        yardsticks=_budget(goal_ns, blocks * times),
    )


def _sums(entry: str, threads: int, goal_ns: float, blocks: int) -> Problem:
    x = np.random.default_rng(42).random(threads * blocks, np.float32)

    def check(results: Buffers) -> None:
        expected = x.astype(np.float64).reshape(blocks, threads).sum(axis=1)
        near(results["sums"], expected, entry, 1e-5)

    return Problem(
        {"x": x, "sums": np.zeros(blocks, np.float32)},
        (Launch(entry, (blocks, 1, 1), (threads, 1, 1), ("x", "sums")),),
        check,
        yardsticks=_budget(goal_ns, blocks),
    )


def _meeting(name: str, goal_ns: float, make: Callable[[bool], Problem]) -> Contest:
    return Contest(name, "meeting", make, {f"{goal_ns:g} ns each": 1.0}, tags=_TAGS)


def _clusters(blocks: int, times: int) -> Problem:
    x = np.random.default_rng(43).random(tensor_barriers.THREADS * blocks, np.float32)
    block = (tensor_barriers.THREADS, 1, 1)
    launch = Launch("meet", (blocks, 1, 1), block, ("x", "out", np.int32(times)))

    def check(results: Buffers) -> None:
        near(results["out"], (x.astype(np.float64) - 2) * 0.5**times + 2, "barriers", 1e-5)

    return Problem(
        {"x": x, "out": np.zeros_like(x)},
        (launch,),
        check,
        ptx=tensor_barriers.source(of_cluster=True),
        rivals={BLOCK_BARRIER: Rival(tensor_barriers.source(of_cluster=False), (launch,))},
    )


BLOCK_BARRIER = "block barrier"
_BLOCKS, _TIMES = 64, 2000
CONTESTS = (
    *(
        _meeting(
            f"barrier-{values}-live",
            goal_ns,
            lambda tiny, values=values, goal_ns=goal_ns: _barriers(
                values, goal_ns, *((2, 5) if tiny else (_BLOCKS, _TIMES))
            ),
        )
        for values, goal_ns in ((1, 10.0), (8, 45.0))
    ),
    Contest(
        "cluster-barrier",
        "",
        lambda tiny: _clusters(*((4, 5) if tiny else (_BLOCKS, _TIMES))),
        {BLOCK_BARRIER: 0.5},
        tags=_TAGS | {"tensor"},
    ),
    *(
        _meeting(
            f"{entry.replace('_', '-')}-{threads}",
            goal_ns,
            lambda tiny, entry=entry, threads=threads, goal_ns=goal_ns: _sums(
                f"{entry}_{threads}", threads, goal_ns, 3 if tiny else (1 << 19) // threads
            ),
        )
        for entry in ("sum", "warp_sum")
        for threads, goal_ns in ((256, 100.0), (1024, 250.0))
    ),
)
