"""The contests by topic; each module has a tuple CONTESTS, listed in ``catalogue``."""
