"""Programs for people: what ``make`` and the documentation run with ``-m``."""
