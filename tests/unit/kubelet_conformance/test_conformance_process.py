"""The process under test: started, restarted and ended like a pod's container."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from kubelet_conformance import process
from kubelet_conformance.process import CannotIsolate, PluginProcess

SOON = 20.0


def wait_log(plugin: PluginProcess, text: str) -> None:
    deadline = time.monotonic() + SOON
    while text not in plugin.log:
        assert time.monotonic() < deadline, plugin.log
        time.sleep(0.005)


def make_process(tmp_path: Path, command: str) -> PluginProcess:
    """Return a process that runs without its own mount namespace."""
    return PluginProcess(command, tmp_path / "k", tmp_path, {"ADDED": "more"}, private=False)


def test_it_has_the_environment_and_its_log_is_of_all_its_lives(tmp_path: Path) -> None:
    plugin = make_process(tmp_path, 'echo "$KUBELET_DIR" "$ADDED" "$HOME"; echo late >&2')
    assert (plugin.log, plugin.running, plugin.starts) == ("", False, 0)
    line = f"{tmp_path / 'k'} more {os.environ.get('HOME', '')}\nlate\n"
    for life in (1, 2):
        plugin.start()
        assert plugin.starts == life
        wait_log(plugin, line * life)
        assert plugin.terminate()
    assert plugin.log == 2 * line


def test_it_is_kept_alive_but_not_twice(tmp_path: Path) -> None:
    plugin = make_process(tmp_path, "echo up; exec sleep 100")
    plugin.keep_alive()
    wait_log(plugin, "up\n")
    plugin.keep_alive()
    assert (plugin.running, plugin.starts) == (True, 1)
    assert 0 < plugin.age_s < 1000
    plugin.kill()
    assert not plugin.running
    plugin.kill()
    assert plugin.terminate(), "what has ended is no problem"
    plugin.keep_alive()
    assert (plugin.running, plugin.starts) == (True, 2)
    assert plugin.terminate()
    assert not plugin.running


def test_a_process_that_was_never_started_counts_as_ended(tmp_path: Path) -> None:
    plugin = make_process(tmp_path, "true")
    assert plugin.terminate()
    plugin.kill()
    assert not plugin.running


def test_children_end_with_the_process(tmp_path: Path) -> None:
    script = "trap 'echo bye; exit 0' TERM; (trap '' TERM; sleep 100) & echo up $!; wait"
    plugin = make_process(tmp_path, script)
    plugin.start()
    wait_log(plugin, "up")
    child = int(plugin.log.split()[1])
    assert plugin.terminate()
    assert "bye" in plugin.log
    deadline = time.monotonic() + SOON
    while Path(f"/proc/{child}").exists():
        if "\nState:\tZ" in Path(f"/proc/{child}/status").read_text():
            break
        assert time.monotonic() < deadline


def test_a_process_that_ignores_sigterm_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "STOP_S", 0.05)
    plugin = make_process(tmp_path, "trap '' TERM; echo up; while true; do sleep 0.01; done")
    plugin.start()
    wait_log(plugin, "up")
    assert not plugin.terminate()
    assert not plugin.running


def test_a_pod_has_thirty_seconds_to_end() -> None:
    assert process.STOP_S == 30


def test_the_command_runs_in_a_mount_namespace_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "cannot_isolate", lambda: "")
    found = process._arguments("serve --now", tmp_path / "k", tmp_path)
    # the scratch directory exists already
    assert found == process._arguments("serve --now", tmp_path / "k", tmp_path)
    room = tmp_path / "root"
    assert room.is_dir()
    assert found[0] == "unshare"
    assert found[-3:] == [str(room), str(tmp_path / "k"), "serve --now"]
    assert found[-6:-4] == ["/bin/sh", "-c"]


def test_an_unprivileged_user_becomes_root_in_a_user_namespace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for user in (0, 1, 1000):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        enter = process._enter("/bin/unshare")
        assert enter[:4] == ["/bin/unshare", "--mount", "--propagation", "private"]
        assert enter[4:] == ([] if user == 0 else ["--user", "--map-root-user"])


def test_the_reason_why_isolation_fails_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process.shutil, "which", lambda _: None)
    assert process.cannot_isolate() == "no unshare (util-linux)"
    with pytest.raises(CannotIsolate, match=r"no unshare .*use --kubelet-conformance-shared"):
        PluginProcess("true", tmp_path, tmp_path, {})
    monkeypatch.setattr(process.shutil, "which", lambda _: "/bin/unshare")
    for status, said, problem in (
        (1, " not permitted\n", "no mount namespace: not permitted"),
        (0, "a warning", ""),
    ):
        done = subprocess.CompletedProcess([], status, "", said)
        monkeypatch.setattr(process.subprocess, "run", lambda *_, done=done, **__: done)
        assert process.cannot_isolate() == problem


def test_a_process_that_has_gone_is_no_error(tmp_path: Path) -> None:
    plugin = make_process(tmp_path, "true")
    plugin.start()
    assert plugin._process is not None
    plugin._process.wait()
    plugin._signal(signal.SIGTERM)
    assert not plugin.running
