"""One virtual environment per client, below ``out/clients``, with its record's packages."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.clients.client import Client, Repository
from benchmarks.on_slice import PYTHONPATH, REPOSITORY

OUT = REPOSITORY / "out" / "clients"
RUNNERS = ("pytest==9.2.0", "pytest-timeout==2.4.0")

# The repository's own packages are found by `tessera` alone: PYTHONPATH belongs to the client.
_MAIN = (
    f"import sys; sys.path[:0] = {PYTHONPATH.split(os.pathsep)!r}; "
    "from vgpu_sim.cli.main import main; main()"
)
TESSERA = (sys.executable, "-c", _MAIN)
"""The command ``tessera``, from any folder."""


class NotInstalled(Exception):
    """The client's packages or its repository cannot be had."""


def folder_of(client: Client) -> Path:
    """Return where everything of a client is kept."""
    return OUT / client.name


def venv_of(client: Client) -> Path:
    """Return a client's virtual environment."""
    return OUT / (client.venv or client.name) / "venv"


def python_of(client: Client) -> Path:
    """Return the interpreter of a client's environment."""
    return venv_of(client) / "bin" / "python"


def site_packages(client: Client) -> Path:
    """Return the folder of the environment's packages."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return venv_of(client) / "lib" / version / "site-packages"


def install(client: Client) -> None:
    """Make the client's environment, unless it is there with these packages.

    Raises:
        NotInstalled: a package is not available; with the end of pip's output.
    """
    requested_packages = json.dumps([client.packages, client.without, RUNNERS])
    stamp = venv_of(client).parent / "installed.json"
    if stamp.exists() and stamp.read_text() == requested_packages:
        return
    shutil.rmtree(venv_of(client), ignore_errors=True)
    venv_of(client).parent.mkdir(parents=True, exist_ok=True)
    _run([sys.executable, "-m", "venv", str(venv_of(client))])
    pip = [str(python_of(client)), "-m", "pip", "--disable-pip-version-check"]
    pinned = {package.split("==")[0] for package in client.packages}
    runners = [package for package in RUNNERS if package.split("==")[0] not in pinned]
    _run([*pip, "install", "-q", *runners, *client.packages])
    if client.without:
        _run([*pip, "uninstall", "-q", "-y", *client.without])
    stamp.write_text(requested_packages)


def versions(client: Client) -> dict[str, str]:
    """Return the version of each package of the client's environment."""
    listed = _run([str(python_of(client)), "-m", "pip", "list", "--format", "json"])
    return {package["name"]: package["version"] for package in json.loads(listed)}


def checkout(repository: Repository, local_folder: Path | None) -> Path:
    """Return a folder with the repository at its tag: the given one, or a clone.

    Raises:
        NotInstalled: git cannot clone it; with the remedy.
    """
    if local_folder is not None:
        return local_folder.resolve()
    target = OUT / "checkouts" / f"{repository.url.rsplit('/', 1)[1]}-{repository.tag}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        clone = ["git", "clone", "-q", "--depth", "1", "--branch", repository.tag]
        try:
            _run([*clone, repository.url, str(target)])
        except NotInstalled as error:
            remedy = f"get {repository.tag} of {repository.url} yourself and add --checkout FOLDER"
            raise NotInstalled(f"{error}; {remedy}") from error
    return target


def _run(command: list[str]) -> str:
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise NotInstalled(f"{' '.join(command[:4])} …: {process.stderr.strip()[-1500:]}")
    return process.stdout
