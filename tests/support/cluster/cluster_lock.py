"""Locks on parts of the cluster: most end-to-end tests share them, tests that restart a part hold
its lock alone.

Several pytest processes run end-to-end tests concurrently (``make test-cluster``). A test marked
``alone`` restarts or upgrades what the tests of other processes use, so it runs while no other test
uses that part.
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


Scopes = frozenset[str]
"""Names of parts of the cluster."""


class ClusterLock:
    """The lock of one process on parts of the cluster, for one test at a time."""

    def __init__(self) -> None:
        self._held: contextlib.ExitStack | None = None

    @property
    def locked(self) -> bool:
        return self._held is not None

    def lock(self, *, shared: Scopes, alone: Scopes = frozenset()) -> None:
        """Wait until this process may use parts of the cluster, some of them alone.

        The lock ``next`` of a part is held while a process waits: otherwise processes that share
        the part could forever overtake one that waits to have it alone. The order of the parts is
        the same for all, so no two processes wait for each other.
        """
        assert self._held is None
        with contextlib.ExitStack() as held:
            for scope in sorted(shared | alone):
                with _locked(f"next-{scope}", fcntl.LOCK_EX):
                    mode = fcntl.LOCK_EX if scope in alone else fcntl.LOCK_SH
                    held.enter_context(_locked(scope, mode))
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
