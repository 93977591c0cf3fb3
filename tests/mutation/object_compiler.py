"""Compiles only a mutated C file again, and links the libraries that contain it.

Run in a private copy: ``object_compiler.py FILE OBJECTS``. The folder OBJECTS caches the other
files' object files for all mutations of that copy.
"""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from vgpu_sim.native import build, catalogue, freshness


def compile_again(
    changed: Path, objects: Path, directory: Path, parts: Iterable[catalogue.Part]
) -> bool:
    """Build every library with ``changed`` among its sources into ``directory``; return whether it
    compiles.

    ``objects`` caches the object files of the other sources, which must be unchanged.
    """
    parts = list(parts)
    for part in parts:
        if changed in part.sources() and not _part_again(
            part, changed, objects / part.library, directory
        ):
            return False
    for part in parts:
        if any(changed in one.sources() for one in (part, *part.needs)):
            # Tests build outdated libraries; the record marks this one as up to date.
            freshness.record(part, directory, build.identity(part))
    return True


def _part_again(part: catalogue.Part, changed: Path, objects: Path, directory: Path) -> bool:
    objects.mkdir(parents=True, exist_ok=True)
    folder = directory / part.subfolder
    output = folder / part.library
    fresh = objects / part.library
    # The command ends with the needed libraries and the output path.
    whole = build.command(part, build.compiler(), None, fresh, folder)
    compiled: dict[str, str] = {}
    for number, source in enumerate(part.sources()):
        is_changed = source == changed
        target = objects / ("changed.o" if is_changed else f"{number}.o")
        if is_changed or not target.exists():
            others = {str(one) for one in part.sources() if one != source}
            behind = 2 + len(part.needs)
            flags = [word for word in whole[:-behind] if word not in others]
            if not _runs([*flags, "-c", "-o", str(target)]):
                return False
        compiled[str(source)] = str(target)
    if not _runs([compiled.get(word, word) for word in whole]):
        return False
    fresh.replace(output)
    return True


def _runs(command: list[str]) -> bool:
    return subprocess.run(command, cwd=catalogue.ROOT, check=False).returncode == 0


if __name__ == "__main__":
    file, kept = map(Path, sys.argv[1:])
    done = compile_again(file.resolve(), kept, build.LIBRARIES, catalogue.parts())
    raise SystemExit(not done)
