"""The permissions of a worker, tested inside the sandbox, in a process of its own."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.processes.worker_client import worker_config

PROBE = Path(__file__).parents[3] / "support/scripts/sandbox_probe.py"
ROOT = Path(__file__).parents[4]
NEEDED = ["thread", "memory", "executable_memory", "eventfd", "signal_handler", "name_itself"]
CACHE = ["cache_write", "cache_read", "cache_replace", "cache_list"]
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root may change the user")


def probe(outside: Path, **changes: Any) -> tuple[dict[str, bool], dict[str, str]]:
    config = json.dumps(worker_config(**changes).to_json())
    done = subprocess.run(
        [sys.executable, PROBE, config, outside],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ.get("PATH", "")},
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    return answer["level"], answer["outcomes"]


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that every user can enter and write to, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o777)
        yield directory


@pytest.fixture
def outside(open_directory: Path) -> Path:
    """A file that all users may write to, so that only the sandbox can deny access."""
    file = open_directory / "elsewhere" / "outside"
    file.parent.mkdir()
    file.parent.chmod(0o777)
    file.write_text("secret")
    file.chmod(0o666)
    return file


@pytest.fixture
def cache(open_directory: Path) -> Path:
    directory = open_directory / "cache"
    directory.mkdir()
    directory.chmod(0o777)
    return directory


def test_everything_but_work_is_denied(outside: Path) -> None:
    level, outcomes = probe(outside)
    assert level["seccomp"], "this system has no seccomp filters: the sandbox is weaker here"
    assert level["no_new_privileges"]
    assert level["capabilities_dropped"]
    assert not level["cache"]
    allowed = {name for name, outcome in outcomes.items() if outcome == "ok"}
    assert allowed == set(NEEDED)
    by_other_mechanisms = {"open", "list", "write", "stat"}
    for denied in (
        set(outcomes) - allowed - by_other_mechanisms - {n for n in outcomes if "cache" in n}
    ):
        assert outcomes[denied] == "EPERM", denied
    assert outside.read_text() == "secret"


def test_the_cache_stays_within_reach_and_nothing_else(outside: Path, cache: Path) -> None:
    level, outcomes = probe(outside, cache_dir=str(cache))
    if not level["cache"]:
        pytest.skip(f"neither Landlock nor namespaces are to be had here: {level}")
    allowed = {name for name, outcome in outcomes.items() if outcome == "ok"}
    assert allowed == set(NEEDED) | set(CACHE)
    assert (cache / "entry.new").read_bytes() == b"entry"


@as_root
def test_another_user_is_taken(outside: Path, cache: Path) -> None:
    level, outcomes = probe(outside, uid=65432, gid=65433, cache_dir=str(cache))
    assert level["own_user"]
    assert outcomes["become_root"] == "EPERM"
    written = (cache / "entry.new").stat()
    assert (written.st_uid, written.st_gid) == (65432, 65433)


@as_root
def test_a_user_is_taken_without_a_sandbox_too(outside: Path) -> None:
    level, outcomes = probe(outside, uid=65432, gid=65433, sandbox=False)
    assert level["own_user"]
    assert not level["seccomp"]
    assert outcomes["open"] == "ok"
    assert outcomes["become_root"] == "EPERM"


@as_root
def test_another_users_cache_is_not_accessible(outside: Path, cache: Path) -> None:
    cache.chmod(0o700)
    level, outcomes = probe(outside, uid=65432, gid=65433, cache_dir=str(cache))
    assert not level["cache"]
    assert {name for name, outcome in outcomes.items() if outcome == "ok"} == set(NEEDED)


def test_without_a_sandbox_nothing_is_claimed(outside: Path) -> None:
    level, outcomes = probe(outside, sandbox=False)
    assert [name for name, stands in level.items() if stands] == ["cache"]
    assert outcomes["open"] == outcomes["unix_socket"] == "ok"
    assert outcomes["execute"] == outcomes["shared_memory"] == "ENOENT"
    assert outcomes["ptrace"] == "ESRCH"
    # Without the filter the kernel permits all of these to a process of the same user.
    for name in ("kill_by_owner", "kill_by_owner_ex", "kill_by_signal", "become_dumpable"):
        assert outcomes[name] == "ok", name


WITHOUT = """
import json, sys
from vgpu_sim.hal.compute.spawn import WorkerConfig
from vgpu_sim.worker import sandbox
from vgpu_sim.worker.sandbox import landlock, namespaces, seccomp
def refuse(*_, **__):
    raise OSError(1, "not here")
for wall in sys.argv[2].split(","):
    module, function = wall.split(".")
    setattr(globals()[module], function, refuse)
probed = sandbox.probe(None).confined
try:
    sandbox.enter(WorkerConfig.from_json(json.loads(sys.argv[1])))
    print(probed, "entered")
except sandbox.NotConfinedError as err:
    print(probed, err)
"""
NAMESPACES, LANDLOCK, SECCOMP = (
    "namespaces.enter_empty",
    "landlock.restrict_to",
    "seccomp.install",
)


def enter_without(*mechanisms: str, **changes: Any) -> str:
    config = json.dumps(worker_config(**changes).to_json())
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, config, ",".join(mechanisms)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    return done.stdout.strip()


@pytest.mark.parametrize("mechanisms", [(NAMESPACES, LANDLOCK), (SECCOMP,)])
def test_an_insufficient_sandbox_is_an_error_unless_allowed(mechanisms: tuple[str, ...]) -> None:
    refused = enter_without(*mechanisms)
    assert refused.startswith("False workers cannot be confined on this node")
    assert "--allow-weak-sandbox" in refused
    assert enter_without(*mechanisms, weak_sandbox=True) == "False entered"


@pytest.mark.parametrize("wall", [NAMESPACES, LANDLOCK])
def test_one_of_the_two_that_hide_files_is_enough(wall: str) -> None:
    assert enter_without(wall) == "True entered"


@pytest.mark.parametrize("wall", ["namespaces", "landlock"])
def test_each_mechanism_alone_protects_the_cache(
    outside: Path, cache: Path, wall: str, tmp_path: Path
) -> None:
    """On a system with only one of the two, files outside are still inaccessible."""
    other = {"namespaces": "landlock.restrict_to", "landlock": "namespaces.enter_empty"}[wall]
    module, function = other.split(".")
    script = tmp_path / "probe.py"
    script.write_text(
        "import runpy, sys\n"
        f"from vgpu_sim.worker.sandbox import {module}\n"
        "def refuse(*_):\n    raise OSError(1, 'not here')\n"
        f"{module}.{function} = refuse\n"
        f"sys.argv[0] = {str(PROBE)!r}\n"
        f"runpy.run_path({str(PROBE)!r}, run_name='__main__')\n"
    )
    config = json.dumps(worker_config(cache_dir=str(cache)).to_json())
    done = subprocess.run(
        [sys.executable, script, config, outside],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    if not answer["level"][wall]:
        pytest.skip(f"{wall} is not available here")
    allowed = {name for name, outcome in answer["outcomes"].items() if outcome == "ok"}
    assert allowed - {"stat"} == set(NEEDED) | set(CACHE)


HELPERS = """
import runpy, sys
from vgpu_sim.worker.sandbox import seccomp
who, narrow = sys.argv[1], seccomp.install
def install(*, files):
    seccomp.install_for_helper()
    if who == "child":
        narrow(files=False)
seccomp.install = install
sys.argv[:2] = []
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize(
    ("who", "more"), [("helper", {"fork", "die_with_parent"}), ("child", set())]
)
def test_a_compile_helper_may_fork_and_its_child_may_not(
    outside: Path, cache: Path, who: str, more: set[str]
) -> None:
    """Neither can access the object cache, or start a thread."""
    config = json.dumps(worker_config(cache_dir=str(cache)).to_json())
    done = subprocess.run(
        [sys.executable, "-c", HELPERS, who, PROBE, config, outside],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)["outcomes"]
    allowed = {name for name, outcome in outcomes.items() if outcome == "ok"}
    assert allowed - {"stat"} == set(NEEDED) - {"thread"} | more
