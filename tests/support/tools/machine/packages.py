"""The machine's kernel and its first program, from Debian's packages.

The packages are downloaded and unpacked into a cache, not installed: an installed kernel would
become this machine's own at its next start.
"""

import os
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

KERNEL = "linux-image-amd64"  # the cloud kernel has no 9p
BUSYBOX = "busybox-static"
# Folders below /lib/modules/VERSION that contain what initial_files.MODULES need.
_MODULES = (
    "kernel/drivers/virtio/",
    "kernel/net/9p/",
    "kernel/fs/9p/",
    "kernel/fs/netfs/",
    "kernel/fs/fscache/",
    "kernel/fs/overlayfs/",
)


class MissingPackageError(Exception):
    """A package or program of Debian is missing."""


@dataclass(frozen=True)
class KernelFiles:
    """The files of the packages: the kernel's image, its modules, and busybox."""

    image: Path
    modules: Path
    busybox: Path


def kernel_files() -> KernelFiles:
    """Return the files in the cache, and download the packages if they are not there.

    Raises:
        MissingPackageError: apt has no such package, or is missing.
    """
    for program in ("apt-get", "apt-cache", "dpkg-deb"):
        if shutil.which(program) is None:
            raise MissingPackageError(f"{program} is missing: the kernel is Debian's package")
    package = _newest_kernel()
    folder = _cache() / package
    files = KernelFiles(folder / "vmlinuz", folder / "modules", folder / "busybox")
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{package}.", dir=folder.parent) as name:
            unpacked = Path(name) / "files"
            _unpack(package, unpacked)
            _unpack(BUSYBOX, unpacked)
            unpacked.rename(folder)
    return files


def _cache() -> Path:
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "tessera" / "machine"


def _newest_kernel() -> str:
    """Return the package that Debian's package of the newest kernel depends on."""
    command = ["apt-cache", "depends", "--important", KERNEL]
    text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    for line in text.splitlines():
        kind, _, package = line.strip().partition(": ")
        if kind == "Depends" and package.startswith("linux-image-"):
            return package
    raise MissingPackageError(f"apt has no package {KERNEL}: run apt-get update, on Debian")


def _unpack(package: str, folder: Path) -> None:
    """Download a package, and extract the needed files into a folder."""
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tessera-package-") as name:
        command = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", package]
        if subprocess.run(command, cwd=name, check=False).returncode:
            raise MissingPackageError(f"apt-get cannot download {package}: run apt-get update")
        (archive,) = Path(name).glob("*.deb")
        with subprocess.Popen(
            ["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            with tarfile.open(fileobj=process.stdout, mode="r|") as members:
                for member in members:
                    target = _target(member.name)
                    content = members.extractfile(member) if target and member.isreg() else None
                    if content is not None:
                        file = folder / target
                        file.parent.mkdir(exist_ok=True)
                        file.write_bytes(content.read())
                        os.chmod(file, 0o755)


def _target(name: str) -> str:
    """Return where a package's file is kept in the cache; an empty text if it is not needed."""
    file = name.rpartition("/")[2]
    if name.startswith("./boot/vmlinuz-"):
        return "vmlinuz"
    if name.endswith("/bin/busybox"):
        return file
    _, _, below = name.partition("/modules/")
    in_modules = any(below.partition("/")[2].startswith(folder) for folder in _MODULES)
    return f"modules/{file}" if in_modules else ""
