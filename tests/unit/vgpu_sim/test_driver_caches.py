"""Owners' cache directories: apart, stable, not to be found by others."""

import os

import pytest

from vgpu_sim.driver.caches import OwnerCaches
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
