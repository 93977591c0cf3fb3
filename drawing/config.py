"""Everything that drawings read from the environment."""

import os


def permits_colours() -> bool:
    """Return whether the user and the terminal permit colours (https://no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
