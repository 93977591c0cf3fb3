"""Command line tools, which ``make`` and the documentation run with ``-m``."""
