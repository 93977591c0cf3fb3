"""The record of one client: its packages, where its tests come from, and how they are run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from benchmarks.on_slice import BOARD, WHOLE


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository at a tag: cloned with git, or a folder that the user names."""

    url: str
    tag: str


@dataclass(frozen=True, slots=True)
class Known:
    """A miss whose reason is known: a pattern of its test, message or failed calls, and the
    reason.
    """

    pattern: str
    reason: str


@dataclass(frozen=True, slots=True)
class Client:
    """A client and its suite.

    ``tests`` are glob patterns of test files below ``folder``, which is a path in the checkout of
    ``repository``, in the environment's ``site-packages``, or in ``benchmarks/clients/programs``.
    Clients with the same packages share an environment by the name ``venv``.
    ``options`` are more options of ``tessera run``.
    ``copied`` are folders of the checkout that the tests import from ``site-packages``.
    The tests get a ``slice`` of ``board``, or ``gpus`` whole GPUs if ``slice`` is empty.
    ``note`` is for the reader of the page.
    """

    name: str
    version: str
    goal: str
    packages: tuple[str, ...]
    folder: PurePosixPath
    tests: tuple[str, ...]
    without: tuple[str, ...] = ()
    repository: Repository | None = None
    in_site_packages: bool = False
    in_programs: bool = False
    copied: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    known: tuple[Known, ...] = ()
    note: str = ""
    venv: str = ""
    board: str = BOARD
    slice: str = WHOLE
    gpus: int = 1
    options: tuple[str, ...] = ()
    file_limit_s: int = 1800
    test_limit_s: int = 300

    @property
    def device(self) -> str:
        """The device of the tests, in words."""
        whole = "a whole GPU" if self.gpus == 1 else f"{self.gpus} whole GPUs"
        return f"{self.board}, {self.slice or whole}"
