"""``python -m tessera_torch.warm`` compiles the kernels of common operators ahead.

With --into they go into a folder that other processes use read-only, on slices of any size of the
same compute capability: TESSERA_TORCH_CACHE=FOLDER. Without it they go into this user's caches.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from tessera_torch import settings, sharing

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
    folders = settings.caches()
    if options.into:
        os.umask(0o022)
        folders = {n: options.into.absolute() / place for n, place in sharing.FOLDERS.items()}
        for folder in folders.values():
            folder.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    command = [sys.executable, "-m", "tessera_torch.warm", _CHILD]
    if options.model:
        command += ["--model", str(options.model)]
    done = subprocess.run(command, env=settings.environment_of_caches(folders), check=False)
    if done.returncode:
        return 1
    where = ", ".join(map(str, folders.values()))
    if options.into:
        import importlib.metadata

        sharing.write_manifest(options.into, importlib.metadata.version("torch"))
        where = f"{options.into}: use it by {settings.SHARED_VARIABLE}={options.into.absolute()}"
    print(f"{time.perf_counter() - started:.0f} s, in {where}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
