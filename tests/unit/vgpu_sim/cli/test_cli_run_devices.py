"""``tessera run --device-files`` where the kernel permits no mounts, and where devices exist."""

from pathlib import Path

import pytest

from vgpu_sim.cli.run import devices, namespaces


def test_without_user_namespaces_the_program_does_not_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(_flags: int) -> None:
        raise PermissionError(1, "unshare: Operation not permitted")

    monkeypatch.setattr(namespaces.calls, "unshare", refuse)
    monkeypatch.setattr(devices, "DEVICES", tmp_path)
    assert not namespaces.is_possible(lambda: devices._mount(tmp_path / "new"), devices._explain)
    said = capfd.readouterr().err
    assert said.startswith("tessera run: --device-files: ")
    assert "Operation not permitted" in said
    assert "user.max_user_namespaces" in said


def test_a_machine_with_device_nodes_keeps_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("nvidiactl", "nvidia0"):
        (tmp_path / name).write_text("real")
    monkeypatch.setattr(devices, "DEVICES", tmp_path)
    monkeypatch.setattr(namespaces.calls, "unshare", lambda _: pytest.fail("not needed"))
    devices.file_mounter(tmp_path / "scratch")()
    assert (tmp_path / "nvidia0").read_text() == "real"
