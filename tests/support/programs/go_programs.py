"""Third-party programs, built from Go modules into a cache: references for tests, never part of the
product.

``python -m support.programs.go_programs`` (``make references``) builds missing programs. Tests only
use existing ones, because a build takes minutes and would delay everything that runs concurrently.
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
    """Return a program of ``go_programs/<module>``; skip the test with a message if it is not
    built.
    """
    built = _room(MODULES / module) / name
    if not built.exists():
        pytest.skip(f"NOT RUN: {name} is not built: make references, with Go and its module proxy")
    return built


def build_missing() -> None:
    """Build the programs that are not in the cache; print why any cannot be built."""
    go = shutil.which("go", path=f"{os.environ.get('PATH', '')}:/usr/local/go/bin")
    for source in sorted(each.parent for each in MODULES.glob("*/go.mod")):
        for package in _tools(source):
            built = _room(source) / package.rpartition("/")[2]
            if built.exists():
                continue
            print(f"  building {package}", flush=True)
            why = _build(go, source, package, built) if go else "there is no Go"
            if why:
                print(f"NOT BUILT, so its checks are skipped: {package}: {why}", file=sys.stderr)


def _build(go: str, source: Path, package: str, built: Path) -> str:
    """Build a package; return why that failed, or an empty string."""
    built.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=built.parent) as place:
        made = Path(place) / built.name
        # The options of deploy/kind/build-programs, which then need not compile the same packages.
        options = ["-trimpath", "-gcflags=all=-dwarf=false", "-ldflags=-s -w"]
        options += ["-tags=netgo,osusergo", "-o", str(made)]
        command = [go, "build", *options, package]
        environment = os.environ | {
            "GOFLAGS": "-mod=readonly -buildvcs=false",
            "GOGC": "off",  # a compiler's process ends before it needs a gigabyte
            "GOMEMLIMIT": "1GiB",
        }
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
        made.rename(built)  # atomic, because another process may build it too
    return ""


def _tools(source: Path) -> list[str]:
    """Return the packages in a module's ``tool`` lines and blocks."""
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
    """Return the folder of a module's programs, for its exact pinned versions."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    pinned = b"".join((source / file).read_bytes() for file in ("go.mod", "go.sum"))
    name = f"{source.name}-{hashlib.sha256(pinned).hexdigest()[:16]}"
    return home / "tessera" / "go-programs" / name


if __name__ == "__main__":
    build_missing()
