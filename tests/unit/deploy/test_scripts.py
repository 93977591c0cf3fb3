"""The bring-up scripts are valid, name no registry, and do not change the user's files."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
FILES = [p for p in DEPLOY.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
BESIDE = ROOT / "tests/beside"
IN_IDLE_GROUP = ROOT / "tests/in_idle_group"
SCRIPTS = [
    p
    for p in [*FILES, ROOT / ".ci/run", BESIDE, IN_IDLE_GROUP]
    if p.read_text().startswith("#!/usr/bin/env bash")
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.name)
def test_bash_can_parse_it_and_it_is_executable(script: Path) -> None:
    subprocess.run(["bash", "-n", script], check=True)
    assert os.access(script, os.X_OK)


@pytest.mark.parametrize("path", [*FILES, ROOT / "constraints.txt", ROOT / "Makefile"], ids=str)
def test_no_registry_or_mirror_is_named(path: Path) -> None:
    assert not re.search(
        r"https?://(?!\{host\})|registry\.|docker\.io/[a-z]*/|quay\.io|ghcr\.", path.read_text()
    )


def settings(home: Path, *, expression: str) -> str:
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    command = f'. {DEPLOY}/kind/settings.sh; echo "{expression}"'
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_user_s_kubeconfig_is_not_used(tmp_path: Path) -> None:
    kubeconfig = settings(tmp_path, expression="$KUBECONFIG")
    assert kubeconfig == str(tmp_path / ".cache/tessera-cluster/tessera.kubeconfig")
    assert not (tmp_path / ".kube").exists()


def test_programs_of_nodes_are_never_on_path(tmp_path: Path) -> None:
    path = settings(tmp_path, expression="$PATH").split(":")
    assert settings(tmp_path, expression="$NODE_BIN") not in path


def test_a_failing_step_stops_at_its_first_error_and_shows_the_log(tmp_path: Path) -> None:
    script = f"""
      . {DEPLOY}/kind/settings.sh
      work() {{ echo before; false; echo after; }}
      step "doing work" work.log work
      echo "not reached"
    """
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "before" in done.stderr
    assert "after" not in done.stderr
    assert "work.log" in done.stderr
    assert "not reached" not in done.stdout


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        ("true", "true", 0),
        ("false", "true", 1),
        ("true", "false", 2),
        ("false | true", "exit 7", 3),
    ],
)
def test_concurrent_commands_report_which_one_failed(first: str, second: str, status: int) -> None:
    assert subprocess.run([BESIDE, "a", first, "b", second], check=False).returncode == status


def test_of_three_commands_each_that_failed_is_named() -> None:
    commands = ("a", "exit 3", "b", "true", "c", "false")
    done = subprocess.run([BESIDE, *commands], check=False, capture_output=True, text=True)
    assert done.returncode == 1 + 4
    assert [line for line in done.stdout.splitlines() if line.endswith(" failed:")] == [
        "a failed:",
        "c failed:",
    ]


def test_commands_run_concurrently_and_prefix_their_lines(tmp_path: Path) -> None:
    """Each command waits for a file that the other one creates."""
    os.mkfifo(tmp_path / "pipe")
    commands = ("a", "echo 1 > pipe; echo done", "b", "cat pipe; echo late >&2")
    done = subprocess.run([BESIDE, *commands], cwd=tmp_path, capture_output=True, timeout=60)
    assert set(done.stdout.decode().splitlines()) == {"a| done", "b| 1", "b| late"}


def test_a_command_in_an_idle_group_yields_to_all_others() -> None:
    """The group is removed afterwards. Where none can be made, the nice value is 19."""
    find = "sed -n 's,.*:\\(/.*tessera-idle-.*\\),/sys/fs/cgroup/cpu\\1,p' /proc/self/cgroup"
    show = f"nice; group=$({find}); cat $group/cpu.idle; pwd; echo $group; exit 3"
    command = [IN_IDLE_GROUP, "sh", "-c", show]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd="/")
    assert done.returncode == 3
    nice, *idle = done.stdout.split()
    if nice != "19":
        assert idle[:2] == ["1", "/"]
        assert "tessera-idle" in idle[2]
        assert not Path(idle[2]).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="the test above covers a user who is not root")
def test_a_command_of_another_user_has_the_lowest_priority() -> None:
    command = ["bash", "-s", "--", "nice"]  # the checkout may be readable to root alone
    with IN_IDLE_GROUP.open() as script:
        done = subprocess.run(
            command, check=False, stdin=script, capture_output=True, user=65534, cwd="/"
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"19\n", b"")
