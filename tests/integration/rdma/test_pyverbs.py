"""rdma-core's own tests, as the distribution packages them, on the virtual HCA."""

import gzip
import json
import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from support.processes.tessera_run import environment
from support.programs.verbs_tools import run_hca

INSTALL = "apt-get install python3-pyverbs rdma-core"
PYTHON = "/usr/bin/python3"
PACKAGED = Path("/usr/share/doc/rdma-core/tests")
RUNNER = Path(__file__).parents[2] / "support" / "scripts" / "pyverbs_runner.py"
EXPECTED = Path(__file__).parent / "pyverbs_expected.toml"
SECONDS = 300


def is_there() -> bool:
    """Return whether the tests and their imports are installed."""
    if not PACKAGED.is_dir() or not os.access(PYTHON, os.X_OK):
        return False
    probe = subprocess.run([PYTHON, "-c", "import pyverbs"], capture_output=True, check=False)
    return probe.returncode == 0


def unpack(folder: Path) -> Path:
    """Copy the packaged tests to a folder, readable for Python."""
    target = folder / "tests"
    target.mkdir()
    for source in PACKAGED.iterdir():
        if source.suffix == ".gz":
            with gzip.open(source) as packed, (target / source.stem).open("wb") as out:
                shutil.copyfileobj(packed, out)
        elif source.is_file():
            shutil.copy(source, target)
    return folder


def test_exactly_those_fail_that_are_listed(tmp_path, record_property):
    if not is_there():
        pytest.skip(f"NOT RUN: no pyverbs or no {PACKAGED}: {INSTALL}")
    expected = tomllib.loads(EXPECTED.read_text(encoding="utf-8"))
    folder, results = unpack(tmp_path), tmp_path / "results"
    command = (PYTHON, str(RUNNER), str(folder), str(results), *expected["modules"])
    done = subprocess.run(
        run_hca(tmp_path, *command),
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    ended = {row["test"]: f"{row['outcome']}: {row['reason']}" for row in rows}
    assert len(ended) == len(rows)
    listed = {name: group for group in expected["absent"] for name in group["tests"]}
    assert set(listed) <= set(ended), "a test that is listed does not exist"
    absent = {name for name, end in ended.items() if not end.startswith("passed")}
    optional = {name for name, group in listed.items() if group.get("machine")}
    surprises = {name: ended[name] for name in absent - set(listed)}
    assert surprises == {}, "not listed"
    assert set(listed) - absent - optional == set(), "listed, but passes: take it off the list"
    assert not [name for name in absent if ended[name].startswith("failed")]
    counted = [name for name in ended if not listed.get(name, {}).get("excluded")]
    record_property("pyverbs", f"{len(set(counted) - absent)} of {len(counted)} pass")
