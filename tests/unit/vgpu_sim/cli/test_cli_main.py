"""``tessera`` in a shell: closed streams, full disks, Ctrl-C, hostile files, completion."""

import errno
import os
import re
import signal
import subprocess
import sys

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from mig.geometry import BOARDS, board
from support.processes.tessera_run import EXAMPLES, tessera
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
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "-:" in done.stdout + done.stderr


@pytest.mark.parametrize("verb", ["--help", "mig boards", f"ptx check {PTX}", "libdir"])
def test_output_that_cannot_be_written_is_one_line(verb):
    done = shell(f'"$@" {verb} > /dev/full')
    assert done.returncode == 1
    assert done.stderr == "error: output: No space left on device\n"


@pytest.mark.parametrize(
    "verb", [f"ptx compile {PTX} -o", f"ptx compile {PTX} --emit container -o", "isa asm - -o"]
)
def test_a_file_that_cannot_be_written_is_named(verb):
    done = shell(f'"$@" ptx compile {PTX} | "$@" {verb} /dev/full')
    assert done.returncode == 1
    assert done.stderr == "error: /dev/full: No space left on device\n"


@pytest.mark.parametrize(
    ("verb", "status"),
    [
        ("nonsense", 2),
        ("ptx check /nonexistent", 2),
        (f"ptx compile {PTX} -o /nonexistent/k", 1),
    ],
)
def test_unwritable_errors_end_the_command_with_its_own_status(verb, status):
    done = shell(f'"$@" {verb} 2> /dev/full')
    assert done.returncode == status
    assert "Traceback" not in done.stderr


def test_output_goes_to_a_file_that_is_writable_but_not_readable(tmp_path, monkeypatch):
    (tmp_path / "k.isa").touch()
    allowed = os.access
    monkeypatch.setattr(  # root can read every file
        os, "access", lambda path, mode, **rest: mode != os.R_OK and allowed(path, mode, **rest)
    )
    done = CliRunner().invoke(main, ["ptx", "compile", PTX, "-o", str(tmp_path / "k.isa")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "k.isa").read_bytes().startswith(b".isa 1\n")


@pytest.mark.parametrize("verb", ["ptx compile --emit container", "ptx compile --emit object"])
def test_no_binary_goes_to_a_terminal(verb):
    done = shell(f"""script -qec "$(printf '%q ' "$@") {verb} {PTX}" /dev/null""")
    assert done.returncode == 1
    assert re.search(
        r"error: an? \w+ is binary, not text for a terminal: name a file with -o", done.stdout
    )
    assert done.stdout.count("\n") == 1


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "vgpu_sim.cli.main", "ptx", "check", PTX],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"{PTX}: loads (1 kernel)\n")


def test_text_that_is_not_utf_8_is_reported_with_its_line(tmp_path):
    (tmp_path / "k.isa").write_bytes(b".isa 1\n// caf\xe9\n")
    done = shell(f'"$@" isa asm {tmp_path}/k.isa -o /dev/null')
    assert done.returncode == 2
    reason = "not text: line 2 has the byte 0xe9, which is not UTF-8"
    assert done.stderr == f"error: {tmp_path}/k.isa: {reason}\n"


def test_libdir_is_where_programs_link(tmp_path):
    (tmp_path / "p.c").write_text("int cuInit(unsigned); int main(void) { return cuInit(0) == 0; }")
    done = shell(f'gcc {tmp_path}/p.c -o {tmp_path}/p -L"$("$@" libdir)" -lcuda')
    assert done.returncode == 0, done.stderr


def test_a_closed_pipe_prints_no_error():
    done = shell('"$@" mig states --board b200 --maximal | true; exit ${PIPESTATUS[0]}')
    assert (done.returncode, done.stderr) == (1, "")


def test_ctrl_c_ends_the_command_by_that_signal():
    with subprocess.Popen(
        tessera("ptx", "check", "/dev/stdin"),
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # & ignores it
    ) as waiting:
        os.write(waiting.stdin.fileno(), b".version 7.0\n")
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(2)
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(60) == -signal.SIGINT


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
def test_a_file_that_cannot_be_read_is_2_and_one_line(verb, file, reason, tmp_path):
    done = subprocess.run(
        [*tessera(*verb), file],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"error: {file}: {reason}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "verb", [["ptx", "check"], ["ptx", "compile"], ["isa", "disasm"], ["isa", "asm", "-o", "out"]]
)
def test_a_file_without_permission_is_2_and_one_line(verb, tmp_path, monkeypatch):
    """Root can read every file, so the system's refusal is simulated."""
    secret = tmp_path / "secret"
    secret.write_text("")

    def refuse(*_arguments, **_options):
        raise PermissionError(errno.EACCES, "Permission denied", str(secret))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_arguments, **_options: False)
    monkeypatch.setattr(click, "open_file", refuse)
    done = CliRunner().invoke(main, [*verb, str(secret)])
    assert done.exit_code == 2
    assert done.output == f"error: {secret}: Permission denied\n"


def complete(*words):
    *done, last = words
    found = ShellComplete(main, {}, "tessera", "_TESSERA_COMPLETE").get_completions([*done], last)
    return [item.value if item.type == "plain" else item.type for item in found]


def test_run_completes_boards_profiles_and_commands():
    assert complete("run", "--board", "") == list(BOARDS)
    assert complete("run", "--board", "h1") == ["h100-80gb", "h100-nvl"]
    of_a30 = [device.name for device in board("a30").device_profiles]
    assert complete("run", "--board", "a30", "--slice", "") == of_a30
    every = complete("run", "--slice", "")
    assert len(every) == len(set(every)) > len(of_a30)
    assert complete("run", "--board", "a30", "--slice", "1g.6gb", "py") == ["file"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("predict", "gemm", "--board", "h2"), ["h200"]),
        (("compare", "--boards", "b200,h2"), ["b200,h200"]),
        (("model", "mixtral-8x7"), ["mixtral-8x7b"]),
        (("model", "mixtral-8x7b", "--board", "gb"), ["gb200"]),
        (("validate", "--board", "h2"), ["h200"]),
        (("validate", "--donor", "h2"), ["h200"]),
    ],
)
def test_perf_completes_its_own_boards_and_models(words, found):
    assert complete("perf", *words) == found


@pytest.mark.parametrize(
    "verb", [("ptx", "check"), ("ptx", "compile"), ("isa", "asm"), ("isa", "disasm")]
)
def test_files_are_completed_as_files(verb):
    assert complete(*verb, "ve") == ["file"]


def test_the_list_of_verbs_has_the_first_line_of_each_command_s_help():
    context = click.Context(main)
    listed = {item.value: item.help for item in main.shell_complete(context, "")}
    commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    assert listed == {name: command.get_short_help_str() for name, command in commands.items()}
    assert not any(command.hidden for command in commands.values())
    whole = CliRunner().invoke(main, ["--help"], terminal_width=120).output
    for name, command in commands.items():
        assert f"{name:16}{command.get_short_help_str(98)}" in whole


@pytest.mark.parametrize(
    "listing",
    ["main(['--help'], standalone_mode=False)", "main.shell_complete(click.Context(main), '')"],
)
def test_the_list_of_verbs_imports_none_of_them(listing):
    program = (
        "import contextlib, sys, click\nfrom vgpu_sim.cli.main import main\n"
        f"with contextlib.suppress(SystemExit):  # the command ends its process\n    {listing}\n"
        "print(sorted(name for name in sys.modules if name.startswith('vgpu_sim.cli.')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    own = [f"vgpu_sim.cli.{name}" for name in ("errors", "groups", "main")]
    assert done.stdout.splitlines()[-1] == str(own)
