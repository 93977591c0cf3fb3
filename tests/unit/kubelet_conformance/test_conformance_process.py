"""The process that is judged: started, started again, ended as a pod's container is."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from kubelet_conformance import process
from kubelet_conformance.process import CannotIsolate, PluginProcess

SOON = 20.0


def wait_log(judged: PluginProcess, text: str) -> None:
    deadline = time.monotonic() + SOON
    while text not in judged.log:
        assert time.monotonic() < deadline, judged.log
        time.sleep(0.005)


def shared(tmp_path: Path, command: str) -> PluginProcess:
    """A process without a namespace of its own."""
    return PluginProcess(command, tmp_path / "k", tmp_path, {"ADDED": "more"}, private=False)


def test_it_has_the_environment_and_its_log_is_of_all_its_lives(tmp_path: Path) -> None:
    judged = shared(tmp_path, 'echo "$KUBELET_DIR" "$ADDED" "$HOME"; echo late >&2')
    assert (judged.log, judged.running, judged.starts) == ("", False, 0)
    line = f"{tmp_path / 'k'} more {os.environ.get('HOME', '')}\nlate\n"
    for life in (1, 2):
        judged.start()
        assert judged.starts == life
        wait_log(judged, line * life)
        assert judged.terminate()
    assert judged.log == 2 * line


def test_it_is_kept_alive_but_not_twice(tmp_path: Path) -> None:
    judged = shared(tmp_path, "echo up; exec sleep 100")
    judged.keep_alive()
    wait_log(judged, "up\n")
    judged.keep_alive()
    assert (judged.running, judged.starts) == (True, 1)
    assert 0 < judged.age_s < 1000
    judged.kill()
    assert not judged.running
    judged.kill()
    assert judged.terminate(), "what has ended is no problem"
    judged.keep_alive()
    assert (judged.running, judged.starts) == (True, 2)
    assert judged.terminate()
    assert not judged.running


def test_what_was_never_started_has_ended(tmp_path: Path) -> None:
    judged = shared(tmp_path, "true")
    assert judged.terminate()
    judged.kill()
    assert not judged.running


def test_what_ends_well_takes_what_it_left_with_it(tmp_path: Path) -> None:
    script = "trap 'echo bye; exit 0' TERM; (trap '' TERM; sleep 100) & echo up $!; wait"
    judged = shared(tmp_path, script)
    judged.start()
    wait_log(judged, "up")
    child = int(judged.log.split()[1])
    assert judged.terminate()
    assert "bye" in judged.log
    deadline = time.monotonic() + SOON
    while Path(f"/proc/{child}").exists():
        if "\nState:\tZ" in Path(f"/proc/{child}/status").read_text():
            break
        assert time.monotonic() < deadline


def test_what_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "STOP_S", 0.05)
    judged = shared(tmp_path, "trap '' TERM; echo up; while true; do sleep 0.01; done")
    judged.start()
    wait_log(judged, "up")
    assert not judged.terminate()
    assert not judged.running


def test_a_pod_has_thirty_seconds_to_end() -> None:
    assert process.STOP_S == 30


def test_the_command_runs_in_a_mount_namespace_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "cannot_isolate", lambda: "")
    found = process._arguments("serve --now", tmp_path / "k", tmp_path)
    assert found == process._arguments("serve --now", tmp_path / "k", tmp_path)  # the room is there
    room = tmp_path / "root"
    assert room.is_dir()
    assert found[0] == "unshare"
    assert found[-3:] == [str(room), str(tmp_path / "k"), "serve --now"]
    assert found[-6:-4] == ["/bin/sh", "-c"]


def test_who_is_not_root_becomes_it_in_a_user_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    for user in (0, 1, 1000):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        enter = process._enter("/bin/unshare")
        assert enter[:4] == ["/bin/unshare", "--mount", "--propagation", "private"]
        assert enter[4:] == ([] if user == 0 else ["--user", "--map-root-user"])


def test_where_nothing_can_be_isolated_the_reason_is_told(
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
    judged = shared(tmp_path, "true")
    judged.start()
    assert judged._process is not None
    judged._process.wait()
    judged._signal(signal.SIGTERM)
    assert not judged.running
