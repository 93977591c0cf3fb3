"""Manual pages and completion files: one page for each command, which man can show."""

import shutil
import subprocess
from pathlib import Path

import click
import pytest

from vgpu_sim.cli import manual
from vgpu_sim.cli.main import main


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with all files."""
    folder = tmp_path_factory.mktemp("share")
    manual.write_all(folder)
    return folder


def test_every_command_has_a_page(share: Path) -> None:
    pages = {path.stem for path in (share / "man" / "man1").iterdir()}
    context = click.Context(main)
    for verb in main.list_commands(context):
        assert f"tessera-{verb}" in pages
    assert {
        "tessera",
        "kubectl-tessera",
        "tessera-fault-inject",
        "tessera-perf-predict-gemm",
    } <= pages


def test_a_page_has_the_options_of_the_help(share: Path) -> None:
    text = (share / "man" / "man1" / "tessera-run.1").read_text()
    for part in (".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", "kernel\\-timeout", "Ctrl\\-C"):
        assert part in text


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_man_has_no_complaint(share: Path) -> None:
    pages = sorted((share / "man" / "man1").iterdir())
    command = ["groff", "-man", "-Tutf8", "-ww", "-z", *pages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_files_are_valid(share: Path, shell: str) -> None:
    file = share / manual.COMPLETIONS[shell].format("tessera")
    text = file.read_text()
    assert f"_TESSERA_COMPLETE={shell}_complete" in text
    if shell == "zsh":
        assert text.startswith("#compdef tessera")
    if shutil.which(shell):
        subprocess.run([shell, "-n", file], check=True)
