"""Parts in C with a sanitizer, and object files: compiled in this run of the tests or in an earlier
one.

A part is reused under the digest of the product's own build, and an object under its preprocessed
text: a change of a header, of a flag or of the compiler makes another.
"""

import fcntl
import functools
import subprocess
from collections.abc import Sequence
from pathlib import Path

from support.kept.store import FOLDER, Store, key_of
from vgpu_sim.native import build

_STORE = Store("objects")


@functools.cache
def build_once(*only: str) -> tuple[Path, ...]:
    """Build these libraries of the checkout, by default all, and return their paths.

    A test process does so once for the same libraries: to find that they are up to date takes a
    quarter of a second, because their generated sources are generated again.
    """
    return tuple(build.build_all(only=only))


def build_kept(library: str, directory: Path, sanitizer: str, folder: Path | None = FOLDER) -> Path:
    """Build one part into ``directory`` as ``build.build_all`` does, and return the file's path."""
    if folder is None:
        return build.build_all(directory, sanitizer, only=(library,))[0]
    kept = folder / "parts" / sanitizer
    kept.mkdir(parents=True, exist_ok=True)
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build.build_all(kept, sanitizer, only=(library,))
    return build.build_all(directory, sanitizer, only=(library,), reuse=kept)[0]


def compile_kept(
    flags: Sequence[str], source: Path, output: Path, cc: str = "cc", store: Store = _STORE
) -> subprocess.CompletedProcess[str]:
    """Compile a source to an object file; return what the compiler, or its preprocessor, said."""
    text = _run([cc, *flags, "-E", str(source)], source.parent)
    if text.returncode:
        return text
    # Debug information names the source and this directory; with -g, both are in the text.
    key = key_of(identity(cc), "\0".join(flags).encode(), text.stdout.encode())
    found = store.get(key)
    if found is not None:
        output.write_bytes(found)
        return text
    done = _run([cc, *flags, "-c", str(source), "-o", str(output)], source.parent)
    if done.returncode == 0 and not done.stderr:  # a warning is to be seen again
        store.put(key, output.read_bytes())
    return done


def _run(command: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


@functools.cache
def identity(cc: str) -> bytes:
    """Return what distinguishes a compiler from another: its version and configuration."""
    done = subprocess.run([cc, "-v"], capture_output=True, check=True)
    return done.stdout + done.stderr
