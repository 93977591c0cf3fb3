"""The results in docs/conformance.md are current, and a bad plugin fails the checks."""

import subprocess
import sys
from pathlib import Path

import pytest

from kubelet_conformance import matrix, process
from support.tools import conformance_subjects

DOCUMENT = conformance_subjects.REPOSITORY / "docs/conformance.md"
QUICK = frozenset({"test_health_recovered"})
"""Checks that take their whole timeout to fail; only `make conformance` runs them."""

pytestmark = pytest.mark.skipif(
    bool(process.cannot_isolate()), reason=f"NOT RUN: {process.cannot_isolate()}"
)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", conformance_subjects.SUBJECTS)
def test_results_are_as_published(name: str) -> None:
    published = matrix.answers(DOCUMENT.read_text())[name]
    words = {"passed": "yes", "failed": "no", "skipped": "–"}
    results = conformance_subjects.check_subject(name, recover=name == "Tessera")
    found = {one["check"]: words[one["outcome"]] for one in results}
    reasons = {one["check"]: one["reason"] for one in results if one["reason"]}
    expected = {check: word for check, word in published.items() if word}
    for check in QUICK if name != "Tessera" else ():
        found.pop(check, None)
        expected.pop(check, None)
    assert found == expected, reasons


def run_check(tmp_path: Path, command: str) -> str:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(tmp_path)),
            *("-q", "-p", "no:cacheprovider", "--kubelet-conformance-timeout=1"),
            f"--kubelet-conformance-plugin={command}",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stdout
    return done.stdout


def test_a_command_that_does_nothing_keeps_no_contract(tmp_path: Path) -> None:
    said = run_check(tmp_path, "exec sleep 100")
    assert "no list of a healthy device within 1 s" in said
    assert "passed" not in said.splitlines()[-1]


def test_only_the_command_sees_the_simulated_kubelet(tmp_path: Path) -> None:
    sock, seen = "/var/lib/kubelet/device-plugins/kubelet.sock", tmp_path / "seen"
    run_check(tmp_path, f"ls -d {sock} /var/lib/dpkg >{seen} 2>&1; exec sleep 100")
    assert sock in seen.read_text().splitlines()
    if Path("/var/lib/dpkg").exists():
        assert "/var/lib/dpkg" in seen.read_text().splitlines(), "the rest of /var/lib is there"
    assert not Path(sock).exists()
