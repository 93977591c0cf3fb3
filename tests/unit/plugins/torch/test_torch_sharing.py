"""A shared folder of kernels is used only if no other user could have written it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tessera_torch import loading, settings, sharing

PLUGIN = Path(settings.__file__).parents[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    for path in ("inductor/ab/kernel.py", "triton/KEY/kernel.cubin", "triton/KEY/cuda_utils.so"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    sharing.write_manifest(folder, "2.15.0")
    return folder


@pytest.fixture
def caches(tmp_path: Path) -> dict[str, Path]:
    return {name: tmp_path / "own" / name for name in sharing.FOLDERS}


def test_files_are_copied_once_and_are_the_users_own(folder: Path, caches: dict[str, Path]) -> None:
    assert sharing.bring(folder, caches) == 3
    copy = caches["Inductor"] / "ab" / "kernel.py"
    assert copy.read_text() == "inductor/ab/kernel.py"
    assert (caches["Triton"] / "KEY" / "cuda_utils.so").stat().st_mode & 0o777 == 0o700
    copy.write_text("own")
    assert sharing.bring(folder, caches) == 0
    (folder / "triton" / "KEY" / "new").touch()
    assert sharing.bring(folder, caches) == 0
    sharing.write_manifest(folder, "2.15.0")  # as warm extends the folder
    assert sharing.bring(folder, caches) == 1
    assert copy.read_text() == "own"
    assert not any(path.name == sharing.MANIFEST for path in caches["Inductor"].rglob("*"))


def test_modes_that_let_others_write_are_removed_by_warm_and_refused_later(
    folder: Path, caches: dict[str, Path]
) -> None:
    for place in (folder / "triton", folder / "inductor" / "ab" / "kernel.py", folder):
        before = place.stat().st_mode
        place.chmod(before | 0o020)
        with pytest.raises(sharing.NotTrusted, match="others can write"):
            sharing.bring(folder, caches)
        place.chmod(before)
        assert not list(caches["Inductor"].rglob("kernel.py"))
    (folder / "triton").chmod(0o777)
    sharing.write_manifest(folder, "2.15.0")
    assert sharing.bring(folder, caches) == 3


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_refused(folder: Path, caches: dict[str, Path]) -> None:
    os.chown(folder / "triton" / "KEY" / "kernel.cubin", 4711, -1)
    with pytest.raises(sharing.NotTrusted, match="uid 4711"):
        sharing.bring(folder, caches)
    assert not caches["Inductor"].exists()


def test_links_and_other_kinds_of_files_are_refused(
    folder: Path, caches: dict[str, Path], tmp_path: Path
) -> None:
    link = folder / "triton" / "link"
    for make in (
        lambda: link.symlink_to("/etc/passwd"),
        lambda: link.symlink_to(tmp_path),
        lambda: os.mkfifo(link),
    ):
        make()
        with pytest.raises(sharing.NotTrusted, match="neither a file nor a folder"):
            sharing.bring(folder, caches)
        link.unlink()
    (folder / sharing.MANIFEST).unlink()
    with pytest.raises(sharing.NotTrusted, match=r"tessera_torch\.warm"):
        sharing.bring(folder, caches)


def test_a_cache_that_others_can_write_gets_no_file(folder: Path, caches: dict[str, Path]) -> None:
    caches["Inductor"].mkdir(parents=True)
    caches["Inductor"].chmod(0o777)
    with pytest.raises(sharing.NotTrusted, match="others can write"):
        sharing.bring(folder, caches)


def test_what_is_not_trusted_is_one_line_and_ends_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable in settings.CACHE_VARIABLES.values():
        monkeypatch.setenv(variable, str(folder.parent / "own"))
    monkeypatch.setenv(settings.SHARED_VARIABLE, str(folder))
    folder.chmod(0o777)
    loading._use_shared_cache()
    monkeypatch.setenv(settings.SHARED_VARIABLE, "/no/such/folder")
    loading._use_shared_cache()
    lines = capsys.readouterr().err.splitlines()
    assert [line.startswith("tessera-torch: TESSERA_TORCH_CACHE") for line in lines] == [True] * 2


def test_warm_without_the_operators_fails_and_makes_no_shared_folder(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('no wheel')")
    command = [sys.executable, "-m", "tessera_torch.warm", "--into", str(tmp_path / "into")]
    environment = {**os.environ, "PYTHONPATH": f"{PLUGIN}:{tmp_path}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "no wheel" in done.stderr) == (1, True)
    assert not (tmp_path / "into" / sharing.MANIFEST).exists()
    bad = subprocess.run([*command, "--model", "none.py"], env=environment, capture_output=True)
    assert bad.returncode == 2
