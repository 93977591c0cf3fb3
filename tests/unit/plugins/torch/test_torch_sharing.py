"""A shared folder of kernels is used only if no other user could have written it."""

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tessera_torch import loading, settings
from tessera_torch.caches import sharing, trust
from tessera_torch.warm import __main__ as warm

PLUGIN = Path(settings.__file__).parents[1]
FILES = ("inductor/ab/kernel.py", "triton/KEY/kernel.cubin", "triton/KEY/cuda_utils.so")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a shared folder of three files, each of which contains its own path."""
    made = tmp_path / "made"
    for path in FILES:
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_text(path)
    folder = tmp_path / "shared"
    sharing.make_folder(folder)
    assert sharing.publish(caches_in(made), folder, "2.15.0") == 3
    return folder


def caches_in(folder: Path) -> dict[str, Path]:
    return {name: folder / place for name, place in sharing.FOLDERS.items()}


@pytest.fixture
def caches(tmp_path: Path) -> dict[str, Path]:
    found = {name: tmp_path / "own" / name for name in sharing.FOLDERS}
    for cache in found.values():
        trust.make_cache(cache)
    return found


def contents(caches: Mapping[str, Path]) -> list[Path]:
    return [path for cache in caches.values() for path in cache.rglob("*")]


def test_files_are_copied_once_and_are_the_users_own(
    folder: Path, caches: dict[str, Path], tmp_path: Path
) -> None:
    assert sharing.bring(folder, caches) == 3
    copy = caches["Inductor"] / "ab" / "kernel.py"
    assert copy.read_text() == "inductor/ab/kernel.py"
    assert (caches["Triton"] / "KEY" / "cuda_utils.so").stat().st_mode & 0o777 == 0o700
    copy.write_text("own")
    assert sharing.bring(folder, caches) == 0
    more = tmp_path / "made" / "triton" / "KEY" / "new"
    more.touch()
    assert sharing.publish(caches_in(tmp_path / "made"), folder, "2.15.0") == 1
    assert sharing.bring(folder, caches) == 1
    assert copy.read_text() == "own"
    assert not any(path.name == sharing.MANIFEST for path in contents(caches))


def test_a_cache_without_the_files_gets_them_though_the_other_has_them(
    folder: Path, caches: dict[str, Path], tmp_path: Path
) -> None:
    assert sharing.bring(folder, caches) == 3
    other = {**caches, "Triton": tmp_path / "other"}
    trust.make_cache(other["Triton"])
    assert sharing.bring(folder, other) == 2


def test_processes_that_copy_the_same_file_at_once_use_files_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kernel.so"
    rename = os.replace

    def interrupt(*names: Any) -> None:
        monkeypatch.setattr(os, "replace", rename)
        assert sharing._copy(b"second", path) == 1  # in a pod with the same process id
        rename(*names)

    monkeypatch.setattr(os, "replace", interrupt)
    assert sharing._copy(b"first", path) == 1
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"first", [path])


def test_modes_that_let_others_write_are_refused(folder: Path, caches: dict[str, Path]) -> None:
    for place in (folder / "triton", folder / "inductor" / "ab" / "kernel.py", folder):
        before = place.stat().st_mode
        place.chmod(before | 0o020)
        with pytest.raises(trust.NotTrusted, match="others can write"):
            sharing.bring(folder, caches)
        place.chmod(before)
        assert not contents(caches)
    assert sharing.bring(folder, caches) == 3


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_refused(folder: Path, caches: dict[str, Path]) -> None:
    os.chown(folder / "triton" / "KEY" / "kernel.cubin", 4711, -1)
    with pytest.raises(trust.NotTrusted, match="uid 4711"):
        sharing.bring(folder, caches)
    assert not contents(caches)


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
        with pytest.raises(trust.NotTrusted, match="neither a file nor a folder"):
            sharing.bring(folder, caches)
        link.unlink()
    (folder / sharing.MANIFEST).unlink()
    with pytest.raises(trust.NotTrusted, match=r"tessera_torch\.warm"):
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


def run_warm(into: Path, torch: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Compile into a folder with a module of PyTorch's name."""
    (folder / "torch").mkdir(exist_ok=True)
    (folder / "torch" / "__init__.py").write_text(torch)
    return subprocess.run(
        [sys.executable, "-m", "tessera_torch.warm", "--into", str(into)],
        env={**os.environ, "PYTHONPATH": f"{PLUGIN}:{folder}"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_warm_without_the_operators_fails_and_makes_no_shared_folder(tmp_path: Path) -> None:
    done = run_warm(tmp_path / "into", "raise ImportError('no wheel')", tmp_path)
    assert (done.returncode, "no wheel" in done.stderr) == (1, True)
    assert not (tmp_path / "into" / sharing.MANIFEST).exists()
    command = [sys.executable, "-m", "tessera_torch.warm", "--model", "none.py"]
    bad = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(PLUGIN)}, check=False)
    assert bad.returncode == 2


@pytest.mark.parametrize(
    ("place", "mode", "owner", "reason"),
    [
        ("", 0o777, 0, "others can write"),
        ("triton/KEY", 0o775, 0, "others can write"),
        ("triton/KEY/plan.py", 0o666, 0, "others can write"),
        ("triton/KEY/plan.py", 0o644, 4711, "uid 4711"),
        ("triton", 0o755, 4711, "uid 4711"),
        ("tessera-torch-cache.json", 0, 0, "no tessera-torch-cache.json"),
    ],
)
def test_warm_neither_executes_nor_changes_what_others_could_write(
    tmp_path: Path, place: str, mode: int, owner: int, reason: str
) -> None:
    if owner and os.getuid() != 0:
        pytest.skip("only root can give a file to another user")
    into = tmp_path / "into"
    plan = into / "triton" / "KEY" / "plan.py"
    plan.parent.mkdir(parents=True)
    witness = tmp_path / "witness"
    plan.write_text(f"open({str(witness)!r}, 'w')")
    (into / sharing.MANIFEST).write_text("{}")
    changed = into / place
    if mode:
        changed.chmod(mode)
    else:
        changed.unlink()
    if owner:
        os.chown(changed, owner, -1)
    executes = "import os, runpy; runpy.run_path(os.environ['TRITON_CACHE_DIR'] + '/KEY/plan.py')"
    done = run_warm(into, executes, tmp_path)
    assert not witness.exists()
    assert (done.returncode, reason in done.stderr) == (1, True), done.stderr
    assert not mode or changed.stat().st_mode & 0o777 == mode


def test_warm_compiles_in_a_private_folder_and_publishes_what_is_new(
    folder: Path, caches: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []

    def compile_one(command: list[str], env: dict[str, str], check: bool) -> Any:
        cache = Path(env["TRITON_CACHE_DIR"])
        used.append(cache)
        assert (cache.parent.stat().st_mode & 0o777, env[settings.SHARED_VARIABLE]) == (0o700, "")
        assert (cache / "KEY" / "cuda_utils.so").read_text() == FILES[2]
        (cache / "NEW").mkdir(mode=0o700)
        (cache / "NEW" / "kernel.cubin").write_text("new")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", compile_one)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.15.0")
    monkeypatch.setattr(os, "umask", lambda mask: 0o022)
    assert warm.main(["--into", str(folder)]) == 0
    assert folder not in used[0].parents
    assert not used[0].exists()
    new = folder / "triton" / "NEW"
    assert [one.stat().st_mode & 0o777 for one in (new, new / "kernel.cubin")] == [0o755, 0o644]
    assert sharing.bring(folder, caches) == 4


def test_warm_publishes_through_no_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "made" / "triton" / "NEW").mkdir()
    (tmp_path / "made" / "triton" / "NEW" / "kernel").touch()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (folder / "triton" / "NEW").symlink_to(elsewhere)
    with pytest.raises(OSError, match="NEW"):
        sharing.publish(caches_in(tmp_path / "made"), folder, "2.15.0")
    assert not list(elsewhere.iterdir())
