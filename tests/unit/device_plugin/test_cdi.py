"""CDI documents and how they are written."""

import json
from pathlib import Path

from device_plugin.agent import libraries
from device_plugin.cdi import spec, writer
from device_plugin.inventory.model import MigSlice
from mig import geometry

BOARD = geometry.board("h100-80gb")
SLICE = MigSlice(
    "MIG-1",
    "GPU-1",
    geometry.Instance(BOARD.profile("1g.10gb"), 0),
    1,
    0,
    16,
    "/run/tessera/slices/MIG-1",
    0,
    (),
)


def test_document_mounts_the_directory_read_only_and_the_library_executable() -> None:
    document = spec.render("gpu.tessera.dev", "/var/lib/tessera/lib/1", [SLICE])
    assert document["kind"] == "gpu.tessera.dev/slice"
    (device,) = document["devices"]
    (mount,) = device["containerEdits"]["mounts"]
    assert mount["hostPath"] == SLICE.socket_dir
    assert "ro" in mount["options"]
    assert "noexec" in mount["options"]
    for library in document["containerEdits"]["mounts"]:
        assert "ro" in library["options"]
        assert "noexec" not in library["options"]
    assert "env" not in document["containerEdits"]


def test_file_is_replaced_only_when_it_differs(tmp_path: Path) -> None:
    document = spec.render("gpu.tessera.dev", "/lib", [SLICE])
    assert writer.write(tmp_path / "cdi", document)
    assert not writer.write(tmp_path / "cdi", document)
    assert writer.write(tmp_path / "cdi", spec.render("gpu.tessera.dev", "/lib2", [SLICE]))
    (path,) = (tmp_path / "cdi").iterdir()
    assert "/lib2" in path.read_text()
    assert json.loads(path.read_text())["devices"]


def test_without_a_device_there_is_no_file(tmp_path: Path) -> None:
    nothing = spec.render("gpu.tessera.dev", "/lib", [])
    writer.write(tmp_path / "cdi", nothing)
    assert not (tmp_path / "cdi").exists()
    writer.write(tmp_path / "cdi", spec.render("gpu.tessera.dev", "/lib", [SLICE]))
    writer.write(tmp_path / "cdi", nothing)
    assert list((tmp_path / "cdi").iterdir()) == []


def test_library_is_installed_once_a_build_and_never_overwritten(tmp_path: Path) -> None:
    source = tmp_path / "libcuda.so.1"
    source.write_bytes(b"one")
    first = libraries.install(tmp_path / "lib", [source])
    inode = (first / "libcuda.so.1").stat().st_ino
    assert libraries.install(tmp_path / "lib", [source]) == first
    assert (first / "libcuda.so.1").stat().st_ino == inode
    source.write_bytes(b"two")
    second = libraries.install(tmp_path / "lib", [source])
    assert second != first
    assert (first / "libcuda.so.1").read_bytes() == b"one"
    assert (second / "libcuda.so.1").stat().st_mode & 0o777 == 0o755


def test_other_builds_are_removed_and_nothing_else(tmp_path: Path) -> None:
    source = tmp_path / "libcuda.so.1"
    source.write_bytes(b"one")
    old = libraries.install(tmp_path / "lib", [source])
    (old / ".libcuda.so.1.4711").write_bytes(b"left by an agent that was killed")
    source.write_bytes(b"two")
    current = libraries.install(tmp_path / "lib", [source])
    foreign = tmp_path / "lib" / "notes"
    foreign.mkdir()
    link = tmp_path / "lib" / "0123456789abcdef"
    link.symlink_to(tmp_path)
    libraries.remove_others(current)
    assert sorted(path.name for path in (tmp_path / "lib").iterdir()) == sorted(
        [current.name, "notes", link.name]
    )
    assert source.exists()
    assert (current / "libcuda.so.1").read_bytes() == b"two"
