"""Litmus tests: their outcomes are what they say, and forbidden ones do not occur on a slice."""

import itertools

import numpy as np
import pytest

from benchmarks.litmus import __main__ as litmus, proxies
from benchmarks.litmus.shapes import FENCE_SC, RELAXED, SHAPES, WEAK, Outcome, Shape, Store
from benchmarks.litmus.verdicts import Count, is_violated, verdict
from benchmarks.on_slice import cores

_SHAPES = {shape.name: shape for shape in SHAPES}


def perform(shape: Shape, order: tuple[int, ...]) -> tuple[list[int], int, int]:
    """Return results and final contents if the threads' accesses happen in this order."""
    memory, results = {"x": 0, "y": 0}, [0] * 4
    streams = [iter(accesses) for accesses in shape.threads]
    for thread in order:
        access = next(streams[thread])
        if isinstance(access, Store):
            memory[access.location] = access.value
        else:
            results[access.result] = memory[access.location]
    return results, memory["x"], memory["y"]


def occurs(outcome: Outcome, found: tuple[list[int], int, int]) -> bool:
    results, x, y = found
    return bool(outcome(*(np.array([part], np.uint32) for part in (results, x, y)))[0])


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_outcomes_by_all_orders(shape: Shape) -> None:
    """No order of accesses gives the weak outcome; the interleaved one needs threads that mix."""
    steps = [n for n, accesses in enumerate(shape.threads) for _ in accesses]
    orders = set(itertools.permutations(steps))
    whole = {
        tuple(n for thread in order for n in [thread] * len(shape.threads[thread]))
        for order in itertools.permutations(range(len(shape.threads)))
    }
    mixed = {order for order in orders if occurs(shape.interleaved, perform(shape, order))}
    assert mixed
    assert not mixed & whole
    assert not any(occurs(shape.weak, perform(shape, order)) for order in orders)


def test_verdicts_claim_no_more_than_was_shown() -> None:
    none, some = Count(10, 0, 0), Count(10, 1, 0)
    assert "weak twin shown" in verdict("SB", "gpu", {RELAXED: some, FENCE_SC: none})
    assert "no concurrency" in verdict("MP", "gpu", {RELAXED: none, FENCE_SC: none})
    assert "interleaved" in verdict("MP", "gpu", {WEAK: Count(10, 0, 3), FENCE_SC: none})
    assert "one CPU thread" in verdict("SB", "cta", {RELAXED: none, FENCE_SC: none})
    assert verdict("SB", "gpu", {FENCE_SC: some}).startswith("VIOLATED")
    assert is_violated("2+2W", {FENCE_SC: some})
    assert not is_violated("2+2W", {RELAXED: some})


@pytest.mark.skipif(cores() == 1, reason="on one core no two threads run at the same time")
def test_forbidden_outcomes_do_not_occur_while_threads_run_at_the_same_time() -> None:
    tests = [("SB", "gpu"), ("MP", "sys"), ("SB", "cta"), ("2+2W", "cluster")]
    found = litmus.measure(tests, runs=4000, seed=7, limit_s=10)
    assert list(found) == tests
    assert not [test for test in tests if is_violated(test[0], found[test])], found
    real = [count for test in tests[:2] for count in found[test].values()]
    assert sum(count.weak + count.interleaved for count in real), found


def test_the_async_proxy_sees_fenced_stores() -> None:
    tests = [(reader.name, "async") for reader in proxies.READERS]
    found = litmus.measure(tests, runs=300, seed=1, limit_s=0)
    assert list(found) == tests
    assert not any(is_violated(name, found[name, scope]) for name, scope in tests), found
