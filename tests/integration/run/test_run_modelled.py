"""Programs with a modelled clock: events measure the board's time, which is the same in each
run.
"""

import json
import re
import sys
from pathlib import Path

import pytest

from support.kernels import work_kernels
from support.processes.tessera_run import EXAMPLES, run, to_its_end

PROGRAM = (
    sys.executable,
    str(Path(__file__).parents[2] / "support" / "scripts" / "timed_vecadd.py"),
    str(EXAMPLES / "vecadd.ptx"),
)


def measure_us(tmp_path: Path, *options: str, **kind: str) -> list[float]:
    done = run(
        tmp_path,
        *PROGRAM,
        options=options,
        **kind,
    )
    assert done.returncode == 0, done.stderr
    reported: list[float] = json.loads(done.stdout)["events_us"]
    return reported


def test_events_measure_what_the_slice_would_take_on_either_backend(tmp_path: Path) -> None:
    jit = measure_us(tmp_path, "--clock", "modelled", "--threads", "1", backend="jit")
    pinned, pageable, first, second = jit
    megabytes = 2.097152
    assert megabytes / 64e-3 < pinned < 1.5 * megabytes / 64e-3 + 3
    assert pageable > 1.5 * pinned
    # One of eight memory slices: 3350 GB/s / 8, three buffers.
    least = 3 * megabytes / (3350e-3 / 8)
    assert least < first < 1.5 * least
    assert second <= first < second + 3  # the host has waited for the copy before the first launch
    assert measure_us(tmp_path, "--clock", "modelled", backend="interp") == jit


def test_perf_run_reports_kernels_copies_and_gaps(tmp_path: Path) -> None:
    report, trace, page = (tmp_path / name for name in ("report.json", "trace.json", "a.html"))
    options = ("--board", "h100-80gb", "--details", "--json", str(report))
    options += ("--trace", str(trace), "--html", str(page), "--draw")
    done = to_its_end(tmp_path, "perf", "run", *options, "--", *PROGRAM)
    assert done.returncode == 0, done.stderr
    assert "modelled" in done.stderr
    assert "[HtoD] 4194304 bytes" in done.stderr
    assert re.search(r"^1 vecadd.* us$", done.stderr, re.MULTILINE)  # its causes, drawn
    document = json.loads(report.read_text())
    (kernel,) = document["kernels"]
    assert (kernel["kernel"], kernel["launches"]) == ("vecadd", 3)
    metrics = kernel["metrics"]
    assert metrics["gpu__time_duration.sum"] * 3 == pytest.approx(kernel["us"] * 1e3)
    assert metrics["dram__bytes_read.sum"] == pytest.approx(4194304, rel=0.01)
    assert sum(kernel["stack_us"].values()) * 3 == pytest.approx(kernel["us"])
    assert [one["row"] for one in document["launches"]] == [0, 0, 0]
    starts = [one["start_us"] for one in document["launches"]]
    assert starts == sorted(starts)
    assert [one["us"] for one in document["launches"]] == [kernel["us"] / 3] * 3
    assert not kernel["at_least"]
    spans = [one for one in json.loads(trace.read_text())["traceEvents"] if one["ph"] == "X"]
    launched = [(one["ts"], one["dur"]) for one in spans if one["cat"] == "kernel"]
    assert launched == [(one["start_us"], one["us"]) for one in document["launches"]]
    copied = [one for one in spans if one["cat"] == "gpu_memcpy"]
    assert [one["args"]["bytes"] for one in copied] == [2097152, 2097152]
    assert copied[0]["ts"] + copied[0]["dur"] <= copied[1]["ts"] + 1e-3 < launched[0][0] + 2e-3
    assert "vecadd" in page.read_text()
    (context,) = document["contexts"]
    assert {row["way"]: row["count"] for row in context["copies"]} == {"HtoD": 2}
    assert context["span_us"] > kernel["us"] + sum(row["us"] for row in context["copies"]) - 1
    reported = json.loads(done.stdout)
    assert reported["events_us"][3] == pytest.approx(kernel["us"] / 3, abs=0.01)
    assert reported["wall_us"] > 3 * reported["events_us"][3]  # a launch on this machine


def test_a_program_that_fails_passes_its_status_on(tmp_path: Path) -> None:
    fails = (sys.executable, "-c", "raise SystemExit(7)")
    done = to_its_end(tmp_path, "perf", "run", "--board", "a30", "--", *fails)
    assert done.returncode == 7
    name = Path(sys.executable).name
    assert done.stderr == f"error: {name} ended with status 7 before it used the GPU\n"


def test_a_program_that_does_not_exist_is_named_without_a_table(tmp_path: Path) -> None:
    done = to_its_end(tmp_path, "perf", "run", "--board", "a30", "--", "no-such-program")
    assert done.returncode == 127
    assert done.stderr == "error: no-such-program: command not found\n"


@pytest.mark.parametrize(("topology", "gb_per_s"), [("hgx-4", 150), ("pcie-2-socket", 64)])
def test_a_copy_between_gpus_takes_the_way_of_the_topology(
    tmp_path: Path, topology: str, gb_per_s: float
) -> None:
    program = (
        sys.executable,
        str(Path(__file__).parents[2] / "support" / "scripts" / "timed_peer.py"),
    )
    options = ("--board", "h100-80gb", "--count", "2", "--clock", "modelled")
    done = to_its_end(tmp_path, "run", *options, "--topology", topology, "--", *program)
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    assert reported["right"]
    least = (4 << 20) / (gb_per_s * 1e3)
    assert least < reported["event_us"] < 1.25 * least + 5


def test_events_measure_what_each_launch_executed(tmp_path: Path) -> None:
    support = Path(__file__).parents[2] / "support"
    program = (
        sys.executable,
        str(support / "scripts" / "timed_rounds.py"),
        str(support / "recorded" / "rounds.ptx"),
    )
    report = tmp_path / "report.json"
    options = ("--board", "h100-80gb", "--json", str(report))
    done = to_its_end(tmp_path, "perf", "run", *options, "--", *program)
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    megahertz = 1980

    by_argument = reported["argument"]
    assert by_argument == sorted(by_argument)
    assert by_argument[-1] > 200_000 * 4 / megahertz  # the chain of multiplications, 4 cycles each
    assert by_argument[7] / by_argument[6] > 1.3
    few, many, again = reported["memory"]
    assert few == pytest.approx(again, abs=0.002)  # stamps are whole nanoseconds
    assert many > 4000 * 4 / megahertz
    for one in reported["one"]:
        assert 4000 * 4 / megahertz < one <= many * 1.001

    document = json.loads(report.read_text())
    launches = document["launches"]
    assert [one["arguments"] for one in launches[:3]] == ["*, *, 10", "*, *, 20", "*, *, 40"]
    assert not any(one["at_least"] for one in launches)
    assert len(launches) == 15
    lines = [line for line in done.stderr.splitlines() if "rounds(*, *, " in line]
    assert len(lines) == 15


@pytest.mark.parametrize(
    ("way", "pages"),
    [("alloc", 256), ("freed", 256), ("pool", 1280)],  # a pool's block has whole chunks of 2 MiB
)
def test_pages_that_a_hash_chooses_are_never_more_than_the_programs_buffer(
    tmp_path: Path, way: str, pages: int
) -> None:
    support = Path(__file__).parents[2] / "support"
    ptx, report = tmp_path / "hash.ptx", tmp_path / "report.json"
    ptx.write_text(work_kernels.make_hash_kernel())
    program = (
        sys.executable,
        str(support / "scripts" / "hashed_pages.py"),
        str(ptx),
        way,
        str(pages),
    )
    options = ("--board", "h100-80gb", "--json", str(report))
    process = to_its_end(tmp_path, "perf", "run", *options, "--", *program)
    assert process.returncode == 0, process.stderr
    (kernel,) = json.loads(report.read_text())["kernels"]
    assert 0 < kernel["metrics"]["dram__bytes_read.sum"] <= 1024 * pages
