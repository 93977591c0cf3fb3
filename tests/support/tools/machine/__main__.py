"""usage: python -m support.tools.machine COMMAND [ARGUMENT...]

Runs a command in a virtual machine with cgroup v2, in the current folder, as root. The exit status
is that of the command, or 125 if the machine stopped before the command ended.
"""

import shlex
import sys
import tempfile
from pathlib import Path

from support.tools.machine import emulator, initial_files, packages


def main(command: list[str]) -> int:
    """Run a command and return its exit status."""
    if not command:
        raise SystemExit(__doc__)
    kernel = packages.kernel_files()
    with tempfile.TemporaryDirectory(prefix="tessera-machine-") as name:
        folder = Path(name)
        script = f"cd {shlex.quote(str(Path.cwd()))}\nexec {shlex.join(command)}\n"
        archive = folder / "initial.cpio"
        archive.write_bytes(initial_files.make_archive(kernel, script))
        return emulator.run(kernel.image, archive, folder / "status")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except packages.MissingPackageError as err:
        sys.exit(f"error: {err}")
