"""What frameworks need on Tessera's simulated GPUs, prepared when a program imports one (ADR 220).

Every Python of a run imports this package at its start, so it imports nothing else until a
framework is imported. It runs in the user's Python, from 3.8 on.
"""

import os
import sys

from tessera_start import settings


def start() -> None:
    """Watch for imports of frameworks, if this process has a slice."""
    if not os.path.isdir(settings.slices_folder()):
        return
    from tessera_start import imports

    if not any(isinstance(finder, imports.Watcher) for finder in sys.meta_path):
        sys.meta_path.insert(0, imports.Watcher())
