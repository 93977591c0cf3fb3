"""What ran, what was compiled, and what ran on the CPU; printed if the user wants a log."""

import atexit
import collections
import sys
from typing import Final

from tessera_torch import settings

CALLS: Final[collections.Counter[str]] = collections.Counter()
COMPILED: Final[collections.Counter[str]] = collections.Counter()
ON_CPU: Final[collections.Counter[str]] = collections.Counter()
SECONDS: Final[collections.defaultdict[str, float]] = collections.defaultdict(float)


def log(*words: object) -> None:
    """Print a line on stderr if the user wants a log."""
    if settings.logs():
        say(*words)


def say(*words: object) -> None:
    """Print a line on stderr."""
    print("tessera-torch:", *words, file=sys.stderr, flush=True)


def summary() -> str:
    """Return the counts of this process in one line."""
    text = (
        f"{CALLS.total()} calls, {COMPILED.total()} kernels compiled"
        f" in {sum(SECONDS.values()):.1f} s"
    )
    if ON_CPU:
        ran = ", ".join(f"{name} {count}" for name, count in ON_CPU.most_common())
        text += f"; on the CPU: {ran}"
    return text


def print_at_exit() -> None:
    """Print the counts when the process ends, if the user wants a log or operators fell back."""
    atexit.register(lambda: say(summary()) if settings.logs() or ON_CPU else None)
