"""The replacement of caches, whose files are executed, if another user could have written them."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path

from tessera_torch import counts, settings
from tessera_torch.caches import trust


def secure(names: Collection[str]) -> None:
    """Make and check the named caches; direct this process to an empty one in place of a bad one.

    Raises:
        OSError: no folder for temporary files can be written.
    """
    for name in names:
        folder = settings.caches()[name]
        try:
            trust.make_cache(folder)
        except (trust.NotTrusted, OSError) as err:
            fresh = Path(tempfile.mkdtemp(prefix="tessera-torch-"))
            atexit.register(_remove, fresh, os.getpid())
            settings.direct_cache(name, fresh)
            counts.say(
                f"{name}'s cache is not used: {err}; an empty one is used, until this process ends."
                f" Remove {folder}, or set {settings.CACHE_VARIABLES[name]}"
            )


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a process that was forked from it
        shutil.rmtree(folder, ignore_errors=True)
