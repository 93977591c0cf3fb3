"""``python -m tessera_torch.warm`` compiles the kernels of common operators ahead.

With --into they go into a folder that other processes use read-only, on slices of any size of the
same compute capability: TESSERA_TORCH_CACHE=FOLDER. The folder is new or empty, or made by this
program and writable by this user alone. Without --into they go into this user's caches.
"""

import argparse
import importlib.metadata
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tessera_torch import settings
from tessera_torch.caches import sharing, trust

_CHILD = "--compile"


def main(arguments: list[str]) -> int:
    """Compile; return the exit status."""
    parser = argparse.ArgumentParser(prog="tessera_torch.warm", description=__doc__)
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="make or extend this folder")
    parser.add_argument("--model", type=Path, metavar="FILE", help="also run this program")
    parser.add_argument(_CHILD, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.model and not options.model.is_file():
        parser.error(f"no file {options.model}")
    if options.compile:
        from tessera_torch.warm import common

        return common.compile_all(options.model)
    command = [sys.executable, "-m", "tessera_torch.warm", _CHILD]
    if options.model:
        command += ["--model", str(options.model)]
    started = time.perf_counter()
    try:
        if options.into:
            where = _compile_into(command, options.into.resolve())
        else:
            where = _compile(command, settings.caches())
    except (trust.NotTrusted, OSError) as err:
        print(f"tessera_torch.warm: no kernel was kept: {err}", file=sys.stderr)
        return 1
    if where:
        print(f"{time.perf_counter() - started:.0f} s, in {where}")
    return 0 if where else 1


def _compile_into(command: list[str], folder: Path) -> str:
    """Compile in a private folder, so that nothing in a shared one is executed; then publish it."""
    os.umask(0o022)
    sharing.make_folder(folder)
    with tempfile.TemporaryDirectory(prefix="tessera-torch-") as private:
        caches = {name: Path(private, place) for name, place in sharing.FOLDERS.items()}
        sharing.read_into(folder, caches)
        if not _compile(command, caches):
            return ""
        sharing.publish(caches, folder, importlib.metadata.version("torch"))
    return f"{folder}: use it by {settings.SHARED_VARIABLE}={folder}"


def _compile(command: list[str], caches: dict[str, Path]) -> str:
    """Compile into caches that no other user can write; return where, or "" after an error."""
    for folder in caches.values():
        trust.make_cache(folder)
    process = subprocess.run(command, env=settings.environment_of_caches(caches), check=False)
    return "" if process.returncode else ", ".join(map(str, caches.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
