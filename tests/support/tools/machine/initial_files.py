"""The archive from which the kernel starts: busybox, the modules, and two scripts.

The format is cpio's "newc", as the kernel's documentation "initramfs buffer format" describes it.
"""

import lzma
import re
from pathlib import Path

from support.tools.machine.packages import KernelFiles, MissingPackageError

# What mounts the root file system. Their dependencies are read from the modules themselves.
MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
_HERE = Path(__file__).parent
_FILE, _PROGRAM, _FOLDER, _CONSOLE = 0o100644, 0o100755, 0o040755, 0o020600
_CONSOLE_DEVICE = (5, 1)


def make_archive(kernel: KernelFiles, command: str) -> bytes:
    """Return the archive of a machine that runs a shell script.

    Raises:
        MissingPackageError: a module is missing in the kernel's package.
    """
    modules = ordered_modules(kernel.modules)
    entries = [_entry(name, _FOLDER) for name in ("bin", "dev", "modules")]
    entries += [
        _entry("dev/console", _CONSOLE, device=_CONSOLE_DEVICE),
        _entry("bin/busybox", _PROGRAM, kernel.busybox.read_bytes()),
        _entry("init", _PROGRAM, (_HERE / "init").read_bytes()),
        _entry("guest", _FILE, (_HERE / "guest").read_bytes()),
        _entry("command", _FILE, command.encode()),
    ]
    for number, content in enumerate(modules.values()):
        entries.append(_entry(f"modules/{number:02}.ko", _FILE, content))
    return b"".join([*entries, _entry("TRAILER!!!", 0)])


def ordered_modules(folder: Path) -> dict[str, bytes]:
    """Return the content of the modules by name, each after those that it depends on."""
    files = {_name(file): file for file in folder.iterdir()}
    order: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in order:
            return
        if name not in files:
            raise MissingPackageError(f"the kernel's package has no module {name} in {folder}")
        content = files[name].read_bytes()
        if files[name].suffix == ".xz":
            content = lzma.decompress(content)
        for dependency in dependencies(content):
            add(dependency)
        order[name] = content

    for name in MODULES:
        add(name)
    return order


def dependencies(module: bytes) -> list[str]:
    """Return the modules that a module depends on, as its section ``.modinfo`` states."""
    field = re.search(rb"\0depends=([^\0]*)\0", module)
    names = field[1].decode() if field else ""
    return [name.replace("-", "_") for name in names.split(",") if name]


def _name(file: Path) -> str:
    return file.name.partition(".")[0].replace("-", "_")


def _entry(name: str, mode: int, content: bytes = b"", device: tuple[int, int] = (0, 0)) -> bytes:
    """Return one entry. Its inode number is 0: no file has a second name."""
    path = name.encode() + b"\0"
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(path), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _pad(header + path) + _pad(content)


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
