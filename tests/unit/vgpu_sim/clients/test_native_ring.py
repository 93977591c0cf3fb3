"""The client's rings: order of requests and memory ordering, tested with a hostile worker in C.

``rules.c`` draws requests of many streams and threads; ``all_programs.c`` tries every program of
two streams and two events, and every order in which a worker may carry it out.
"""

import os
import subprocess
from pathlib import Path

import pytest

from vgpu_sim.native import build, catalogue

NATIVE = Path(__file__).parents[3] / "support" / "native"
HARNESS = NATIVE / "client_ring" / "rules.c"
PROGRAMS = NATIVE / "client_ring" / "all_programs.c"
SMALL = NATIVE / "schedules" / "small.h"
CONTEXT = NATIVE / "schedules" / "healthy_context.c"
SOURCES = (
    "exchange/list.c",
    "exchange/ring.c",
    "exchange/wait.c",
    "exchange/doorbell.c",
    "base/objects.c",
)


def compile_harness(output: Path, sanitizer: str) -> Path:
    client = catalogue.CLIENTS / "libcuda"
    command = [build.compiler(), "-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]
    command += [
        f"-fsanitize={sanitizer}",
        f"-I{client}",
        f"-I{catalogue.COMMON}",
        f"-I{catalogue.INCLUDE}",
        str(HARNESS),
    ]
    command += [str(client / name) for name in SOURCES]
    subprocess.run([*command, "-o", str(output)], check=True)
    return output


@pytest.fixture(scope="module", params=build.SANITIZERS)
def harness(request, tmp_path_factory) -> Path:
    return compile_harness(tmp_path_factory.mktemp("ring") / "rules", request.param)


def run(harness: Path, *arguments: int) -> str:
    done = subprocess.run(
        [str(harness), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=1000,
        check=False,
        env={"ASAN_OPTIONS": "detect_leaks=0"},
    )
    assert done.returncode == 0, done.stderr[:3000] + done.stdout
    return done.stdout


@pytest.mark.parametrize("seed", range(3))
def test_order_of_streams_events_and_the_legacy_stream(harness, seed):
    """No request overtakes one that it must follow; non-blocking streams run concurrently."""
    assert run(harness, seed, 8000, 1) == "failures 0, free 1\n"


def test_many_threads_share_the_rings(harness):
    assert run(harness, 7, 4000, 4) == "failures 0, free 0\n"


STREAMS = ("bb", "lb", "ln")
"""Two blocking streams; the legacy stream and a blocking one, or one that is not."""

WRONG = {
    "a blocking stream waits for nothing": (
        "lb",
        "    add_wait(waits, context, TSR_LEGACY_STREAM, legacy);\n",
        "    (void)legacy;\n",
    ),
    "the legacy stream waits for a blocking stream only once": (
        "lb",
        "      if (last <= ring->waited_by_legacy) continue;\n",
        "      if (ring->waited_by_legacy) continue;\n",
    ),
    "a stream that does not block waits for the legacy stream": (
        "ln",
        "    if (!tsr_is_blocking(context, stream)) return;\n",
        "",
    ),
    "a wait for an event is forgotten": (
        "bb",
        "      slot->waits[slot->wait_count++] = waits[--count];\n",
        "      (void)waits, count--;\n",
    ),
}
"""Changes of ring.c which reverse an order, or order too much, and streams that show it."""


def compile_programs(folder: Path, *change: str) -> Path:
    client = catalogue.CLIENTS / "libcuda"
    sources = [client / "exchange" / f"{name}.c" for name in ("list", "wait", "doorbell")]
    ring = (client / "exchange" / "ring.c").read_text()
    if change:
        assert ring.count(change[0]) == 1, f"ring.c has changed: {change[0]}"
        ring = ring.replace(*change)
    (folder / "ring.c").write_text(ring)
    command = [build.compiler(), "-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]
    command += ["-include", str(SMALL), "-DSMALL_STREAMS=4", "-DSMALL_SLOTS=8"]
    command += [f"-I{one}" for one in (client, catalogue.COMMON, catalogue.INCLUDE)]
    command += map(str, (PROGRAMS, CONTEXT, folder / "ring.c", *sources))
    subprocess.run([*command, "-o", str(folder / "programs")], check=True)
    return folder / "programs"


def try_all(program: Path, operations: int, streams: str) -> tuple[int, str]:
    command = [program, str(operations), streams]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False)
    return done.returncode, done.stdout + done.stderr


def test_every_program_runs_in_the_orders_that_the_protocol_permits(tmp_path):
    """Two operations in each stream, or four: those are minutes of `make soak`."""
    program = compile_programs(tmp_path)
    for streams in STREAMS:
        for operations in (2, 3, 4) if os.environ.get("TESSERA_LARGE_SEARCHES") else (1, 2):
            status, output = try_all(program, operations, streams)
            assert (status, output[:4]) == (0, "ok: "), (streams, operations, output)


@pytest.mark.parametrize("change", WRONG)
def test_a_wrong_order_is_detected(tmp_path, change):
    streams, *texts = WRONG[change]
    status, output = try_all(compile_programs(tmp_path, *texts), 2, streams)
    assert status == 1, output
