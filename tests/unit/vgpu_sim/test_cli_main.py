"""``tessera`` as shells meet it: closed streams, full disks, Ctrl-C, hostile files, completion."""

import os
import signal
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete
from tessera_run import EXAMPLES, tessera

from mig.geometry import BOARDS, board
from vgpu_sim.cli.main import main

PTX = str(EXAMPLES / "vecadd.ptx")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def shell(script: str) -> subprocess.CompletedProcess[str]:
    """Run a script whose "$@" is the tessera command."""
    return subprocess.run(
        ["bash", "-c", script, "bash", *tessera()],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("stream", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("verb", "status"), [(f"ptx check {PTX}", 0), (f"ptx compile {PTX}", 0), ("smi", 9)]
)
def test_a_closed_stream_changes_no_status(stream, verb, status, tmp_path):
    done = shell(f'TESSERA_RUN_DIR={tmp_path} TESSERA_SLICES_DIR={tmp_path} "$@" {verb} {stream}')
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "verb", ["ptx check -", "ptx compile -", "isa disasm -", "isa asm - -o /dev/null"]
)
def test_closed_standard_input_is_empty(verb):
    done = shell(f'"$@" {verb} <&-')
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "-:" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "verb", ["--help", "mig boards", f"ptx check {PTX}", f"ptx compile {PTX} -o /dev/full"]
)
def test_output_that_cannot_be_written_is_one_line(verb):
    done = shell(f'"$@" {verb} > /dev/full')
    assert done.returncode == 1
    assert done.stderr == "tessera: [Errno 28] No space left on device\n"


def test_a_reader_that_has_gone_is_no_story():
    done = shell('"$@" mig states --board b200 --maximal | true; exit ${PIPESTATUS[0]}')
    assert (done.returncode, done.stderr) == (1, "")


def test_ctrl_c_ends_it_by_that_signal():
    with subprocess.Popen(
        tessera("ptx", "check", "/dev/stdin"),
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # shells ignore it for &
    ) as waiting:
        os.write(waiting.stdin.fileno(), b".version 7.0\n")
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(2)
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(20) == -signal.SIGINT


@pytest.mark.parametrize(
    "verb", [["ptx", "check"], ["ptx", "compile"], ["isa", "disasm"], ["isa", "asm", "-o", "out"]]
)
@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("/dev/zero", "File too large"),
        ("nowhere", "No such file or directory"),
        (".", "Is a directory"),
    ],
)
def test_a_file_that_cannot_be_read_is_1_and_one_line(verb, file, reason, tmp_path):
    done = subprocess.run(
        [*tessera(*verb), file],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"{file}: {reason}" in done.stderr
    assert not list(tmp_path.iterdir())


def complete(*words):
    *done, last = words
    found = ShellComplete(main, {}, "tessera", "_TESSERA_COMPLETE").get_completions([*done], last)
    return [item.value if item.type == "plain" else item.type for item in found]


def test_run_completes_boards_profiles_and_commands():
    assert complete("run", "--board", "") == list(BOARDS)
    assert complete("run", "--board", "h1") == ["h100-80gb", "h100-nvl"]
    of_a30 = [profile.name for profile in board("a30").profiles]
    assert complete("run", "--board", "a30", "--slice", "") == of_a30
    every = complete("run", "--slice", "")
    assert len(every) == len(set(every)) > len(of_a30)
    assert complete("run", "--board", "a30", "--slice", "1g.6gb", "py") == ["file"]


@pytest.mark.parametrize(
    "verb", [("ptx", "check"), ("ptx", "compile"), ("isa", "asm"), ("isa", "disasm")]
)
def test_files_are_completed_as_files(verb):
    assert complete(*verb, "ve") == ["file"]
