"""``kubectl tessera doctor`` and ``bundle``: checks of an installation, and what an issue needs."""
