"""Verdicts, the table, the latency client's output, and the opponents' results."""

import ctypes
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks import latency
from benchmarks.compile_c import OPPONENT_FLAGS, compile_c
from benchmarks.report import Row, Section, document, table


def test_a_goal_has_a_direction() -> None:
    assert Row("s", "ratio", 0.89, "x", 0.9, at_least=True).verdict == "MISSED"
    assert Row("s", "ratio", 0.9, "x", 0.9, at_least=True).verdict == "met"
    assert Row("s", "time", 2.1, "us", 2).verdict == "MISSED"
    assert Row("s", "time", 2.0, "us", 2).verdict == "met"
    assert Row("s", "for information", 1e9, "us").verdict == ""


def test_table_and_json_name_misses_and_what_was_not_run() -> None:
    sections = [
        Section("one", (Row("one", "sgemm / OpenBLAS", 0.5, "x", 1, at_least=True),)),
        Section("two", skipped="no cluster: no answer"),
    ]
    text = table(sections)
    assert "MISSED" in text
    assert ">= 1 x" in text
    assert "NOT RUN, no cluster: no answer" in text
    read = json.loads(document(sections))["sections"]
    assert read[0]["rows"][0]["verdict"] == "MISSED"
    assert read[1]["skipped"]


def test_first_loads_of_processes_exclude_the_one_that_filled_the_cache() -> None:
    output = "".join(
        f"context 9000 0 0 1\nfirst_load {us} 0 0 1\n" for us in (20000, 400, 300, 500)
    )
    output += "rested\n" + "context 4000 0 0 1\nfirst_load 350 0 0 1\n" * 15
    output += "context 9000 0 0 1\nfirst_load 900 0 0 1\n"
    output += "load 100 0 0 1\nlaunch 1 2 0 1\nlaunch_sync 3 4 0 1\nlaunch_sync_idle 5 6 0 1\n"
    output += "replay_1 1 2 0 1\nreplay_100 9 9 0 1\n"
    output += "pool_allocation 1 2 0 1\npool_free 1 2 0 1\n"
    output += "event_record 1 2 0 1\nevent_query 1 2 0 1\n"
    rows = {row.name: row for row in latency.rows("s", output)}
    assert rows["module load, cached, new process"].measured == pytest.approx(0.4)
    assert rows["module load, not cached"].measured == pytest.approx(20)
    assert rows["module load, cached, new process, rested"].measured == pytest.approx(0.35)
    assert rows["new context, rested"].measured == pytest.approx(4)
    assert rows["asynchronous launch, p99"].measured == 2
    assert rows["launch + sync after 1 ms idle, p50"].verdict == "met"


@pytest.mark.skipif(shutil.which("cc") is None, reason="NOT RUN: no C compiler")
def test_opponents_compute_what_they_are_timed_for(tmp_path: Path) -> None:
    library = ctypes.CDLL(str(compile_c("opponents.c", tmp_path / "o.so", OPPONENT_FLAGS)))
    a, b = (np.random.default_rng(i).random(1000, dtype=np.float32) for i in range(2))
    c = np.zeros_like(a)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (a, b, c)]
    library.vecadd(*pointers, ctypes.c_long(a.size), ctypes.c_int(2))
    assert np.array_equal(c, a + b)
    for name, lanes in (("fma_peak_32", 8), ("fma_peak_64", 16)):
        flops = ctypes.c_double()
        peak = library[name]
        peak.restype = ctypes.c_double
        assert peak(ctypes.c_long(1000), ctypes.c_int(1), ctypes.byref(flops)) > 0
        assert flops.value == 2 * 12 * lanes * 1000
