"""Programs of others, built from Go modules once into a cache: judges of ours, never part of it.

``python -m support.programs.go_programs`` (``make judge``) builds what is missing. Tests only use what is there: a
build takes minutes, and would hold up all that runs beside it.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

MODULES = Path(__file__).with_name("go_programs")
BUILD_S = 1500


def program(module: str, name: str) -> Path:
    """Return a program of ``go_programs/<module>``; skip, and say so, where it is not built."""
    built = _room(MODULES / module) / name
    if not built.exists():
        pytest.skip(f"NOT RUN: {name} is not built: make judge, with Go and its module proxy")
    return built


def build_missing() -> None:
    """Build all that is not in the cache; say of what cannot be built why."""
    go = shutil.which("go", path=f"{os.environ.get('PATH', '')}:/usr/local/go/bin")
    for source in sorted(each.parent for each in MODULES.glob("*/go.mod")):
        for package in _tools(source):
            built = _room(source) / package.rpartition("/")[2]
            if built.exists():
                continue
            print(f"  building {package}", flush=True)
            why = _build(go, source, package, built) if go else "there is no Go"
            if why:
                print(f"NOT BUILT, and not judged by it: {package}: {why}", file=sys.stderr)


def _build(go: str, source: Path, package: str, built: Path) -> str:
    """Build a package; return why not, if not."""
    built.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=built.parent) as place:
        made = Path(place) / built.name
        command = [go, "build", "-trimpath", "-ldflags", "-s -w", "-o", str(made), package]
        environment = os.environ | {"GOFLAGS": "-mod=readonly -buildvcs=false"}
        try:
            done = subprocess.run(
                command,
                cwd=source,
                env=environment,
                capture_output=True,
                text=True,
                timeout=BUILD_S,
            )
        except subprocess.TimeoutExpired:
            return f"it took longer than {BUILD_S} s"
        if done.returncode:
            return (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        made.rename(built)  # at once: another may be building it, too
    return ""


def _tools(source: Path) -> list[str]:
    """Return the packages of a module's ``tool`` lines, alone or in a block."""
    lines = [line.split() for line in (source / "go.mod").read_text().splitlines()]
    found = [words[1] for words in lines if len(words) == 2 and words[0] == "tool"]
    block = False
    for words in lines:
        if words == ["tool", "("]:
            block = True
        elif words == [")"]:
            block = False
        elif block and words:
            found.append(words[0])
    return [each for each in found if each != "("]


def _room(source: Path) -> Path:
    """Return the folder of a module's programs, of just these versions."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    pinned = b"".join((source / file).read_bytes() for file in ("go.mod", "go.sum"))
    name = f"{source.name}-{hashlib.sha256(pinned).hexdigest()[:16]}"
    return home / "tessera" / "go-programs" / name


if __name__ == "__main__":
    build_missing()
