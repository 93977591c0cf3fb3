"""Owners' cache directories: apart, stable, not to be found by others."""

import os
from pathlib import Path

import pytest

from vgpu_sim.driver.caches import TRIM_EVERY_SECONDS, OwnerCaches
from vgpu_sim.driver.model import Owner, PodUid

TEAM, OTHER = Owner(PodUid("1"), "team"), Owner(PodUid("2"), "other")


def test_a_namespace_keeps_its_directory_and_shares_it_with_nobody(tmp_path):
    caches = OwnerCaches(tmp_path / "cache", shared=True)
    mine = caches.directory(TEAM)
    assert mine == OwnerCaches(tmp_path / "cache", shared=True).directory(TEAM)
    assert mine == caches.directory(Owner(PodUid("3"), "team"))
    assert mine != caches.directory(OTHER)
    assert os.stat(mine).st_mode & 0o7777 == 0o1777
    assert "team" not in mine
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o711
    assert (tmp_path / "cache" / ".secret").stat().st_mode & 0o777 == 0o600


def test_another_node_names_it_otherwise(tmp_path):
    names = {
        os.path.basename(OwnerCaches(tmp_path / node, shared=True).directory(TEAM))
        for node in ("one", "two")
    }
    assert len(names) == 2


def test_a_users_own_is_private(tmp_path):
    mine = OwnerCaches(tmp_path / "cache", shared=False).directory(Owner(PodUid(""), ""))
    assert os.stat(mine).st_mode & 0o777 == 0o700


@pytest.mark.parametrize("shared", [True, False])
def test_no_place_is_no_cache(tmp_path, shared):
    (tmp_path / "cache").write_text("in the way")
    assert OwnerCaches(tmp_path / "cache", shared).directory(TEAM) is None


def test_an_owner_that_fills_its_directory_loses_its_oldest_entries(tmp_path):
    now = 0.0
    caches = OwnerCaches(tmp_path / "cache", shared=True, limit_bytes=10_000, clock=lambda: now)
    mine, other = Path(caches.directory(TEAM)), Path(caches.directory(OTHER))
    for age, name in enumerate(["newest", "middle", "oldest"]):
        (mine / name).write_bytes(bytes(4000))
        os.utime(mine / name, ns=(0, 10**18 - age))
    (other / "entry").write_bytes(bytes(9000))
    (mine / "a directory").mkdir()
    (mine / "a link").symlink_to(other / "entry")
    caches.trim(TEAM)
    assert sorted(path.name for path in mine.iterdir()) == [
        "a directory",
        "a link",
        "middle",
        "newest",
    ]
    (mine / "more").write_bytes(bytes(8000))
    caches.trim(TEAM)  # looked at just now
    assert (mine / "middle").exists()
    now = TRIM_EVERY_SECONDS
    caches.trim(TEAM)
    assert sorted(path.name for path in mine.iterdir()) == ["a directory", "a link", "more"]
    assert (other / "entry").exists()


def test_a_cache_that_is_not_there_is_nothing_to_trim(tmp_path):
    OwnerCaches(tmp_path / "nowhere", shared=True).trim(TEAM)
