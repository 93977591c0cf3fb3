"""``tessera run``: placement of slices, refused options, handling of signals."""

import errno
import os
import signal
import subprocess
import sys
import time

import click
import pytest
from click.testing import CliRunner

from boards.record import ARCHITECTURES
from mig.geometry import BOARDS, board
from mig.planner.rules import violations
from vgpu_sim import config, frameworks
from vgpu_sim.cli import interrupts, placing
from vgpu_sim.cli.clients.admin import AdminRefused
from vgpu_sim.cli.clients.standalone import StartFailed
from vgpu_sim.cli.run import command
from vgpu_sim.gpud.command import main as gpud


@pytest.mark.parametrize("key", BOARDS)
def test_any_number_of_slices_of_any_profile_is_laid_out_legally(key):
    chosen = BOARDS[key]
    for device in chosen.device_profiles:
        inner = 1 if device.compute is None else device.compute.max_count
        most = device.profile.max_count * inner
        for count in (1, 2, most, most + 1):
            if count > 8 * most:
                continue
            placed = placing.layout(chosen, device, count)
            assert sum(map(len, placed)) == count
            assert len(placed) == -(-count // most)
            for gpu in placed:
                assert not violations(chosen, gpu)


def test_more_than_the_aperture_holds_is_refused():
    chosen = board("h100-80gb")
    assert len(placing.layout(chosen, chosen.device_profile("1g.10gb"), 56)) == 8
    with pytest.raises(click.UsageError, match="at most 56"):
        placing.layout(chosen, chosen.device_profile("1g.10gb"), 57)
    with pytest.raises(click.UsageError, match="--count 9: a run has at most 8 GPUs"):
        placing.layout(chosen, chosen.device_profile("whole"), 9)


def invoke(*arguments: str):
    return CliRunner().invoke(command.command, arguments)


def test_an_unknown_board_lists_the_known_ones():
    done = invoke("--board", "zzz", "--slice", "1g.10gb", "--", "true")
    assert done.exit_code == 2
    assert all(key in done.output for key in BOARDS)


def test_an_unknown_profile_lists_the_boards():
    done = invoke("--board", "a30", "--slice", "1g.10gb", "--", "true")
    assert done.exit_code == 2
    assert all(profile.name in done.output for profile in board("a30").profiles)


@pytest.mark.parametrize("where", [("--",), ()])
def test_an_unknown_option_is_not_a_command(where):
    done = invoke("--board", "a30", "--slice", "1g.6gb", "--threds", *where, "true")
    assert done.exit_code == 2
    assert "--threds" in done.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Missing option '--board'"),
        (("--slice", "1g.6gb"), "Missing option '--board'"),
        (("--slice", "1g.6gb", "--hca"), "--slice needs --board"),
        (("--board", "a30", "--count", "9"), "a run has at most 8 GPUs"),
        (("--fabric", "x", "--board", "a30", "--slice", "1g.6gb"), "--fabric needs --hca"),
        (("--system-verbs", "--board", "a30", "--slice", "1g.6gb"), "--system-verbs needs --hca"),
        (("--hca", "--fabric", "a/b"), "1 to 32 letters"),
        (("--hca", "--stats"), "--stats needs --board"),
        (("--hca", "--preload", "13"), "--preload needs --board"),
    ],
)
def test_conflicting_options_are_refused(arguments, words):
    done = invoke(*arguments, "--", "true")
    assert done.exit_code == 2
    assert words in done.output


@pytest.mark.parametrize("text", ["9", "9.0.0", "nine", "13.7", ""])
def test_an_unknown_capability_lists_the_known_ones(text):
    done = invoke("--board", "b200", "--slice", "1g.23gb", "--cc", text, "--", "true")
    assert done.exit_code == 2
    assert all(f"{major}.{minor}" in done.output for major, minor in ARCHITECTURES)


def test_without_the_client_library_it_says_how_to_build_it(monkeypatch, tmp_path):
    monkeypatch.setattr(config, "LIBRARIES_DIR", tmp_path)
    done = invoke("--board", "a30", "--slice", "1g.6gb", "--", "true")
    assert done.exit_code == command.EXIT_FAILED
    assert "python -m vgpu_sim.native.build" in done.stderr
    assert done.stdout == "", "a program's output is all that may be there"


def test_its_own_failures_have_the_statuses_of_env():
    """GNU coreutils: 125 env itself failed, 126 found but not executable, 127 not found."""
    assert (command.EXIT_FAILED, command.EXIT_NOT_EXECUTABLE, command.EXIT_NOT_FOUND) == (
        125,
        126,
        127,
    )
    assert all(status in command.command.help for status in ("125", "126", "127"))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (StartFailed("gpud ended with status 1"), "gpud ended with status 1"),
        (AdminRefused("conflict", "no such board"), "no such board"),
        (OSError(errno.ENOSPC, "No space left", "/run/x"), "/run/x: No space left"),
        (OSError(errno.ENOSPC, "No space left"), "the slice cannot be made: No space left"),
    ],
)
def test_the_reason_for_a_missing_slice_is_on_stderr(monkeypatch, error, words):
    class Failing:
        def __init__(self, *_):
            pass

        def __enter__(self):
            raise error

        def __exit__(self, *_):
            raise AssertionError("it was never entered")

    monkeypatch.setattr(command, "StandaloneNode", Failing)
    done = invoke("--board", "a30", "--slice", "1g.6gb", "--", "true")
    assert (done.exit_code, done.stdout) == (125, "")
    assert done.stderr.startswith("error: ")
    assert words in done.stderr


def test_the_reason_for_a_missing_hca_does_not_blame_the_slice(monkeypatch):
    def failing(*_, **__):
        raise OSError(errno.ENOSPC, "No space left")

    monkeypatch.setattr(command.run_hca, "member", failing)
    monkeypatch.setattr(command, "_require", lambda *_: None)
    done = invoke("--hca", "--", "true")
    assert (done.exit_code, done.stdout) == (125, "")
    assert done.stderr == "error: the HCA cannot be made: No space left\n"


def test_an_aliased_profile_is_the_same_slice():
    chosen = board("h100-80gb")
    assert chosen.profile("1g.10gb.me") is chosen.profile("1g.10gb+me")
    assert placing.layout(chosen, chosen.device_profile("1g.10gb.me"), 1)


@pytest.mark.parametrize("seconds", ["nan", "inf", "-inf", "0", "x"])
@pytest.mark.parametrize("verb", [command.command, gpud])
def test_an_infinite_time_is_not_a_timeout(verb, seconds):
    fixed = ("--board", "a30", "--slice", "1g.6gb", "true") if verb is command.command else ()
    done = CliRunner().invoke(verb, ["--kernel-timeout", seconds, *fixed])
    assert done.exit_code == 2
    assert "--kernel-timeout" in done.output


@pytest.fixture
def unblock_signals():
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.mark.usefixtures("unblock_signals")
def test_the_program_starts_with_the_callers_signal_mask():
    code = "import signal, sys; sys.exit(len(signal.pthread_sigmask(signal.SIG_BLOCK, ())))"
    inherited = len(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    assert command.run_program([sys.executable, "-c", code], os.environ) == inherited
    assert signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_signal_to_us_alone_is_passed_on():
    """In a separate process: another thread of this one would receive the signal."""
    program = (
        "import signal; signal.pthread_sigmask(signal.SIG_UNBLOCK, range(1, 32));"
        "print('ready', flush=True); signal.pause()"
    )
    code = (
        "import os, sys; from vgpu_sim.cli.run import command;"
        f"sys.exit(command.run_program([sys.executable, '-c', {program!r}], os.environ))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == "ready\n"
        runner.send_signal(signal.SIGUSR1)
        assert runner.wait(60) == 128 + signal.SIGUSR1


def test_the_second_interrupt_ends_a_program_that_ignores_the_first():
    """Like a program that waits for a kernel; the first interrupt is left to the program."""
    program = (
        "import signal\nfor _ in range(9):\n"
        " signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]); print('up', flush=True)\n"
        " signal.sigwait([signal.SIGINT])"
    )
    code = (
        "import os, sys; from vgpu_sim.cli.run import command;"
        f"sys.exit(command.run_program([sys.executable, '-c', {program!r}], os.environ))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as runner:
        assert runner.stdout is not None
        for _ in range(2):
            assert runner.stdout.readline() == "up\n"
            runner.send_signal(signal.SIGINT)
            time.sleep(0.5)  # longer than the period in which interrupts count as one
        out, said = runner.communicate(timeout=60)
        assert runner.returncode == 128 + signal.SIGKILL
        assert "interrupted twice" in said
        assert out == ""


@pytest.mark.parametrize(
    ("times", "ends"),
    [((0.0,), False), ((0.0, 0.1), False), ((0.0, 0.1, 0.3), False), ((0.0, 0.31), True)],
)
def test_interrupts_that_come_together_are_one(monkeypatch, times, ends):
    monkeypatch.setattr(interrupts, "_at_a_prompt", lambda: False)
    counted = interrupts.Interrupts()
    assert [counted.count(one) for one in times][-1] is ends


def test_interrupts_at_a_prompt_are_not_counted(monkeypatch):
    monkeypatch.setattr(interrupts, "_at_a_prompt", lambda: True)
    counted = interrupts.Interrupts()
    assert not any(counted.count(one) for one in (0.0, 5.0, 10.0))


@pytest.mark.usefixtures("unblock_signals")
@pytest.mark.parametrize("name", ["no-such-command", ""])
def test_a_missing_command_is_not_found_despite_unsearchable_folders(name, monkeypatch, capsys):
    def refuse(*_arguments, **_options):  # as execvp does if one directory may not be searched
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert command.run_program([name], os.environ) == command.EXIT_NOT_FOUND
    assert capsys.readouterr().err == f"error: {name or repr(name)}: command not found\n"


@pytest.mark.usefixtures("unblock_signals")
def test_a_file_that_is_no_program_is_found_but_not_executed(tmp_path, monkeypatch, capsys):
    (tmp_path / "data").touch()
    for name in ("data", str(tmp_path / "data")):
        monkeypatch.setenv("PATH", str(tmp_path))
        assert command.run_program([name], os.environ) == command.EXIT_NOT_EXECUTABLE
        assert capsys.readouterr().err == f"error: {name}: Permission denied\n"


def test_the_environment_puts_ours_first_and_keeps_the_rest(monkeypatch, tmp_path):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/other")
    monkeypatch.setenv("KEEP", "me")
    monkeypatch.setenv("PATH", "/opt/bin")
    environment = config.program_environment(tmp_path / "slices", "ab" * 32, tmp_path)
    assert environment["LD_LIBRARY_PATH"] == f"{tmp_path}:/opt/other"
    assert environment["TESSERA_SLICES_DIR"] == str(tmp_path / "slices")
    assert environment["TESSERA_TOKEN"] == "ab" * 32
    assert environment["KEEP"] == "me"
    assert environment["PATH"] == f"{config.PROGRAMS_DIR}:/opt/bin"
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert config.program_environment(tmp_path, "", tmp_path)["LD_LIBRARY_PATH"] == str(tmp_path)


def test_the_mathematical_libraries_are_found_unless_they_are_off(monkeypatch, tmp_path):
    (tmp_path / "math").mkdir()
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/other")
    for value, expected in (("1", f"{tmp_path}/math:{tmp_path}"), ("0", str(tmp_path))):
        monkeypatch.setenv("TESSERA_MATH_LIBRARIES", value)
        environment = config.program_environment(tmp_path, "", tmp_path)
        assert environment["LD_LIBRARY_PATH"] == f"{expected}:/opt/other"


def test_python_finds_the_plug_ins(monkeypatch, tmp_path):
    start, plugin = frameworks.start_plugin(), frameworks.torch_plugin()
    assert (start / "sitecustomize.py").exists()
    assert (plugin / "tessera_torch" / "__init__.py").exists()
    (metadata,) = plugin.glob("*.dist-info/entry_points.txt")
    assert "[torch.backends]" in metadata.read_text()
    monkeypatch.setenv("PYTHONPATH", "/opt/other")
    environment = config.program_environment(tmp_path, "", tmp_path)
    assert environment["PYTHONPATH"] == f"{start}:{plugin}:/opt/other"
    monkeypatch.delenv("PYTHONPATH")
    environment = config.program_environment(tmp_path, "", tmp_path)
    assert environment["PYTHONPATH"] == f"{start}:{plugin}"


def test_the_variables_that_frameworks_need_are_set_unless_the_user_set_them(monkeypatch, tmp_path):
    for name in ("XLA_FLAGS", "XLA_PYTHON_CLIENT_PREALLOCATE", "TF_FORCE_GPU_ALLOW_GROWTH"):
        monkeypatch.delenv(name, raising=False)
        assert name in command.command.epilog
    environment = config.program_environment(tmp_path, "", tmp_path)
    assert environment["XLA_FLAGS"] == "--xla_gpu_autotune_level=0"
    assert environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert environment["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/x")
    monkeypatch.setenv("TF_FORCE_GPU_ALLOW_GROWTH", "false")
    environment = config.program_environment(tmp_path, "", tmp_path)
    assert environment["XLA_FLAGS"] == "--xla_dump_to=/x --xla_gpu_autotune_level=0"
    assert environment["TF_FORCE_GPU_ALLOW_GROWTH"] == "false"
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_autotune_level=2")
    environment = config.program_environment(tmp_path, "", tmp_path)
    assert environment["XLA_FLAGS"] == "--xla_gpu_autotune_level=2"


def test_an_hca_has_a_library_folder_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/other")
    slices = config.program_environment(tmp_path / "slices", "ab" * 32, tmp_path)
    both = config.with_hca(slices, tmp_path / "hca.sock", "ab" * 32, tmp_path / "rdma")
    assert both["LD_LIBRARY_PATH"] == f"{tmp_path / 'rdma'}:{tmp_path}:/opt/other"
    assert both["TESSERA_HCA"] == str(tmp_path / "hca.sock")
    assert both["TESSERA_SLICES_DIR"] == str(tmp_path / "slices")
    assert "TESSERA_HCA" not in slices, "who has a slice keeps the system's verbs"


def test_the_cache_is_the_users_where_there_is_a_home(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert config.user_cache_dir() == tmp_path / "tessera"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # invalid by the specification
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert config.user_cache_dir() == tmp_path / "home" / ".cache" / "tessera"
