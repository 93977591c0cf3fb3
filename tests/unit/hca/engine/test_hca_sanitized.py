"""The tests of hostile clients, repeated with sanitizers compiled in."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.kept import native_parts
from support.rigs import hca_rig
from vgpu_sim.native import build

HERE = Path(__file__).parents[1]
# The address sanitizer must not handle SIGBUS, from which the engine's copies recover.
OPTIONS = {
    "address": {"ASAN_OPTIONS": "detect_leaks=0:handle_sigbus=0"},
    "thread": {"TSAN_OPTIONS": "exitcode=66"},
}
RUNTIMES = {"address": "libasan.so", "thread": "libtsan.so"}
# The thread sanitizer's memmove cannot be left by a jump. Tests of idle engines and of large
# transfers are omitted.
_BULK = (
    "thousand or large or under_way or byte_moves or ceiling"
    " or by_weight or however_many or promised or keeps_its_share"
)
LEFT_OUT = {"address": _BULK, "thread": f"{_BULK} or vanishes or idle"}


SECONDS = 900
ENGINE = "libtessera_hca.so"
# Tests of a bad network send many packets, so a few seeds are enough here. Each group is a process,
# which takes almost three seconds to start with a sanitizer.
FILES = {
    "node": (
        *("hca_engine", "hca_hostile", "hca_verbs", "hca_hostile_verbs", "hca_hostile_slots"),
        *("hca_turns", "hca_idle", "hca_boundaries", "hca_datagrams", "hca_raw", "hca_windows"),
        *("hca_policy", "hcad_saving", "hcad_device_regions"),
    ),
    "wire": (
        *("hca_wire", "hca_wire_hostile", "hca_wire_faults", "hca_wire_policy"),
        *("hca_wire_atomics", "hca_wire_unreliable", "hca_wire_datagrams"),
        *("hca_wire_groups", "hca_wire_congestion", "hca_wire_qos", "hca_wire_fuzz"),
    ),
}


@pytest.fixture
def build_engine(tmp_path_factory) -> Callable[[str], Path]:
    """Return a function that builds the engine with a sanitizer, once per test run."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder

    def build_once(sanitizer: str) -> Path:
        library = folder / f"hca-{sanitizer}" / ENGINE
        library.parent.mkdir(exist_ok=True)
        with (library.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not library.exists():
                native_parts.build_kept(ENGINE, library.parent, sanitizer)
        return library

    return build_once


@pytest.mark.timeout(SECONDS + 60)  # on a busy machine; it takes seconds on an idle one
@pytest.mark.parametrize("files", FILES)
@pytest.mark.parametrize("sanitizer", RUNTIMES)
def test_nothing_is_found(sanitizer, files, build_engine, tmp_path):
    cc = [build.compiler(), f"-print-file-name={RUNTIMES[sanitizer]}"]
    runtime = subprocess.run(cc, check=True, capture_output=True, text=True).stdout.strip()
    if not Path(runtime).is_absolute():
        pytest.skip(f"NOT RUN: no {RUNTIMES[sanitizer]}: apt-get install gcc")
    library = build_engine(sanitizer)
    options = OPTIONS[sanitizer]
    # pytest drops what a test that passes writes to standard error.
    reports = f":log_path={tmp_path}/report"
    environment = os.environ | {name: value + reports for name, value in options.items()}
    environment["HCA_WIRE_SEEDS"] = "3"
    environment |= {hca_rig.LIBRARY_VARIABLE: str(library), "LD_PRELOAD": runtime}
    done = subprocess.run(
        [
            *(
                "setarch",
                "-R",
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-x",
                "-p",
                "no:cacheprovider",
            ),
            *("-p", "no:xdist", "-p", "no:hypothesispytest"),
            *("-k", f"not ({LEFT_OUT[sanitizer]})"),
            *(str(path) for name in FILES[files] for path in HERE.glob(f"*/test_{name}.py")),
        ],
        env=environment,
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    found = "".join(path.read_text()[:5000] for path in tmp_path.glob("report*"))
    assert done.returncode == 0, f"{found}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert " passed" in done.stdout
