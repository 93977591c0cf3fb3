"""Object cache directories: separate, stable, unguessable, and bounded."""

import os
from pathlib import Path

import pytest

from support.rigs.turned_clock import Clock
from vgpu_sim.gpud.limits import caches as caches_module
from vgpu_sim.gpud.limits.caches import (
    SWEEP_EVERY_SECONDS,
    TRIM_EVERY_SECONDS,
    UNUSED_SECONDS,
    CacheOwner,
    OwnerCaches,
)

TEAM, OTHER = CacheOwner("team", 0), CacheOwner("other", 0)
TEAM_ON_ANOTHER_SLOT = CacheOwner("team", 1)
NOW = 1_800_000_000.0


def caches_of(root: Path, clock: Clock | None = None, **limits: int) -> OwnerCaches:
    return OwnerCaches(root / "cache", shared=True, clock=clock or Clock(NOW), **limits)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def write(directory: Path, name: str, size: int, age: int = 0) -> None:
    (directory / name).write_bytes(bytes(size))
    os.utime(directory / name, ns=(0, 10**18 - age))


def test_a_namespace_keeps_a_directory_of_its_own_on_a_slot(tmp_path):
    caches = caches_of(tmp_path)
    mine = caches.directory(TEAM)
    assert mine == caches_of(tmp_path).directory(TEAM)
    assert len({mine, caches.directory(OTHER), caches.directory(TEAM_ON_ANOTHER_SLOT)}) == 3
    assert os.stat(mine).st_mode & 0o7777 == 0o1777
    assert "team" not in mine
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o711
    assert (tmp_path / "cache" / ".secret").stat().st_mode & 0o777 == 0o600


def test_another_node_names_it_otherwise(tmp_path):
    found = {os.path.basename(caches_of(tmp_path / n).directory(TEAM)) for n in ("one", "two")}
    assert len(found) == 2


def test_a_users_own_is_private(tmp_path):
    mine = OwnerCaches(tmp_path / "cache", shared=False).directory(CacheOwner("", 0))
    assert os.stat(mine).st_mode & 0o777 == 0o700


@pytest.mark.parametrize("shared", [True, False])
def test_no_place_is_no_cache(tmp_path, shared):
    (tmp_path / "cache").write_text("in the way")
    caches = OwnerCaches(tmp_path / "cache", shared)
    assert caches.directory(TEAM) is None
    caches.trim(TEAM)
    caches.sweep(())


def test_an_owner_that_fills_its_directory_loses_its_oldest_entries(tmp_path):
    clock = Clock(NOW)
    caches = caches_of(tmp_path, clock, limit_bytes=3 * 4096)
    mine, other = Path(caches.directory(TEAM)), Path(caches.directory(OTHER))
    for age, name in enumerate(["newest", "middle", "old", "oldest"]):
        write(mine, name, 4096, age)
    write(other, "entry", 3 * 4096)
    (mine / "a directory").mkdir()
    (mine / "a link").symlink_to(other / "entry")
    caches.trim(TEAM)
    assert names(mine) == ["a directory", "a link", "middle", "newest", "old"]
    write(mine, "more", 8192, -1)
    caches.trim(TEAM)  # too soon: it was measured just now
    assert (mine / "old").exists()
    clock.now += TRIM_EVERY_SECONDS
    caches.trim(TEAM)
    assert names(mine) == ["a directory", "a link", "more", "newest"]
    assert (other / "entry").exists()


def test_a_sparse_file_displaces_no_other_file(tmp_path):
    caches = caches_of(tmp_path, limit_bytes=4 * 4096)
    mine = Path(caches.directory(TEAM))
    write(mine, "entry", 4096, age=5)
    with (mine / "sparse").open("wb") as file:
        file.truncate(2 << 30)
    caches.trim(TEAM)
    assert names(mine) == ["entry", "sparse"]


def test_empty_files_count(tmp_path):
    caches = caches_of(tmp_path, limit_entries=3)
    mine = Path(caches.directory(TEAM))
    for age in range(10):
        write(mine, f"empty{age}", 0, age)
    caches.trim(TEAM)
    assert names(mine) == ["empty0", "empty1", "empty2"]


def test_of_a_flood_a_bounded_part_is_looked_at(tmp_path, monkeypatch):
    clock = Clock(NOW)
    caches = caches_of(tmp_path, clock, limit_entries=2)
    mine = Path(caches.directory(TEAM))
    for number in range(20):
        write(mine, f"empty{number}", 0)
    caches.trim(TEAM)
    assert len(names(mine)) == 20 - 8 + 2
    for _ in range(2):
        clock.now += TRIM_EVERY_SECONDS
        caches.trim(TEAM)
    assert len(names(mine)) == 2


def test_a_cache_that_is_not_there_is_nothing_to_trim(tmp_path):
    caches_of(tmp_path / "nowhere").trim(TEAM)
    caches_of(tmp_path / "nowhere").sweep(())


def test_what_no_context_has_used_for_a_day_goes(tmp_path):
    clock = Clock(NOW)
    caches = caches_of(tmp_path, clock)
    gone, living, fresh = (
        Path(caches.directory(one)) for one in (TEAM, OTHER, TEAM_ON_ANOTHER_SLOT)
    )
    write(gone, "entry", 10)
    os.utime(gone, (NOW, NOW))
    secret = (tmp_path / "cache" / ".secret").read_bytes()
    clock.now += UNUSED_SECONDS - 1
    caches.sweep([OTHER])
    assert gone.exists()
    clock.now += SWEEP_EVERY_SECONDS - 1
    caches.directory(TEAM_ON_ANOTHER_SLOT)
    caches.sweep([OTHER])  # too soon: they were scanned just now
    assert gone.exists()
    clock.now += 1
    caches.sweep([OTHER])
    assert (gone.exists(), living.exists(), fresh.exists()) == (False, True, True)
    assert (tmp_path / "cache" / ".secret").read_bytes() == secret


def test_an_owner_has_512_mib_and_16384_entries(monkeypatch, tmp_path):
    """The default limits; the entries beyond them are removed, by disk usage as stat(2) reports
    it.
    """
    requested: list[tuple[int, int]] = []
    monkeypatch.setattr(
        caches_module, "_remove_oldest", lambda _, *limits: requested.append(limits)
    )
    caches_of(tmp_path).trim(TEAM)
    assert requested == [(512 * 1024 * 1024, 16384)]


def test_a_file_removed_concurrently_is_not_an_error(tmp_path, monkeypatch):
    caches = caches_of(tmp_path, limit_entries=1)
    directory = Path(caches.directory(TEAM) or "")
    for age, name in enumerate(["newest", "older", "oldest"]):
        write(directory, name, 10, age)
    unlink = Path.unlink

    def after_another(path: Path, missing_ok: bool = False) -> None:
        os.unlink(path)
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", after_another)
    caches.trim(TEAM)
    assert names(directory) == ["newest"]
