"""Runs Tessera's nvidia-smi on a test double of NVML, whose answers never change.

``python -m support.programs.nvidia_smi`` rewrites the transcripts in ``tests/golden/nvidia_smi``.
"""

import functools
import os
import re
import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from support.kept import native_parts
from vgpu_sim.native import build, catalogue

GOLDEN = Path(__file__).parents[2] / "golden" / "nvidia_smi"
_TIME = re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}")
_STAMP = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}")


@dataclass(frozen=True)
class Answer:
    """The output of one run, with every time of day replaced, and its exit status."""

    text: str
    status: int


@functools.cache
def _folder() -> tempfile.TemporaryDirectory:
    """Compile the double, once per process; the folder is deleted when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="fake-nvml-")
    source = Path(__file__).parents[1] / "native" / "fake_nvml.c"
    command = [build.compiler(), "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
    command += ["-fPIC", "-shared", f"-I{catalogue.CLIENTS / 'nvidia_smi'}", str(source)]
    subprocess.run([*command, "-o", f"{folder.name}/libnvidia-ml.so.1"], check=True)
    return folder


@functools.cache
def program() -> Path:
    """Return the path of the command, compiled from the checkout's sources."""
    (path,) = native_parts.build_once("nvidia-smi")
    return path


def environment(double: str = "") -> dict[str, str]:
    """Return an environment with the command and the double; ``double`` selects the double's
    variant.
    """
    return os.environ | {
        "LD_LIBRARY_PATH": _folder().name,
        "PATH": f"{program().parent}:{os.environ['PATH']}",
        "FAKE_NVML": double,
        "TZ": "UTC",
    }


def run(*arguments: str, double: str = "") -> Answer:
    """Run the command on the double."""
    done = subprocess.run(
        [str(program()), *arguments],
        env=environment(double),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    text = _TIME.sub("Thu Jan  1 00:00:00 1970", done.stdout)
    return Answer(_STAMP.sub("1970/01/01 00:00:00.000", text), done.returncode)


def transcript(line: str) -> str:
    """Return a command line, ``[FAKE_NVML=MOOD] nvidia-smi ARGUMENTS``, with its output and
    status.
    """
    words = shlex.split(line)
    double = words.pop(0).partition("=")[2] if "=" in words[0] else ""
    answer = run(*words[1:], double=double)
    return f"$ {line}\n{answer.text}--- exit {answer.status}\n"


if __name__ == "__main__":
    for path in GOLDEN.glob("*.txt"):
        line = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("$ ")
        path.write_text(transcript(line), encoding="utf-8")
