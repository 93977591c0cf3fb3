"""The pytest plugin, in pytest processes of users: without Tessera's own configuration."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "pytest"
ROOMS = os.pathsep.join(map(str, (ROOT, ROOT / "operator")))


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest as in a user's project: the plugin is found by its entry point, or by -p."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "TESSERA_"))}
    command = [sys.executable, "-m", "pytest", "-p", "pytest_tessera.plugin", "-c", "/dev/null"]
    return subprocess.run(
        [*command, "--rootdir", folder, "-p", "no:cacheprovider", "-q", *arguments, folder],
        cwd=folder,
        env={**own, "PYTHONPATH": ROOMS, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_example_passes() -> None:
    done = run_pytest(EXAMPLE, "--strict-markers")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b4 passed\b", done.stdout)


TESTS = """
import os, subprocess
import pytest

def test_first_path(monkeypatch, request):
    monkeypatch.setenv("PATH", "/of/an/earlier/test" + os.pathsep + os.environ["PATH"])
    gpu = request.getfixturevalue("tessera_gpu_later")
    assert "/of/an/earlier/test" in os.environ["PATH"]

@pytest.fixture
def tessera_gpu_later(request): return request.getfixturevalue("tessera_gpu")

def test_default(tessera_gpu):
    text = tessera_gpu.run("nvidia-smi", "-L").stdout
    assert "A30" in text and "MIG 1g.6gb" in text, text
    assert tessera_gpu.run("tessera", "validate").stdout.count("verified") == 1

def test_same_gpus_again(tessera_gpu):
    open("first", "a").write(tessera_gpu.environment["TESSERA_SLICES_DIR"])

@pytest.mark.tessera(own=True)
def test_own_gpus(tessera_gpu):
    assert open("first").read() != tessera_gpu.environment["TESSERA_SLICES_DIR"]

def test_failing_program(tessera_gpu):
    with pytest.raises(subprocess.CalledProcessError) as failed:
        tessera_gpu.run("sh", "-c", "echo reason >&2; exit 3")
    assert failed.value.returncode == 3
    assert failed.value.__notes__ == ["reason\\n"]

def test_a_path_of_one_test(tessera_gpu, monkeypatch):
    monkeypatch.setenv("PATH", "/of/one/test" + os.pathsep + os.environ["PATH"])
    assert "/of/one/test" in tessera_gpu.run("printenv", "PATH").stdout
    own = {"PATH": "/mine:/usr/bin:/bin", "A": "b"}
    text = tessera_gpu.run("/usr/bin/printenv", env=own).stdout
    assert ":/mine:/usr/bin:/bin:" in text and "A=b" in text and "HOME=" not in text

def test_path_of_a_later_test(tessera_gpu):
    assert "/of/" not in os.environ["PATH"]

def test_output_to_a_file(tessera_gpu, tmp_path):
    with open(tmp_path / "out", "w") as out:
        done = tessera_gpu.run("echo", "text", stdout=out)
    assert (done.stdout, (tmp_path / "out").read_text()) == (None, "text\\n")

@pytest.mark.tessera(board=["a30"])
def test_wrong_type(tessera_gpu): raise SystemExit("not reached")

@pytest.mark.tessera(kernel_timeout="1")
def test_wrong_timeout(tessera_gpu): raise SystemExit("not reached")

def test_nothing_remains_after_a_test():
    assert "TESSERA_SLICES_DIR" not in os.environ

@pytest.mark.tessera(board="h100")
def test_wrong_board(tessera_gpu): raise SystemExit("not reached")

@pytest.mark.tessera(board="h100-80gb", slice="9g.90gb")
def test_wrong_slice(tessera_gpu): raise SystemExit("not reached")

@pytest.mark.tessera(count=0)
def test_wrong_count(tessera_gpu): raise SystemExit("not reached")

@pytest.mark.tessera(bord="a30")
def test_wrong_argument(tessera_gpu): raise SystemExit("not reached")
"""


def test_options_markers_and_errors(tmp_path: Path) -> None:
    (tmp_path / "test_them.py").write_text(TESTS)
    options = ("--tessera-board", "a30", "--tessera-slice", "1g.6gb", "--strict-markers")
    done = run_pytest(tmp_path, *options)
    assert re.search(r"\b9 passed, 6 errors\b", done.stdout), done.stdout + done.stderr
    for text in (
        "'h100'",
        "9g.90gb",
        "count=0 is not",
        "no argument 'bord'",
        "is not a name",
        "kernel_timeout='1'",
    ):
        assert f"{text}" in done.stdout
    assert "not reached" not in done.stdout.replace('raise SystemExit("not reached")', "")
    assert "h100-80gb" in done.stdout, "the error lists the boards"
    assert "exception" not in done.stdout, "one error is printed once"
