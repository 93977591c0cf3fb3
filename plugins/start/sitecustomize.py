"""Prepares frameworks for Tessera's GPUs at Python's start, then runs the next ``sitecustomize``.

Python imports the first module of this name on its path. ``tessera run`` puts this folder on
PYTHONPATH, and so every Python that a run starts imports this file, by whatever script it is
started (ADR 220). A file of that name in the user's environment runs as if this one did not exist.
"""

import os
import sys


def _start() -> None:
    """Prepare frameworks; report an error on stderr, because Python must start in any case."""
    try:
        import tessera_start

        tessera_start.start()
    except Exception as err:  # noqa: BLE001
        print(f"tessera: frameworks are not prepared: {err!r}", file=sys.stderr)  # noqa: T201


def _run_next() -> None:
    """Import the module of this name that follows on the path, in the place of this one."""
    folder = os.path.dirname(os.path.abspath(__file__))
    path = sys.path[:]
    own = sys.modules.pop("sitecustomize")
    sys.path[:] = [entry for entry in path if os.path.abspath(entry) != folder]
    shortened = sys.path[:]
    try:
        import sitecustomize  # noqa: F401
    except ImportError as err:
        if err.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = own
    finally:
        if sys.path == shortened:
            sys.path[:] = path


_start()
_run_next()
