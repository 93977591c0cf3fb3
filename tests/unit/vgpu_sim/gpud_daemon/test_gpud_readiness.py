"""A gpud's readiness file exists only while that gpud could serve at once."""

import asyncio
import dataclasses
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from vgpu_sim.gpud import command, heartbeat, preflight, readiness
from vgpu_sim.gpud.devices import journal
from vgpu_sim.gpud.errors import JournalError
from vgpu_sim.gpud.limits import sharing
from vgpu_sim.gpud.options import NodeOptions, TelemetryOptions
from vgpu_sim.system import python_process

LOADED = """
import sys, pathlib
from vgpu_sim.gpud import __main__ as entry
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == "vgpu_sim.gpud.command":
            there = pathlib.Path(sys.argv[-1].partition("=")[2] or sys.argv[-1]).exists()
            heavy = sorted({"asyncio", "click", "mig"} & sys.modules.keys())
            print(there, heavy)
            raise SystemExit(0)
sys.meta_path.insert(0, Stop())
entry.main()
"""


def test_the_readiness_file_is_kept_fresh_only_while_the_loop_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "_BEAT_SECONDS", 0.01)
    ready = tmp_path / "ready"

    def age_s() -> float:
        return time.time() - ready.stat().st_mtime

    async def scenario() -> None:
        heart = asyncio.create_task(heartbeat.keep_fresh(ready))
        await asyncio.sleep(0.05)
        assert not ready.exists()  # gpud is not ready yet
        readiness.announce(ready)
        os.utime(ready, (1, 1))
        await asyncio.sleep(0.05)
        assert age_s() < 10
        os.utime(ready, (1, 1))
        time.sleep(0.05)  # noqa: ASYNC251 - the loop hangs
        assert age_s() > 10
        heart.cancel()

    asyncio.run(scenario())


@pytest.mark.parametrize("together", [True, False])
def test_a_restarted_container_is_not_ready_while_its_gpud_is_loaded(
    tmp_path: Path, together: bool
) -> None:
    ready = tmp_path / "ready"
    ready.write_text("ready\n")
    option = [f"--ready-file={ready}"] if together else ["--ready-file", str(ready)]
    done = subprocess.run(
        [sys.executable, "-c", LOADED, "--backend=interp", *option],
        env=python_process.module_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False []\n"


@pytest.mark.parametrize(
    "arguments", [(), ("--ready-file",), ("--ready-file=",), ("--ready-file-2=x",)]
)
def test_without_a_file_nothing_is_removed(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x").write_text("stays")
    readiness.withdraw_named(arguments)
    assert Path("x").exists()


def test_what_cannot_be_removed_is_the_command_s_to_report(tmp_path: Path) -> None:
    (tmp_path / "ready" / "in").mkdir(parents=True)
    readiness.withdraw_named([f"--ready-file={tmp_path / 'ready'}"])
    with pytest.raises(OSError, match="ready"):
        readiness.withdraw(tmp_path / "ready")


@pytest.fixture
def options(tmp_path: Path) -> NodeOptions:
    served: list[NodeOptions] = []

    async def serve(node: NodeOptions, *_: object) -> int:
        served.append(node)
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "_serve", serve)
        patch.setattr(command.processes, "adopt_orphans", lambda: None)
        arguments = [f"--run-dir={tmp_path / 'run'}", f"--state-dir={tmp_path / 'state'}"]
        assert CliRunner().invoke(command.main, arguments).exit_code == 0
    return served[0]


def test_a_gpud_that_could_take_over_says_so_and_leaves_nothing(
    options: NodeOptions, tmp_path: Path
) -> None:
    journal.save(options.state_dir, journal.NodeState())
    ready = tmp_path / "ready"
    command._stand_by(options, ready)
    assert ready.read_text()
    assert [one.name for one in options.state_dir.iterdir()] == [journal.FILE_NAME]
    assert not list(options.run_dir.iterdir())


@pytest.mark.parametrize("file", [journal.FILE_NAME, sharing.FILE_NAME])
def test_a_state_that_this_gpud_cannot_read_keeps_the_one_before(
    file: str, options: NodeOptions, tmp_path: Path
) -> None:
    """The file belongs to the serving gpud: it is not moved aside."""
    path = options.state_dir / file
    path.write_text('{"version": 99}')
    with pytest.raises(JournalError, match=f"{path} .*cannot take over"):
        command._stand_by(options, tmp_path / "ready")
    assert path.read_text() == '{"version": 99}'
    assert not (tmp_path / "ready").exists()


@pytest.mark.parametrize("part", ["run", "state", "telemetry"])
def test_a_directory_in_which_nothing_can_be_made_keeps_the_one_before(
    part: str, options: NodeOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write everywhere, so the refusals are simulated."""
    telemetry = tmp_path / "telemetry"
    telemetry.mkdir()
    options = dataclasses.replace(
        options, telemetry=TelemetryOptions(telemetry / "gpud.sock", 64010)
    )

    def refuse(path: Path) -> None:
        if path.name == part:
            raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(preflight, "_write", refuse)
    bind = preflight._bind
    monkeypatch.setattr(preflight, "_bind", lambda path: (refuse(path), bind(path)))
    with pytest.raises(PermissionError):
        command._stand_by(options, tmp_path / "ready")
    assert not (tmp_path / "ready").exists()


def test_a_run_directory_whose_sockets_have_too_long_names_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / ("x" * 100)
    directory.mkdir()
    with pytest.raises(OSError, match="AF_UNIX path too long"):
        preflight._bind(directory)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / f"try-{1}.sock"))
    preflight._bind(tmp_path)
