"""Outputs of ``tessera cc``, compiled in this run of the tests or in an earlier one.

The key is what an output depends on: the options, the source with its folder, the files that are
already in the directory of the compilation, the sources of ``tessera cc`` and its headers, the CUDA
runtime library with which it links, and the compilers: the clang of the day and g++.
"""

import functools
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from support.kept import clangs, native_parts
from support.kept.store import Store, digest_of, key_of
from vgpu_sim import config, sdk

_STORE = Store("cuda")


def compile_kept(
    directory: Path,
    command: Sequence[str],
    source: Path,
    make: Callable[[], subprocess.CompletedProcess[str]],
    store: Store = _STORE,
) -> subprocess.CompletedProcess[str]:
    """Return what ``make`` returned, which runs a command in ``directory``, or write its output.

    The command's last word is the output, relative to ``directory``. It is not stored if ``tessera
    cc`` printed a message or failed. It names the folder of the source, which may be another
    checkout's.
    """
    read = (
        digest_of(one, sorted(filter(Path.is_file, one.iterdir())))
        for one in (directory, source.parent)
    )
    words = (source.name if word == str(source) else word for word in command)
    key = key_of(_surroundings(), "\0".join(words).encode(), *read)
    file = directory / command[-1]
    found = store.get(key)
    if found is not None:
        file.write_bytes(found)
        file.chmod(0o755)
        return subprocess.CompletedProcess(command, 0, "", "")
    done = make()
    if (done.returncode, done.stdout, done.stderr) == (0, "", ""):
        store.put(key, file.read_bytes())
    return done


@functools.cache
def _surroundings() -> bytes:
    """Return a digest of the compilers, and of everything of this checkout that they read."""
    folder = Path(sdk.__file__).parent
    own = [path for path in sorted(folder.rglob("*")) if path.suffix != ".pyc" and path.is_file()]
    runtime = (config.LIBRARIES_DIR / "libcudart.so.12").read_bytes()
    clang = clangs.of_day()
    compilers = f"{clang.path} {clang.text}".encode() + native_parts.identity("g++")
    return digest_of(folder, own) + key_of(compilers, runtime).encode()
