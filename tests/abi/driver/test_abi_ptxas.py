"""The program ptxas: its command line, its messages, and its output as an image."""

import subprocess
import sys
from pathlib import Path

import pytest

from vgpu_sim import config
from vgpu_sim.isa import container

HEAD = ".version 7.0\n.target sm_80\n.address_size 64\n"
GOOD = HEAD + ".visible .entry k() { ret; }\n"
WRONG = HEAD + ".visible .entry k()\n{\n  fmaz.f32 %f1, %f2;\n  ret;\n}\n"
REFUSED = (
    GOOD.replace("7.0", "8.0").replace("sm_80", "sm_90a").replace("ret;", "\n  pmevent 1;\n  ret;")
)
ABORTED = "ptxas fatal   : Ptx assembly aborted due to errors\n"
FATAL = {
    "--foo in.ptx": "Unknown option '-foo'",
    "-gpu-name=sm_90 in.ptx": "Unknown option 'gpu-name'",
    "-arch=sm_999 in.ptx": "Value 'sm_999' is not defined for option 'gpu-name'",
    "-arch": "argument expected after '-arch'",
    "-maxrregcount=x in.ptx": "Invalid value 'x' for option 'maxrregcount'",
    "-arch=sm_70 in.ptx": (
        "SM version specified by .target is higher than default SM version assumed"
    ),
    "-arch=sm_90 -o /nodir/x in.ptx": "Output file '/nodir/x' could not be opened",
    "-arch=sm_90 -m32 in.ptx": "Value '32' is not defined for option 'machine'",
    "-v=3 in.ptx": "no argument expected after '-v'",
    "-arch=sm_90 -fmad=maybe in.ptx": "'maybe': expected true or false",
    "-arch=sm_90 --opt-level in.ptx": "'in.ptx': expected a number",
    "-arch=sm_90 -g -O3 in.ptx": "Optimized debugging not supported",
    "-arch=sm_90 -optf no.txt in.ptx": "Could not open options file 'no.txt'",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"in": GOOD, "wrong": WRONG, "refused": REFUSED, "no": "no PTX\n"}.items():
        (tmp_path / f"{name}.ptx").write_text(text)
    return tmp_path


@pytest.fixture
def ptxas(libraries: Path, folder: Path):
    def run(
        words: str, *, checks: bool = False, python: str = sys.executable
    ) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": "/usr/bin:/bin"}
        if checks:
            environment = config.with_ptxas_check(environment, python)
        command = [str(libraries / "bin" / "ptxas"), *words.split()]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )

    return run


def test_a_wrong_command_line_gets_the_message_of_ptxas(ptxas):
    for words, message in FATAL.items():
        done = ptxas(words)
        assert (done.returncode, done.stderr) == (255, f"ptxas fatal   : {message}\n"), words
    done = ptxas("absent.ptx")
    opened = "ptxas fatal   : Input file 'absent.ptx' could not be opened\n"
    assert (done.returncode, done.stderr) == (255, opened + ABORTED)


def test_the_output_is_the_text_and_a_nul_byte(ptxas, folder, cuda):
    accepted = (
        "-lineinfo -v --regAllocOptLevel=2 --gpu-name=sm_90 in.ptx -o out",  # Triton 3.9
        "in.ptx -o out -arch=sm_90a --warn-on-spills",  # XLA
        "-arch sm_80 -m64 -O3 -c --fmad=false -maxrregcount 64 in.ptx --output-file out",
    )
    for words in accepted:
        done = ptxas(words)
        assert (done.returncode, done.stderr) == (0, ""), words
        assert (folder / "out").read_bytes() == GOOD.encode() + b"\0"
    module = cuda.cuModuleLoadFatBinary((folder / "out").read_bytes())
    cuda.cuModuleGetFunction(module, b"k")


def test_options_are_read_from_a_file_and_the_text_from_standard_input(ptxas, folder):
    (folder / "options").write_text("-arch=sm_90\n  -o filed\n")
    assert ptxas("-optf options in.ptx").returncode == 0
    assert (folder / "filed").exists()
    twice = ptxas("-arch=sm_90 -arch=sm_80 in.ptx")
    assert (twice.returncode, twice.stderr.split(":")[0]) == (0, "ptxas warning ")
    assert ptxas("-Werror -arch=sm_90 -arch=sm_80 in.ptx").returncode == 255
    assert ptxas("-arch=compute_90 in.ptx -o none").returncode == 0
    assert not (folder / "none").exists(), "a virtual architecture has no code"


def test_the_version_is_that_of_the_driver(ptxas):
    assert "release 13.0, V13.0." in ptxas("--version").stdout
    assert "--gpu-name" in ptxas("").stdout
    assert "sm_90a\n" in ptxas("--list-arch").stdout


def test_what_is_no_ptx_is_refused_without_a_compiler(ptxas):
    done = ptxas("-arch=sm_90 no.ptx")
    message = (
        "ptxas no.ptx, line 1; fatal   : Missing .version directive at start of file 'no.ptx'\n"
    )
    assert (done.returncode, done.stderr) == (255, message + ABORTED)
    assert ptxas("-arch=sm_90 wrong.ptx").returncode == 0, "the driver refuses it"
    assert "run `tessera ptxas`" in ptxas("-arch=sm_90 --emit container in.ptx").stderr


def test_the_compiler_names_line_and_instruction(ptxas, folder):
    wrong = ptxas("-arch=sm_90 wrong.ptx", checks=True)
    message = "ptxas wrong.ptx, line 6; error   : 'fmaz' is not an instruction of PTX: fmaz.f32"
    assert wrong.returncode == 255
    assert wrong.stderr.startswith(message)
    assert wrong.stderr.endswith(ABORTED)
    refused = ptxas("-arch=sm_90a refused.ptx", checks=True)
    assert (refused.returncode, "line 5; error   : instruction 'pmevent'" in refused.stderr) == (
        255,
        True,
    )
    whole = ptxas("-arch=sm_90 -v --emit container in.ptx -o container", checks=True)
    assert "Compiling entry function 'k' for 'sm_90'" in whole.stderr
    decoded = container.decode((folder / "container").read_bytes())
    assert [one.name for one in decoded.functions] == ["k"]


def test_a_check_that_could_not_run_leaves_the_text_to_the_driver(ptxas, folder):
    python = folder / "python"
    python.write_text("#!/bin/sh\nexit 1\n")  # as Python does on an exception of any kind
    python.chmod(0o755)
    for one in (python, folder / "absent"):
        done = ptxas("-arch=sm_90 in.ptx -o out", checks=True, python=str(one))
        assert done.returncode == 0, done.stderr
        assert done.stderr.startswith("ptxas warning : Tessera's compiler failed or could not be")
        assert (folder / "out").read_bytes() == GOOD.encode() + b"\0"
        needed = ptxas("-arch=sm_90 --emit container in.ptx", checks=True, python=str(one))
        assert (needed.returncode, "Tessera's compiler failed" in needed.stderr) == (255, True)


def test_text_behind_a_nul_is_refused_and_padding_is_not(ptxas, folder):
    (folder / "padded.ptx").write_bytes(GOOD.encode() + b"\0\0")
    assert ptxas("-arch=sm_90 padded.ptx -o out").returncode == 0
    assert (folder / "out").read_bytes() == GOOD.encode() + b"\0"
    (folder / "cut.ptx").write_bytes(HEAD.encode() + b"\0" + GOOD.encode())
    done = ptxas("-arch=sm_90 cut.ptx -o cut")
    assert (done.returncode, "has text behind a NUL byte" in done.stderr) == (255, True)
    assert not (folder / "cut").exists()
