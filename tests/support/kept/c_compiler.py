"""Has the C compiler reuse assembly of earlier runs, in this process and in those that it starts.

GCC's driver looks for its compiler proper, ``cc1``, in the folders of ``COMPILER_PATH`` first. One
of them, for this target and version only, gets a script that starts ``kept_cc1``. The command and
the path of the compiler stay the same, so the digests of the product's build do, too.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from support.kept import kept_cc1
from support.kept.store import FOLDER

VARIABLE = "COMPILER_PATH"


def install(folder: Path, store: Path, cc: str = "cc") -> Path | None:
    """Write the script below ``folder``; return its path, or None if ``cc`` is not GCC."""

    def ask(option: str) -> str:
        done = subprocess.run([cc, option], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    if shutil.which(cc) is None or not os.path.isabs(cc1 := ask("-print-prog-name=cc1")):
        return None
    script = folder / ask("-dumpmachine") / ask("-dumpversion") / "cc1"
    script.parent.mkdir(parents=True)
    # Without site: the interpreter starts in a third of the time.
    command = [sys.executable, "-I", "-S", kept_cc1.__file__, cc1, str(store)]
    quoted = " ".join("'" + one.replace("'", "'\\''") + "'" for one in command)
    script.write_text(f'#!/bin/sh\nexec {quoted} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return script


@contextlib.contextmanager
def reusing_assembly(store: Path | None = FOLDER) -> Iterator[None]:
    """Set ``COMPILER_PATH`` for what this process starts; a variable that is set stays as it is."""
    if store is None or VARIABLE in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="cc1-") as folder:
        if install(Path(folder), store / "assembly") is None:
            yield
            return
        os.environ[VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[VARIABLE]
