"""A client's suite on this machine: the folders of its tests and of its checkout."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from benchmarks.clients.client import Client
from benchmarks.clients.environment import TESSERA, checkout, install, site_packages
from benchmarks.on_slice import REPOSITORY

_ORIGIN = (("remote", "get-url", "origin"), ("rev-parse", "--short=8", "HEAD"))
_TAG = ("describe", "--tags", "--exact-match")
PROGRAMS = REPOSITORY / "benchmarks" / "clients" / "programs"


@dataclass(frozen=True, slots=True)
class Suite:
    """A client with the folders in which its tests and its checkout were found."""

    client: Client
    tests: Path
    repository: Path | None

    @property
    def source(self) -> str:
        """Say from which commit of which repository the tests are, if that is not the tag."""
        if self.repository is None:
            return ""
        url, commit = (_git(self.repository, *words) for words in _ORIGIN)
        pinned = self.client.repository
        if not commit:
            return "a folder without a commit"
        at_tag = pinned and url == pinned.url and _git(self.repository, *_TAG) == pinned.tag
        return "" if at_tag else f"{url or self.repository.name}, commit {commit}"

    def expand(self, text: str) -> str:
        """Replace ``{repository}``, ``{site}``, ``{programs}`` and ``{tessera}`` in a setting.

        ``{tessera}`` is the command ``tessera`` as a list in JSON.
        """
        text = text.replace("{tessera}", json.dumps(TESSERA))
        text = text.replace("{repository}", str(self.repository))
        text = text.replace("{site}", str(site_packages(self.client)))
        return text.replace("{programs}", str(PROGRAMS))

    def test_files(self) -> list[str]:
        """Return the test files of the suite, relative to its folder, in order."""
        paths = {path for pattern in self.client.tests for path in self.tests.glob(pattern)}
        names = {str(path.relative_to(self.tests)) for path in paths if path.is_file()}
        return sorted(
            name for name in names if not any(Path(name).match(p) for p in self.client.ignored)
        )


def open_suite(client: Client, given_checkout: Path | None = None) -> Suite:
    """Install a client and find its tests.

    Raises:
        NotInstalled: a package or the repository is not available.
    """
    install(client)
    repository = checkout(client.repository, given_checkout) if client.repository else None
    packages = site_packages(client)
    for source, target in client.copied:
        assert repository is not None, f"{client.name} copies from a checkout it does not have"
        shutil.copytree(repository / source, packages / target, dirs_exist_ok=True)
    if client.in_site_packages:
        base = packages
    else:
        base = PROGRAMS if client.in_programs or repository is None else repository
    return Suite(client, base / client.folder, repository)


def _git(folder: Path, *words: str) -> str:
    """Return what git prints of a checkout; nothing if it is none."""
    if not (folder / ".git").exists():
        return ""
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
