"""A lock on the cluster: most end-to-end tests share it, tests that restart its parts hold it
alone.

Several pytest processes run end-to-end tests concurrently (``make test-cluster``): one for RDMA,
up to two for GPUs. A test marked ``alone`` restarts or upgrades what the tests of the other
processes use, so it runs while no other test does.
"""

import contextlib
import fcntl
import functools
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

# A folder that the processes of one run share; a process without it has the cluster to itself.
FOLDER = "TESSERA_E2E_LOCKS"


@functools.cache
def own_folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder that is removed when this process ends."""
    return tempfile.TemporaryDirectory(prefix="tessera-e2e-", ignore_cleanup_errors=True)


def _folder() -> Path:
    return Path(os.environ.get(FOLDER) or own_folder().name)


@contextlib.contextmanager
def _locked(name: str, mode: int) -> Iterator[None]:
    with (_folder() / name).open("a") as file:  # closing the file unlocks it
        fcntl.flock(file, mode)
        yield


class ClusterLock:
    """The lock of one process on the cluster, for one test at a time."""

    def __init__(self) -> None:
        self._held: contextlib.ExitStack | None = None

    @property
    def locked(self) -> bool:
        return self._held is not None

    def lock(self, *, alone: bool) -> None:
        """Wait until this process may use the cluster, alone or together with others.

        The lock ``next`` is held while a process waits: otherwise processes that share the
        cluster could forever overtake one that waits to have it alone.
        """
        assert self._held is None
        with _locked("next", fcntl.LOCK_EX), contextlib.ExitStack() as held:
            held.enter_context(_locked("cluster", fcntl.LOCK_EX if alone else fcntl.LOCK_SH))
            self._held = held.pop_all()

    def unlock(self) -> None:
        """Release the lock."""
        assert self._held is not None
        self._held.close()
        self._held = None


def do_once(name: str, action: Callable[[], None]) -> None:
    """Run an action in the first process of a run that calls this; the others wait until it is
    done.

    If the action raises, the next process tries again.
    """
    with _locked(f"{name}.lock", fcntl.LOCK_EX):
        done = _folder() / f"{name}.done"
        if not done.exists():
            action()
            done.touch()
