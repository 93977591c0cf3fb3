"""Recordings of a driver's answers: crashes cost one answer, and differences are found."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.silicon.driver import compare, maps, shards

ROOT = Path(__file__).parents[3]
# A worker whose second question is fatal, and whose fourth loses the context.
WORKER = """
import os, sys
from pathlib import Path
from benchmarks.silicon.driver import shards
def ask(name):
    if name == "b": os.abort()
    if name == "d": raise shards.ContextLost(4)
    return name * 2
part, skip, path = sys.argv[1:]
sys.exit(shards.answer(list("abcde"), ask, part, int(skip), Path(path)))
"""


@pytest.fixture
def shard(tmp_path, monkeypatch):
    """A shard with the worker above."""
    started = []

    def start(self) -> None:
        command = [sys.executable, "-c", WORKER, f"{self.index}/{self.count}", str(self.skip)]
        settings = os.environ | {"PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen([*command, str(self.path)], env=settings)
        self.seen = (self.size(), time.monotonic())
        started.append(self.skip)

    monkeypatch.setattr(shards.Shard, "start", start)
    return shards.Shard("group", 0, 1, tmp_path, 30.0), started


def test_a_crash_costs_one_answer_and_a_lost_context_none(shard):
    one, started = shard
    shards.supervise([one], time.monotonic() + 60)
    found = shards.gather([one])
    assert found == {"a": "aa", "b": "ended: SIGABRT", "c": "cc", "d": 4, "e": "ee"}
    assert started == [0, 2, 4]


def test_what_was_begun_last_is_out_of_time(shard):
    one, _ = shard
    one.path.write_text(json.dumps({"begin": "a"}) + "\n")
    one.end("out of time")
    assert shards.gather([one]) == {"a": "ended: out of time"}


def test_each_status_that_differs_is_found_once():
    first = {"x/one 1": [["cuInit", 0], ["cuMemAlloc_v2", 0, "made"]], "x/two": [["cuInit", 0]]}
    second = {"x/one 1": [["cuInit", 0], ["cuMemAlloc_v2", 2, "made"]], "x/two": [["cuInit", 0]]}
    found = list(compare.differences("sequences", first, second))
    assert [kind for kind, _ in found] == ["x/one: cuMemAlloc_v2 status 0 2"]
    assert compare.count("sequences", first, second) == 3


def test_batches_of_maps_are_the_same_on_each_machine():
    one = maps.arguments_of("tiled/0")
    assert one == maps.arguments_of("tiled/0")
    assert one != maps.arguments_of("tiled/1")
    assert len(one) == maps.BATCH
    assert {given["kind"] for given in one} >= set(range(16))
