"""``.ci/run`` installs each Debian package without which a test is skipped."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
LIST = ROOT / "tests" / "debian-packages"
COMMAND = re.compile(r"apt-get install((?: [a-z][a-z0-9.+-]*[a-z0-9+])+)")
# Texts that tests of messages expect, and a script that no test runs.
OTHER = {"test_sdk_options.py", "remake.sh", Path(__file__).name}


def listed_packages() -> list[str]:
    lines = (line.partition("#")[0].strip() for line in LIST.read_text().splitlines())
    return [line for line in lines if line]


def test_each_package_that_a_skipped_test_names_is_listed(tracked_files: list[str]) -> None:
    named = {
        package
        for name in tracked_files
        if name.startswith("tests/") and Path(name).name not in OTHER
        for found in COMMAND.findall((ROOT / name).read_text(errors="ignore"))
        for package in found.split()
    }
    assert "perftest" in named
    assert named - set(listed_packages()) == set()


def test_the_list_is_sorted_and_ci_installs_it() -> None:
    packages = listed_packages()
    assert packages == sorted(set(packages))
    assert "tests/debian-packages" in (ROOT / ".ci" / "run").read_text()
