"""CDI documents, and their files."""

import dataclasses
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from device_plugin.agent import libraries
from device_plugin.agent.cdi_files import CdiFiles
from device_plugin.cdi import hca, nvidia, spec, writer
from device_plugin.config import Settings
from device_plugin.inventory.functions import HcaFunction
from device_plugin.inventory.model import Gpu, MigSlice
from mig import geometry
from vgpu_sim.native import catalogue

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


def test_the_runtime_is_mounted_only_where_loaders_search_last() -> None:
    """An image's own runtime is in the loader's cache, in LD_LIBRARY_PATH or in these folders of
    its distribution.
    """
    mounts = spec.library_mounts("/lib/1")
    found = {m.container_path for m in mounts if "cudart" in m.host_path}
    assert found == {
        f"{directory}/libcudart.so.{major}"
        for directory in ("/usr/lib", "/usr/lib64")
        for major in (12, 13)
    }
    assert "/usr/lib" not in spec.LIBRARY_DIRS


def test_programs_find_ptxas_and_libcuda_finds_the_linkers() -> None:
    mounts = {m.container_path: m.host_path for m in spec.library_mounts("/lib/1")}
    assert mounts["/usr/local/bin/ptxas"] == "/lib/1/ptxas"
    for name in ("libnvJitLink.so.12", "libnvJitLink.so.13", "libnvrtc.so.12", "libnvrtc.so.13"):
        places = [path for path in mounts if path.endswith(name)]
        assert places == [f"/usr/lib/tessera/{name}"]


def test_every_mathematical_library_is_where_a_manifest_can_direct_the_loader() -> None:
    built = {part.library for part in catalogue.parts() if part.subfolder == catalogue.MATH}
    assert set(spec.MATH_LIBRARIES) == built
    mounts = {m.container_path for m in spec.library_mounts("/lib/1")}
    assert {f"/usr/lib/tessera/math/{name}" for name in built} <= mounts


def test_pytorchs_plugin_is_installed_where_a_manifest_can_direct_python(tmp_path: Path) -> None:
    mounts = {m.container_path: m.host_path for m in spec.library_mounts("/lib/1")}
    assert mounts["/usr/lib/tessera/torch"] == "/lib/1/torch"
    installed = libraries.install(tmp_path / "lib")
    (entry_points,) = (installed / "torch").glob("tessera_torch-*.dist-info/entry_points.txt")
    assert "torch.backends" in entry_points.read_text()
    assert (installed / "torch/tessera_torch/own/__init__.py").is_file()
    assert (installed / "torch/sitecustomize.py").is_file()
    assert (installed / "torch/tessera_start/frameworks.json").is_file()
    assert libraries.install(tmp_path / "lib") == installed


def test_a_cdi_document_sets_no_variable_which_would_replace_that_of_a_pods_manifest() -> None:
    """CDI appends ``env`` to that of the container, and the last value of a name applies."""
    document = spec.render("nvidia.com", "/lib/1", [SLICE])
    edits = [document["containerEdits"], *(d["containerEdits"] for d in document["devices"])]
    assert all("env" not in one for one in edits)
    assert "XLA_FLAGS" not in spec.environment(pytorch=True), "it would replace an image's flags"


def test_nvidia_smi_is_there_if_it_is_wanted() -> None:
    programs = nvidia.optional_mounts("/lib/1", nvidia_smi=True)
    document = spec.render("nvidia.com", "/lib/1", [SLICE], programs)
    mounts = document["containerEdits"]["mounts"]
    (program,) = [m for m in mounts if m["containerPath"] == "/usr/bin/nvidia-smi"]
    assert program["hostPath"] == "/lib/1/nvidia-smi"
    assert "noexec" not in program["options"]
    without = spec.render("nvidia.com", "/lib/1", [SLICE])["containerEdits"]["mounts"]
    assert without == [m for m in mounts if m is not program]


def test_device_files_are_one_empty_file_that_is_only_read(tmp_path: Path) -> None:
    mounts = nvidia.optional_mounts("/lib/1", device_files=True)
    document = spec.render("nvidia.com", "/lib/1", [SLICE], mounts)
    files = [
        m for m in document["containerEdits"]["mounts"] if m["containerPath"].startswith("/dev")
    ]
    assert [m["containerPath"] for m in files] == ["/dev/nvidiactl", "/dev/nvidia0"]
    assert {m["hostPath"] for m in files} == {"/lib/1/no-device"}
    assert all({"ro", "nodev"} <= set(m["options"]) for m in files)
    assert nvidia.optional_mounts("/lib/1") == ()
    (tmp_path / "libcuda.so.1").touch()
    installed = libraries.install(tmp_path / "lib", [tmp_path / "libcuda.so.1"])
    (installed / "no-device").unlink()  # as an earlier agent left the folder
    assert libraries.install(tmp_path / "lib", [tmp_path / "libcuda.so.1"]) == installed
    found = (installed / "no-device").stat()
    assert (found.st_size, found.st_mode & 0o777) == (0, 0o444)


def test_nvidias_names_lead_to_the_same_mounts() -> None:
    whole = dataclasses.replace(
        SLICE, uuid="GPU-2", instance=geometry.Instance(BOARD.whole, 0), socket_dir="/run/w"
    )
    second = dataclasses.replace(SLICE, uuid="MIG-2", socket_dir="/run/2")
    gpus = [
        Gpu("GPU-1", 0, BOARD, "Healthy", (SLICE, second)),
        Gpu("GPU-2", 1, BOARD, "Healthy", (whole,)),
    ]
    document = nvidia.render("/lib/1", gpus)
    assert document["kind"] == "nvidia.com/gpu"
    mounts = {
        device["name"]: [mount["hostPath"] for mount in device["containerEdits"]["mounts"]]
        for device in document["devices"]
    }
    assert mounts == {
        "0:0": [SLICE.socket_dir],
        "MIG-1": [SLICE.socket_dir],
        "0:1": ["/run/2"],
        "MIG-2": ["/run/2"],
        "1": ["/run/w"],
        "GPU-2": ["/run/w"],
        "all": [SLICE.socket_dir, "/run/2", "/run/w"],
    }
    own = spec.render("nvidia.com", "/lib/1", [SLICE])
    assert document["containerEdits"] == own["containerEdits"]


def test_names_that_real_gpus_have_are_left_to_them(tmp_path: Path) -> None:
    (tmp_path / nvidia.FILE_NAME).write_text('{"kind": "nvidia.com/gpu"}')
    (tmp_path / "other.json").write_text('{"kind": "example.com/gpu"}')
    (tmp_path / "broken.yaml").write_text("kind: [")
    (tmp_path / "notes.txt").write_text("kind: nvidia.com/gpu")
    (tmp_path / "folder.json").mkdir()
    assert not nvidia.is_taken(tmp_path)
    (tmp_path / "nvidia.yaml").write_text("cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n")
    assert nvidia.is_taken(tmp_path)
    assert not nvidia.is_taken(tmp_path / "missing")


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


def test_a_file_that_is_being_written_at_the_end_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = CdiFiles(Settings("n", "p", cdi_dir=tmp_path), tmp_path)
    writes, goes_on = threading.Event(), threading.Event()
    write = writer.write

    def write_slowly(*args: Any) -> bool:
        writes.set()
        goes_on.wait(60)
        return write(*args)

    monkeypatch.setattr(writer, "write", write_slowly)
    with ThreadPoolExecutor() as threads:
        function = HcaFunction("HCA-1", 0, "/run/1", "/run/2")
        written = threads.submit(files.write_functions, (function,))
        writes.wait(60)
        ended = threads.submit(files.stop_writing, remove=True)
        while not (ended.done() or ended.running()):
            pass
        goes_on.set()
        written.result(60)
        ended.result(60)
    files.write_functions((function,))
    assert not list(tmp_path.iterdir())


def test_files_that_end_with_their_agent_stay_for_the_next(tmp_path: Path) -> None:
    files = CdiFiles(Settings("n", "p", cdi_dir=tmp_path), tmp_path)
    function = HcaFunction("HCA-1", 0, "/run/1", "/run/2")
    files.write_functions((function,))
    files.stop_writing(remove=False)
    files.write_functions(())
    assert [path.name for path in tmp_path.iterdir()] == [hca.FILE_NAME]
