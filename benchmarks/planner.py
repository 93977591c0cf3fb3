"""The exact planner: one GPU with cold and warm caches, and the advice for a pool of 8,000 GPUs."""

import random
import time
from collections.abc import Callable
from typing import Any

from benchmarks.report import Row, Section
from mig import geometry, planner, pools

NAME = "planner"
_BOARD = "h100-80gb"
_PLANS = 200
_GPUS = 8_000
_AGAIN = 1_000


def _cold(work: Callable[[], Any]) -> float:
    """Return the CPU time of a call (s) with empty caches."""
    began = time.process_time()
    work()
    return time.process_time() - began


def _warm_s(work: Callable[[], Any]) -> float:
    work()
    began = time.process_time()
    for _ in range(_AGAIN):
        work()
    return (time.process_time() - began) / _AGAIN


def measure() -> Section:
    """Plan between random states of a board; count room, moves and the cost of a layout."""
    board, chosen = geometry.board(_BOARD), random.Random(12)
    states = planner.states(board)
    pairs: dict[Any, Any] = {}
    while len(pairs) < _PLANS:
        have, to = chosen.choice(states), chosen.choice(states)
        pairs[have, tuple(i.profile for i in to)] = None
    plans = [_cold(lambda pair=pair: planner.relayout(board, *pair)) for pair in pairs]
    have, target = next(iter(pairs))
    held_layouts = [dict.fromkeys(chosen.choice(states), (f"team/pod-{n}",)) for n in range(_GPUS)]
    gpus = [pools.GpuState(f"g{n}", "p", board, tuple(h), h) for n, h in enumerate(held_layouts)]
    requests = {board.key: (board.profile("3g.40gb"), board.profile("2g.20gb"))}

    def advise() -> None:
        pools.room(gpus)
        pools.advise(gpus, "3g.40gb", 100)
        pools.cost(gpus, requests)

    return Section(
        NAME,
        (
            Row(NAME, "plan for one GPU, cold, worst", 1e3 * max(plans), "ms", 10),
            Row(
                NAME,
                "the same, remembered",
                1e6 * _warm_s(lambda: planner.relayout(board, have, target)),
                "us",
                10,
            ),
            Row(NAME, "advice for 8,000 GPUs, cold", _cold(advise), "s", 5),
        ),
    )
