"""The content of a closed cache is checked again only after the folder has changed."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tessera_torch.caches import trust

Check = Callable[[], int]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "cache"
    (folder / "KEY").mkdir(parents=True)
    (folder / "KEY" / "kernel").write_text("")
    (folder / "KEY").chmod(0o755)
    folder.chmod(0o700)
    return folder


@pytest.fixture
def check(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Return a function that checks the cache, and returns how often its content was read."""
    reads: list[Path] = []
    whole = trust._check_content

    def count(top: Path, *, others_enter: bool) -> bool:
        reads.append(top)
        return whole(top, others_enter=others_enter)

    monkeypatch.setattr(trust, "_check_content", count)

    def run() -> int:
        reads.clear()
        trust.check_cache(cache)
        return len(reads)

    return run


def settle(check: Check) -> None:
    """Check until the state is recorded."""
    check()  # makes the file, which changes the folder
    time.sleep(0.25)
    assert check() == 1


def test_an_unchanged_cache_is_not_read_again(check: Check) -> None:
    settle(check)
    assert check() == 0


def test_a_state_of_this_moment_is_not_recorded(check: Check) -> None:
    assert [check(), check()] == [1, 1]


@pytest.mark.parametrize(
    "change",
    [
        lambda cache: (cache / "NEW").mkdir(),
        lambda cache: (cache.chmod(0o777), cache.chmod(0o700)),
        lambda cache: (cache / trust.STAMP).write_text("another state"),
        lambda cache: (cache / trust.STAMP).chmod(0o666),
        lambda cache: cache.chmod(0o755),
    ],
)
def test_a_changed_cache_is_read_again(
    cache: Path, check: Check, change: Callable[[Path], object]
) -> None:
    settle(check)
    change(cache)
    assert check() == 1


def test_a_cache_with_folders_that_others_can_write_is_always_read(
    cache: Path, check: Check
) -> None:
    (cache / "KEY").chmod(0o775)
    check()
    time.sleep(0.25)
    assert [check(), check()] == [1, 1]


def test_a_link_in_the_place_of_the_record_is_not_followed(
    cache: Path, check: Check, tmp_path: Path
) -> None:
    settle(check)
    state = (cache / trust.STAMP).read_text()
    (tmp_path / "state").write_text(state)
    (cache / trust.STAMP).unlink()
    (cache / trust.STAMP).symlink_to(tmp_path / "state")
    with pytest.raises(trust.NotTrusted):
        check()
