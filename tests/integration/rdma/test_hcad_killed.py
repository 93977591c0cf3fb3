"""When hcad is killed, a program with an open HCA receives the events that verbs define."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kept import native_parts
from support.processes.tessera_run import environment
from support.programs import c_programs
from support.programs.verbs_tools import (
    find_hcad,
    free_port,
    hcad_of,
    listens,
    run_hca,
    skip_without,
)
from vgpu_sim.native import build, catalogue

HEADERS = Path("/usr/include/infiniband/verbs.h")


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a program that has posted a request which cannot complete."""
    if not HEADERS.exists():
        pytest.skip("NOT RUN: no infiniband/verbs.h: apt-get install libibverbs-dev")
    native_parts.build_once("libibverbs.so.1", "libtessera_hca.so")
    folder = tmp_path / "built"
    folder.mkdir()
    program = c_programs.compile_program(
        folder, "hca_lost", f"-L{build.LIBRARIES / catalogue.RDMA}", "-libverbs"
    )
    process = subprocess.Popen(
        run_hca(tmp_path, str(program), fabric="lost"),
        env=environment(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.communicate()


def test_what_was_posted_is_flushed_and_events_say_so(waiting, tmp_path):
    os.kill(hcad_of(tmp_path), signal.SIGKILL)
    said, _ = waiting.communicate("go on\n", timeout=60)
    flushed = "Work Request Flushed Error"
    assert said.splitlines() == [
        *(f"id {i} {flushed}" for i in range(3)),
        "cq event 0",
        *(f"id {100 + i} {flushed}" for i in range(2)),
        "async 0 local catastrophic error",
        "in time 1",
        "async -1 1",
        f"id 7 {flushed}",
        "cq event -1 1",
        "poll -1",
        "state 1",
        "busy 1",
        "gone 0 0",
        "close 0",
    ]
    assert waiting.returncode == 0


@skip_without("ib_write_bw")
@pytest.mark.parametrize("command", [("ib_write_bw",), ("ib_send_bw",)], ids=" ".join)
def test_perftest_ends_with_an_error(tmp_path, command):
    port = free_port()
    full = ("stdbuf", "-oL", *command, "-F", "-D", "3600", "-p", str(port))
    both: list[subprocess.Popen[str]] = []
    try:
        for more in ((), ("127.0.0.1",)):
            both.append(
                subprocess.Popen(
                    run_hca(tmp_path, *full, *more, fabric="k"),
                    env=environment(tmp_path),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
            while not listens(port) and not more:
                assert both[0].poll() is None
        assert both[1].stdout is not None
        while not both[1].stdout.readline().startswith(" #bytes"):
            assert both[1].poll() is None
        os.kill(hcad_of(tmp_path), signal.SIGKILL)
        said = [process.communicate(timeout=60)[0] for process in both]
    finally:
        for process in both:
            process.kill()
            process.wait()
    assert both[1].returncode not in (0, None), said
    assert both[1].returncode > 0, "an error, and no signal"


@skip_without("ibv_rc_pingpong")
def test_a_new_hcad_serves_new_programs_under_the_same_name(tmp_path):
    first = subprocess.Popen(
        run_hca(tmp_path, "sleep", "600", fabric="again"), env=environment(tmp_path)
    )
    try:
        while not find_hcad(tmp_path):
            assert first.poll() is None
        killed = hcad_of(tmp_path)
        os.kill(killed, signal.SIGKILL)
        done = subprocess.run(
            run_hca(tmp_path, "ibv_devinfo", fabric="again"),
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        first.kill()
        first.wait()
    assert shutil.which("ibv_devinfo") is not None
    assert "hca_id:\ttessera_0" in done.stdout, done.stderr
    assert "PORT_ACTIVE" in done.stdout
